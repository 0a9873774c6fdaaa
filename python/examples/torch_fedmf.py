"""FedMF in PyTorch, in 40 lines: a private user vector and a shared item table, by autograd.

    python python/examples/torch_fedmf.py scenarios/quickstart.toml
"""

import sys

import fedrecsim
import numpy as np
import torch
from fedrecsim import Client, Method, Rows, Update


class TorchFedMF(Method):
    name = "torch-fedmf"
    parameters = {"latent_dimension": 16, "rate_user": 0.1, "rate_items": 300.0}

    def layout(self):
        return {"V": (self.problem.items, self.latent_dimension)}

    def initial(self):
        generator = torch.Generator().manual_seed(self.problem.seed("items") >> 1)
        return {"V": torch.randn(self.problem.items, self.latent_dimension, generator=generator)}

    def client(self, user):
        return TorchClient(self, user)


class TorchClient(Client):
    state = ("u",)

    def __init__(self, method, user):
        self.method = method
        generator = torch.Generator().manual_seed(method.problem.seed("user", user) >> 1)
        self.u = (torch.rand(method.latent_dimension, generator=generator) * 2 - 1) * method.latent_dimension**-0.5

    def train(self, task):
        rows, where = np.unique(task.items, return_inverse=True)
        u = self.u.clone().requires_grad_()
        table = torch.tensor(task.model["V"][rows], requires_grad=True)
        logits = table[torch.from_numpy(where)] @ u
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor(task.labels))
        loss.backward()
        self.u = (u - self.method.rate_user * u.grad).detach()
        return Update({"V": Rows(rows, table - self.method.rate_items * table.grad)}, loss, row_visits=len(rows))

    def score(self, model, items):
        return (torch.tensor(model["V"][items]) * self.u).sum(dim=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(fedrecsim.run(sys.argv[1], set={"method": TorchFedMF}).summary)
