"""Compares the time of a run of Flower's clients with a bare loop over the same clients.

    python python/benches/flower_clients.py                 # needs `pip install "fedrecsim[flower]"`
    python python/benches/flower_clients.py --at-most 1.2   # exit code 1 if the run takes more than 1.2 times the loop

The package has to be a release build (`pip install ./python`), and the machine quiet.

The clients are those of the example. The loop makes each by `client_fn`, as Flower does for every message, calls `fit`
with a copy of the model, and takes the mean of whole arrays by the number of examples. It encodes and scores nothing,
and knows neither network nor time; the run scores one user, after its last round. Both train on the same samples, which
the simulator has drawn and which were recorded, on one thread. Each is repeated, and the least processor time counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import fedrecsim  # noqa: E402
import flower_client  # noqa: E402
from fedrecsim import flower  # noqa: E402
from loop import Facts, scenario  # noqa: E402


def recorded(given: dict) -> list[list[tuple[int, flower.Partition]]]:
    """Returns the user and the samples of every training of a run, by rounds."""
    rounds: list[list[tuple[int, flower.Partition]]] = []

    def round_began(number: int) -> dict:
        rounds.extend([] for _ in range(number - len(rounds)))
        return {}

    def client_fn(context):
        if rounds:
            rounds[-1].append((context.node_config["partition-id"], flower.partition(context)))
        return flower_client.client_fn(context)

    config = flower_client.FlowerFedMF.parameters
    flower.method(
        client_fn, name="recording", score_fn=flower_client.scores, on_fit_config_fn=round_began, run_config=config
    )
    fedrecsim.run(given | {"method": {"recording": given["method"]["flower-fedmf"]}}, threads=1, progress=False)
    return [sorted(trained, key=lambda of_user: of_user[0]) for trained in rounds]


def loop(parameters: dict, users: int, rounds: list[list[tuple[int, flower.Partition]]]) -> float:
    """Trains the clients in a bare loop, and returns the seconds."""
    method = flower_client.FlowerFedMF(fedrecsim.Problem(Facts(users, 1000)), **parameters)
    began = time.process_time()
    contexts = [method.context(user) for user in range(users)]
    model = flower_client.client_fn(contexts[0]).numpy_client.get_parameters({})
    for number, trained in enumerate(rounds, start=1):
        sums, weight = [np.zeros_like(array) for array in model], 0
        for user, samples in trained:
            flower.attach(contexts[user], samples)
            client = flower_client.client_fn(contexts[user]).numpy_client
            arrays, examples, _ = client.fit([array.copy() for array in model], {"server-round": number})
            for of_array, array in zip(sums, arrays):
                of_array += examples * array
            weight += examples
        model = [of_array / np.float32(weight) for of_array in sums]
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3, help="local epochs; fewer make the clients' own work shorter")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--at-most", type=float, help="the most times the loop that fedrecsim may take")
    chosen = parser.parse_args()
    given = scenario("flower-fedmf", chosen.users, chosen.rounds, chosen.dimension)
    given["method"] = {"flower-fedmf": {"latent-dimension": chosen.dimension, "local-epochs": chosen.epochs}}
    rounds = recorded(given)
    parameters = flower_client.FlowerFedMF.parameters | given["method"]["flower-fedmf"]
    samples = [len(samples.items) for trained in rounds for _, samples in trained]
    mean = statistics.mean(samples)
    print(f"flower-fedmf: {len(samples)} trainings of {mean:.0f} samples in {chosen.epochs} local epochs")
    ours, bare = [], []
    for _ in range(chosen.repeats):
        simulation = fedrecsim.Simulation(given, threads=1)
        began = time.process_time()
        simulation.step_until(round=chosen.rounds)
        ours.append(time.process_time() - began)
        simulation.finish()
        bare.append(loop(parameters, chosen.users, rounds))
    each, ratio = 1e6 / len(samples), min(ours) / min(bare)
    print(f"bare loop  {min(bare):7.3f} s, {min(bare) * each:7.0f} us a training")
    print(f"fedrecsim  {min(ours):7.3f} s, {min(ours) * each:7.0f} us a training, {ratio:.2f} times the loop")
    if chosen.at_most is not None and ratio > chosen.at_most:
        sys.exit(f"fedrecsim takes {ratio:.2f} times the loop, and may take {chosen.at_most}")


if __name__ == "__main__":
    main()
