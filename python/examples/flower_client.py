"""A client of Flower's in the simulator: federated matrix factorisation, with a private user vector.

All that is not Flower's own is `partition`, which takes the place of loading a partition of a data set, and `scores`,
by which the simulator ranks items. Run it over any network, codec and data set:

    pip install "fedrecsim[flower]"
    python python/examples/flower_client.py scenarios/quickstart.toml
"""

import sys

import fedrecsim
import numpy as np
from fedrecsim.flower import partition
from flwr.app import Array, ArrayRecord, Context
from flwr.client import NumPyClient


def user_vector(context: Context) -> np.ndarray:
    """Returns the private vector of a user, which is drawn the first time."""
    if "private" in context.state:
        return context.state["private"]["u"].numpy()
    dimension = context.run_config["latent-dimension"]
    reach = dimension**-0.5
    return np.random.default_rng(context.node_config["seed"]).uniform(-reach, reach, dimension).astype(np.float32)


class FlowerClient(NumPyClient):
    def __init__(self, context, data):
        self.context, self.data = context, data

    def get_parameters(self, config):
        shape = (self.context.node_config["num-items"], self.context.run_config["latent-dimension"])
        return [np.random.default_rng(self.context.node_config["seed"]).standard_normal(shape, dtype=np.float32)]

    def fit(self, parameters, config):
        table, u, run_config = parameters[0], user_vector(self.context), self.context.run_config
        rows, where = np.unique(self.data.items, return_inverse=True)
        for _ in range(run_config["local-epochs"]):
            of_samples = table[self.data.items]
            wrong, loss = self.logistic(of_samples @ u)
            gradient = np.zeros((len(rows), len(u)), dtype=np.float32)
            np.add.at(gradient, where, wrong[:, None] * u)
            table[rows] -= np.float32(run_config["learning-rate-items"]) * gradient
            u = u - np.float32(run_config["learning-rate-user"]) * (wrong @ of_samples)
        self.context.state["private"] = ArrayRecord({"u": Array(u)})
        return [table], len(self.data.items), {"train_loss": float(loss)}

    def evaluate(self, parameters, config):
        logits = parameters[0][self.data.items] @ user_vector(self.context)
        return float(self.logistic(logits)[1]), len(self.data.items), {}

    def logistic(self, logits):
        """Returns the gradient of the mean cross-entropy by the logits, and the mean cross-entropy."""
        share = (1.0 + np.tanh(logits / 2.0)) / 2.0
        loss = -np.log(np.where(self.data.labels == 1, share, 1 - share) + 1e-7).mean()
        return (share - self.data.labels) / len(self.data.labels), loss


def client_fn(context: Context):
    return FlowerClient(context, partition(context)).to_client()


def scores(parameters, items, context):
    # A product of matrices may round an item's score in another way when other items stand beside it.
    return (parameters[0][items] * user_vector(context)).sum(axis=1)


FlowerFedMF = fedrecsim.flower.method(
    client_fn,  # or ClientApp(client_fn)
    name="flower-fedmf",
    score_fn=scores,
    run_config={"latent-dimension": 16, "local-epochs": 3, "learning-rate-user": 1.0, "learning-rate-items": 1000.0},
)

if __name__ == "__main__":
    print(fedrecsim.run(sys.argv[1], set={"method": FlowerFedMF}).summary)
