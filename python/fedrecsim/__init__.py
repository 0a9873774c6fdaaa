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

from . import flower, metrics, records, testing
from ._errors import FedrecsimError, MissingFileError, ScenarioError, WrongTypeError
from ._native import Received, Task, __version__
from ._order import PlannedRun
from ._track import Ended, Round, Tracker, TrackerFailed
from .compare import Comparison, compare
from .method import Block, Client, Method, Parameter, Problem, Rows, Server, Update
from .reference import Key, MethodDescription, explain
from .reference import methods as methods
from .run import Picture, Run, UserVectors
from .running import RunStopped, estimate, resolve, run
from .simulation import Simulation
from .study import Study, study
from .table import Table

__all__ = [
    "Block",
    "Client",
    "Comparison",
    "Ended",
    "FedrecsimError",
    "Key",
    "Method",
    "MethodDescription",
    "MissingFileError",
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
    "UserVectors",
    "WrongTypeError",
    "__version__",
    "compare",
    "estimate",
    "explain",
    "flower",
    "methods",
    "metrics",
    "records",
    "resolve",
    "run",
    "study",
    "testing",
]
