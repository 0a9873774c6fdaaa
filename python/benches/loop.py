"""Compares the time of a run whose method is written in Python with a bare loop around the same clients, and with
the same clients in Flower's simulation.

    python python/benches/loop.py                  # fedrecsim beside a bare loop
    python python/benches/loop.py --torch          # with the example in PyTorch
    python python/benches/loop.py --flower         # and Flower; needs `pip install "flwr[simulation]"`
    python python/benches/loop.py --at-most 1.2    # exit code 1 if fedrecsim takes more than 1.2 times the loop

The package has to be a release build (`pip install ./python`), and the machine quiet.

The loop trains the clients of the example (NumPy, or PyTorch with --torch) on the samples that the simulator has drawn,
which were recorded, and averages what they send. It scores and encodes nothing, and knows neither network nor time; the
run scores one user, after its last round. All three do their work on one thread, one after the other; each is repeated,
and the fastest counts. What counts of the loop and of fedrecsim is processor time, which other programs on the machine
disturb least; Flower works in processes of its own, whose time is that of the wall clock.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import fedrecsim  # noqa: E402
from fedrecsim.method import Problem  # noqa: E402


def scenario(method: str, users: int, rounds: int, dimension: int) -> dict:
    """Returns a scenario whose last round alone is evaluated."""
    return {
        "seed": 1,
        "method": {method: {"latent_dimension": dimension}},
        "dataset": {"name": "generated", "generator": {"users": users, "items": 1000, "ratings_per_user": 40}},
        "training": {"rounds": rounds},
        "evaluation": {"every_rounds": rounds, "users": 1},
        "codec": {"uplink": "rows-f32", "downlink": "dense-f32"},
        "network": {"preset": "wifi-2020"},
    }


class Recorded:
    """A participation that was recorded, without the model."""

    def __init__(self, task) -> None:
        self.user, self.round = task.user, task.round
        self.items, self.labels, self.rated = task.items, task.labels, task.rated
        self.model: dict = {}


class Facts:
    """The problem, for clients that no simulator makes."""

    def __init__(self, users: int, items: int) -> None:
        self.users, self.items = users, items

    def seed(self, name: str, user: int | None) -> int:
        """Returns the same number in every process, so that Flower's workers train the clients of the loop."""
        return int.from_bytes(hashlib.blake2b(f"{name}/{user}".encode(), digest_size=4).digest(), "little")


def recorded(cls: type, given: dict) -> list[Recorded]:
    """Returns the participations of a run, in the loop's order of training."""
    tasks: list[Recorded] = []
    plain = cls.client

    def client(self, user):
        made = plain(self, user)
        train = made.train
        made.train = lambda task: tasks.append(Recorded(task)) or train(task)
        return made

    cls.client = client
    try:
        fedrecsim.run(given, threads=1, progress=False)
    finally:
        cls.client = plain
    return sorted(tasks, key=lambda task: (task.round, task.user))


def loop(cls: type, parameters: dict, users: int, items: int, tasks: list[Recorded]) -> float:
    """Trains the clients in a bare loop, and returns the seconds."""
    method = cls(Problem(Facts(users, items)), **parameters)
    model = {name: np.asarray(block, dtype=np.float32) for name, block in method.initial().items()}
    began = time.process_time()
    clients: dict = {}
    sums, weight, round_ = {name: np.zeros(block.shape) for name, block in model.items()}, 0, 1
    for task in [*tasks, None]:
        if task is None or task.round != round_:
            for name, block in model.items():
                model[name] = (block + sums[name] / max(weight, 1)).astype(np.float32)
                sums[name][:] = 0.0
            weight = 0
            if task is None:
                break
            round_ = task.round
        if task.user not in clients:
            clients[task.user] = method.client(task.user)
        task.model = model
        update = clients[task.user].train(task)
        for name, rows in update.blocks.items():
            values = rows.values.detach().numpy() if hasattr(rows.values, "detach") else rows.values
            # The mean of whole tables, by the differences of the rows that were trained.
            sums[name][rows.rows] += values - model[name][rows.rows]
        weight += 1
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", action="store_true", help="the example in PyTorch")
    parser.add_argument("--flower", action="store_true", help="the same clients in Flower as well")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--at-most", type=float, help="the most times the loop that fedrecsim may take")
    chosen = parser.parse_args()
    if chosen.torch:
        import torch
        from torch_fedmf import TorchFedMF as cls

        torch.set_num_threads(1)
        parameters = {"latent_dimension": chosen.dimension, "rate_user": 0.1, "rate_items": 300.0}
    else:
        from numpy_fedmf import NumpyFedMF as cls

        rates = {"learning_rate_user": 0.1, "learning_rate_items": 300.0}
        parameters = {"latent_dimension": chosen.dimension, "local_epochs": 1, **rates}
    given = scenario(cls.name, chosen.users, chosen.rounds, chosen.dimension)
    tasks = recorded(cls, given)
    print(f"{cls.name}: {len(tasks)} trainings of {statistics.mean(len(t.items) for t in tasks):.0f} samples")
    ours, walls, bare = [], [], []
    for _ in range(chosen.repeats):
        simulation = fedrecsim.Simulation(given, threads=1)
        began, began_wall = time.process_time(), time.perf_counter()
        simulation.step_until(round=chosen.rounds)
        ours.append(time.process_time() - began)
        walls.append(time.perf_counter() - began_wall)
        simulation.finish()
        bare.append(loop(cls, parameters, chosen.users, 1000, tasks))
    each = 1e6 / len(tasks)
    print(f"bare loop  {min(bare):7.3f} s, {min(bare) * each:7.0f} us a training")
    ratio = min(ours) / min(bare)
    print(f"fedrecsim  {min(ours):7.3f} s, {min(ours) * each:7.0f} us a training, {ratio:.2f} times the loop")
    print(f"           {min(walls):7.3f} s by the wall clock")
    if chosen.flower:
        import flower_loop

        seconds = flower_loop.seconds(cls, parameters, chosen.users, 1000, tasks, chosen.rounds)
        times = f"{seconds / min(walls):.1f} times fedrecsim by the wall clock"
        print(f"Flower     {seconds:7.3f} s, {seconds * each:7.0f} us a training, {times}")
    if chosen.at_most is not None and ratio > chosen.at_most:
        sys.exit(f"fedrecsim takes {ratio:.2f} times the loop, and may take {chosen.at_most}")


if __name__ == "__main__":
    main()
