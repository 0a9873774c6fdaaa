"""A simulator of federated recommendation.

It answers what a method's accuracy costs in bytes, in time and in privacy. Every frame is really encoded and decoded,
and time is virtual.

>>> import fedrecsim
>>> run = fedrecsim.run({
...     "method": "fedmf",
...     "dataset": {"name": "generated", "generator": {"users": 30, "items": 200}},
...     "training": {"rounds": 2},
...     "codec": {"uplink": "rows-f32"},
... }, progress=False)
>>> run.accuracy["test"]["hr@10"] >= 0.0
True
"""

from . import flower, testing
from ._native import FedrecsimError, Received, ScenarioError, Task, __version__
from ._order import PlannedRun
from ._track import Ended, Round, Tracker, TrackerFailed
from .compare import Comparison, compare
from .method import Block, Client, Method, Parameter, Problem, Rows, Server, Update
from .method import methods as methods
from .run import Picture, Run, RunStopped, estimate, resolve, run
from .simulation import Simulation
from .study import Study, study
from .table import Table

__all__ = [
    "Block",
    "Client",
    "Comparison",
    "Ended",
    "FedrecsimError",
    "Method",
    "Parameter",
    "Picture",
    "PlannedRun",
    "Problem",
    "Received",
    "Round",
    "Rows",
    "Run",
    "RunStopped",
    "ScenarioError",
    "Server",
    "Simulation",
    "Study",
    "Table",
    "Task",
    "Tracker",
    "TrackerFailed",
    "Update",
    "__version__",
    "compare",
    "estimate",
    "flower",
    "methods",
    "resolve",
    "run",
    "study",
    "testing",
]
