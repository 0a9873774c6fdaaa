"""Methods that are written in Python.

A method is a class that says what travels (`layout`), what the server starts with (`initial`), and what a user does
(`client`). It runs under every network, codec, mode and fault. Its name can be written into scenarios as soon as the
class is there:

>>> import numpy as np, fedrecsim
>>> class Mean(fedrecsim.Method):
...     name = "mean"
...     def layout(self):
...         return {"p": (self.problem.items, 1)}
...     def initial(self):
...         return {"p": np.zeros((self.problem.items, 1))}
...     def client(self, user):
...         return MeanClient()
>>> class MeanClient(fedrecsim.Client):
...     def train(self, task):
...         rated = np.unique(task.items[task.labels == 1])
...         return {"p": fedrecsim.Rows(rated, np.ones((len(rated), 1)), others_scale=0.0)}, 0.0
...     def score(self, model, items):
...         return model["p"][items, 0]
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from dataclasses import dataclass
from typing import ClassVar, Mapping, Protocol, Sequence

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Integers, Matrix

#: Anything that NumPy converts to an array: an array, a tensor, or lists.
Array = npt.ArrayLike


@dataclass(frozen=True)
class Block:
    """The shape of a block that travels, and what its rows are.

    `items` says whether row j belongs to item j; otherwise rows are dense weights. Rows that an update leaves out are
    those of the download, or zero in a `statistic`, such as a gradient.
    """

    rows: int
    columns: int
    items: bool = True
    statistic: bool = False


@dataclass(frozen=True)
class Rows:
    """Some rows of a block: their numbers (ascending, each once), and their values. All others are times
    `others_scale`."""

    rows: Array
    values: Array
    others_scale: float = 1.0


@dataclass(frozen=True)
class Update:
    """What a training yields.

    `blocks` has for every block a whole array or `Rows`, and leaves the device. `row_visits` and `multiply_adds` are
    the work, which takes virtual time at the device's speed; without `row_visits` it is the number of rows in `blocks`.
    """

    blocks: Mapping[str, Array | Rows]
    loss: float
    weight: float | None = None
    row_visits: int | None = None
    multiply_adds: int = 0


@dataclass(frozen=True)
class Parameter:
    """A parameter of a method: its default, its range and its meaning."""

    default: bool | int | float | str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    doc: str = ""

    def schema(self) -> dict[str, object]:
        """Returns the JSON schema."""
        kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
        if type(self.default) not in kinds:
            raise TypeError(f"a parameter must be a truth value, a number or a text, not {type(self.default).__name__}")
        schema: dict[str, object] = {"type": kinds[type(self.default)], "default": self.default}
        if self.doc:
            schema["description"] = self.doc
        bounds = {"minimum": self.minimum, "maximum": self.maximum, "exclusiveMinimum": self.above}
        schema.update({key: value for key, value in bounds.items() if value is not None})
        return schema


class Facts(Protocol):
    """What the native module knows of a problem."""

    users: int
    items: int

    def seed(self, name: str, user: int | None) -> int:
        """Returns a number for a generator."""


class Problem:
    """What a method is told of its problem: how many users and items there are, and randomness of the run."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.users: int = facts.users
        self.items: int = facts.items

    def seed(self, name: str, user: int | None = None) -> int:
        """Returns a number for a generator that nothing else uses, for a name and, if there is one, a user."""
        return self._facts.seed(name, user)

    def rng(self, name: str, user: int | None = None) -> np.random.Generator:
        """Returns a generator of NumPy's for a name and, if there is one, a user."""
        return generator(self.seed(name, user))


def generator(seed: int) -> np.random.Generator:
    """Returns a generator whose numbers are the same in every version of NumPy that keeps its streams."""
    return np.random.Generator(np.random.PCG64(seed))


class Client:
    """The private side of a user. Only what `train` returns can leave the device.

    `state` names the attributes that are private parameters: arrays, tensors or numbers. They are part of the result's
    digest and of checkpoints; what a client keeps besides is lost when a run goes on from one.
    """

    state: ClassVar[Sequence[str]] = ()

    def train(self, task: _native.Task) -> Update | tuple[Mapping[str, Array | Rows], float]:
        """Trains on a participation, and returns what leaves the device and the mean loss.

        A block that leaves it has the shape (rows, columns) of the layout, or is `Rows`: `rows` of the shape (n,) and
        `values` of the shape (n, columns). All of them travel in single precision.
        """
        raise NotImplementedError("a client has a method `train`")

    def score(self, model: Mapping[str, Matrix], items: Integers) -> Array:
        """Returns the score of each of `items` with the downloaded model. A higher score is better.

        Blocks have the shape (rows, columns), in single precision. `items` (int64) and the scores are of the shape (n,).
        """
        raise NotImplementedError("a client has a method `score`")


class Server:
    """The server side of a method whose server does more than to average. `state` names the attributes that it
    keeps."""

    state: ClassVar[Sequence[str]] = ()

    def step(
        self, model: Mapping[str, Matrix], updates: Sequence[_native.Received], step: int
    ) -> Mapping[str, Array]:
        """Returns the next model. `updates` come in the order of users.

        A block has the shape (rows, columns) of the layout, in single precision: in `model`, in `updates` and in what is
        returned. A method with an `upload_layout` has updates of its shapes.
        """
        raise NotImplementedError("a server has a method `step`")


_entries: dict[str, _native.MethodEntry] = {}
_classes: dict[str, type[Method]] = {}


class Method:
    """A method of recommendation. A class with a `name` can be named in scenarios from then on.

    `parameters` are the keys of `[method.NAME]` with their defaults, each a value or a `Parameter`; an object has them
    as attributes. `rules` says how the server steps a block, as `{"V": {"combine": "mean", "optimizer": "plain",
    "rate": 1.0}}`; without a rule it takes the mean.
    """

    _version: ClassVar[str] = ""
    name: ClassVar[str] = ""
    summary: ClassVar[str] = "a method in Python"
    source: ClassVar[str] = "its author"
    parameters: ClassVar[Mapping[str, Parameter | bool | int | float | str]] = {}
    #: Whether training draws negatives as `dataset.negatives` says; otherwise a task has no samples.
    draws_negatives: ClassVar[bool] = True
    #: Whether training reads no other rows of the download than those of its samples, so that clients may download
    #: these rows alone.
    sampled_rows_only: ClassVar[bool] = False
    #: Whether scores are predictions of ratings.
    predicts_ratings: ClassVar[bool] = False
    #: Whether updates carry a weight.
    weighted: ClassVar[bool] = False
    rules: Mapping[str, Mapping[str, object]] = {}

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if "name" in cls.__dict__ and cls.name:
            register(cls)

    def __init__(self, problem: Problem, **parameters: object) -> None:
        self.problem = problem
        for key, value in parameters.items():
            setattr(self, key, value)

    def layout(self) -> Mapping[str, Block | tuple[int, int]]:
        """Returns what travels: the shape (rows, columns) of every block by its name."""
        raise NotImplementedError("a method has a `layout`")

    def upload_layout(self) -> Mapping[str, Block | tuple[int, int]] | None:
        """Returns what travels up, if that is something else."""
        return None

    def initial(self) -> Mapping[str, Array]:
        """Returns the model that the server starts with: for each block of the layout an array of its shape
        (rows, columns), which is taken in single precision."""
        raise NotImplementedError("a method has an `initial` model")

    def client(self, user: int) -> Client:
        """Makes the private side of a user, as it is before its first participation."""
        raise NotImplementedError("a method has a `client`")

    def server(self) -> Server | None:
        """Makes the server side as it is before the first round. Without one, the server goes by `rules`."""
        return None


def entries() -> list[_native.MethodEntry]:
    """Returns the methods in Python that scenarios can name."""
    return list(_entries.values())


def classes() -> list[type[Method]]:
    """Returns the classes of these methods."""
    return list(_classes.values())


def register(cls: type[Method]) -> None:
    """Makes the method of a class one that scenarios can name, as every class with a `name` becomes by itself. A class
    that another process has sent needs it."""
    if taken := sorted({*dir(Method), "problem"}.intersection(cls.parameters)):
        raise _native.ScenarioError(f"`{taken[0]}` is no name for a parameter: methods have it for something else")

    def described_by(value: Parameter | bool | int | float | str) -> Parameter:
        """Returns a parameter; it may have been given as a default alone."""
        return value if isinstance(value, Parameter) else Parameter(value)

    described = {key: described_by(value) for key, value in cls.parameters.items()}
    schema = {
        "description": cls.summary,
        "type": "object",
        "properties": {key: value.schema() for key, value in described.items()},
        "additionalProperties": False,
    }
    if "_version" not in cls.__dict__:
        cls._version = _version_of(cls)
    entry = _native.MethodEntry(cls, cls.name, cls.summary, cls.source, json.dumps(schema), bool(cls.draws_negatives))
    _entries[cls.name] = entry
    _classes[cls.name] = cls


def _version_of(cls: type[Method]) -> str:
    """Returns a digest of the class's code, so that a checkpoint can tell whether a method has changed. It is worked out
    where the class is made, and travels with it."""
    texts = []
    for part in cls.__mro__:
        if part.__module__.startswith("fedrecsim.") or part is object:
            continue
        # Its clients are in the same module, as a rule. A cell of a notebook is a class at best.
        module = sys.modules.get(part.__module__)
        for place in (module if getattr(module, "__file__", None) else part, part):
            try:
                texts.append(inspect.getsource(place))  # type: ignore[arg-type]
                break
            except (OSError, TypeError):
                continue
        else:
            texts.append(part.__qualname__)
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
