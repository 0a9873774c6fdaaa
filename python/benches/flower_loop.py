"""The clients of the comparison in Flower's simulation: one node for a user, averaging by its strategy FedAvg."""

from __future__ import annotations

import functools
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation


@functools.lru_cache(maxsize=1)
def samples(path: str) -> dict:
    """Reads the recorded samples once in each process, as what a client refers to is pickled with each of its tasks."""
    return pickle.loads(Path(path).read_bytes())


def seconds(cls: type, parameters: dict, users: int, items: int, tasks: list, rounds: int) -> float:
    """Trains the clients on the recorded samples, and returns the seconds of the rounds without Flower's start."""
    by_place = {(task.round, task.user): (task.items, task.labels, task.rated) for task in tasks}
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps(by_place))
        file.flush()
        return rounds_of(cls, parameters, users, items, file.name, rounds)


def rounds_of(cls: type, parameters: dict, users: int, items: int, path: str, rounds: int) -> float:
    """Runs the rounds on the samples in the file at `path`, and returns their seconds."""
    took: list[float] = []
    client_app = ClientApp()

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        from fedrecsim.method import Problem
        from flower_loop import samples
        from loop import Facts, Recorded

        user = int(context.node_config["partition-id"])
        method = cls(Problem(Facts(users, items)), **parameters)
        client = method.client(user)
        if "u" in context.state:
            kept = context.state["u"].to_numpy_ndarrays()[0]
            client.u = kept if isinstance(client.u, np.ndarray) else client.u.new_tensor(kept)
        task = Recorded.__new__(Recorded)
        task.user, task.round = user, int(message.content["config"]["server-round"])
        task.items, task.labels, task.rated = samples(path)[task.round, user]
        task.model = {"V": message.content["arrays"].to_numpy_ndarrays()[0]}
        update = client.train(task)
        own = client.u if isinstance(client.u, np.ndarray) else client.u.numpy()
        context.state["u"] = ArrayRecord([own])
        rows = update.blocks["V"]
        values = rows.values.detach().numpy() if hasattr(rows.values, "detach") else rows.values
        table = task.model["V"].copy()
        table[rows.rows] = values
        metrics = MetricRecord({"loss": float(update.loss), "num-examples": 1})
        return Message(RecordDict({"arrays": ArrayRecord([table]), "metrics": metrics}), reply_to=message)

    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        from fedrecsim.method import Problem
        from loop import Facts

        initial = cls(Problem(Facts(users, items)), **parameters).initial()["V"]
        arrays = ArrayRecord([np.asarray(initial, dtype=np.float32)])
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=users)
        began = time.perf_counter()
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds, train_config=ConfigRecord({}))
        took.append(time.perf_counter() - began)

    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    run_simulation(server_app, client_app, num_supernodes=users, backend_config=backend)
    if not took:
        raise RuntimeError("Flower's rounds did not come to their end")
    return took[0]
