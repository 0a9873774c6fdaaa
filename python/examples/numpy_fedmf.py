"""FedMF, federated matrix factorisation for implicit feedback, in NumPy.

The user vector u is private, and the item table V is shared. The logit of item j is u . V_j, the loss is the mean
binary cross-entropy, and the server takes the mean of V. Run it over any network, codec and data set:

    python python/examples/numpy_fedmf.py scenarios/quickstart.toml
"""

import sys

import fedrecsim
import numpy as np
from fedrecsim import Client, Method, Parameter, Rows, Update


class NumpyFedMF(Method):
    name = "numpy-fedmf"
    summary = "matrix factorisation in NumPy: private user vector, averaged item table"
    source = "an example of this project, after Chai et al., Secure Federated Matrix Factorization, 2020"
    sampled_rows_only = True
    parameters = {
        "latent_dimension": Parameter(16, minimum=1, doc="Latent dimension k."),
        "local_epochs": Parameter(1, minimum=1, doc="Passes over the local samples per round."),
        "learning_rate_user": Parameter(0.1, above=0, doc="Learning rate of the user vector."),
        "learning_rate_items": Parameter(300.0, above=0, doc="Learning rate of the item rows."),
    }

    def layout(self):
        return {"V": (self.problem.items, self.latent_dimension)}

    def initial(self):
        shape = (self.problem.items, self.latent_dimension)
        return {"V": self.problem.rng("items").standard_normal(shape, dtype=np.float32)}

    def client(self, user):
        return FedMFClient(self, user)


class FedMFClient(Client):
    state = ("u",)

    def __init__(self, method, user):
        self.method = method
        reach = method.latent_dimension**-0.5
        self.u = method.problem.rng("user", user).uniform(-reach, reach, method.latent_dimension).astype(np.float32)

    def train(self, task):
        rows, where = np.unique(task.items, return_inverse=True)
        table, samples = task.model["V"][rows], len(task.items)
        for _ in range(self.method.local_epochs):
            of_samples = table[where]
            share = 1.0 / (1.0 + np.exp(-of_samples @ self.u))
            wrong = (share - task.labels) / samples
            loss = -np.log(np.where(task.labels == 1, share, 1 - share) + 1e-7).mean()
            step = np.zeros_like(table)
            np.add.at(step, where, wrong[:, None] * self.u)
            self.u = self.u - np.float32(self.method.learning_rate_user) * (wrong @ of_samples)
            table = table - np.float32(self.method.learning_rate_items) * step
        return Update({"V": Rows(rows, table)}, loss, row_visits=len(rows) * self.method.local_epochs)

    def score(self, model, items):
        # A product of matrices may round an item's score in another way when other items stand beside it.
        return (model["V"][items] * self.u).sum(axis=1)


if __name__ == "__main__":
    print(fedrecsim.run(sys.argv[1], set={"method": NumpyFedMF}).summary)
