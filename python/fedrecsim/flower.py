"""Flower's clients as a method of the simulator. It needs Flower: `pip install "fedrecsim[flower]"`.

`method` makes a method of a `client_fn` whose clients are `NumPyClient`s, or of a `ClientApp`. Every user of the data
set is a client, and the server is FedAvg. Network, codecs, dropouts, bytes and virtual time are those of the scenario.

    def client_fn(context):
        return FlowerClient(flower.partition(context)).to_client()

    Mine = flower.method(client_fn, name="mine", score_fn=scores)
    fedrecsim.run("scenarios/quickstart.toml", set={"method": Mine})

- `context.node_config` has `partition-id`, the user's number from 0 on, `num-partitions`, `num-items`, and `seed`, a
  number of the run for this user alone. `context.run_config` has the parameters in the scenario.
- `partition(context)` returns the user's training items, and takes the place of a project's `load_data(partition_id)`.
- `config` has `server-round`, counted from 1, `seed`, a number for this training alone, and what `on_fit_config_fn`
  returns.
- As in Flower, `client_fn` makes a new client for every message, and what is to last goes into `context.state`. That is
  the private part: it never travels, and belongs to digests and checkpoints. Attributes of a client are lost.
- The arrays of the first `get_parameters` are the model. They travel in single precision, and clients get them in their
  own types. One whose first dimension is the number of items is an item table; its update has the rows that changed.
"""

from __future__ import annotations

import inspect
import io
import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Callable, ClassVar, Mapping, Sequence

import numpy as np

from . import _flower, _native
from ._arrays import Anything, Integers, Matrix, Values
from ._flower import Config
from .method import Array, Block, Client, Method, Parameter, Problem, Rows, Update

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.clientapp import ClientApp

    from ._native import Task


@dataclass(frozen=True)
class Partition:
    """The training items of a user. There are none where a client is made for `get_parameters`.

    `items` (int64) and `labels` (float32: 1, or 0 for negatives) are the samples of this training, drawn as
    `dataset.negatives` says. `rated` (int64, ascending) are the user's own items, with their `ratings` (float32).
    """

    items: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    labels: Values = field(default_factory=lambda: np.empty(0, np.float32))
    rated: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    ratings: Values = field(default_factory=lambda: np.empty(0, np.float32))


#: The training items where there are none.
NOTHING = Partition()


def partition(context: Context) -> Partition:
    """Returns the training items of the user whose client is being made or trained.

    Raises FedrecsimError for a context of another simulator, such as Flower's own.
    """
    found = getattr(context, "_partition", None)
    if not isinstance(found, Partition):
        raise _native.FedrecsimError("`partition` was given a context that fedrecsim has not made")
    return found


def method(
    client: Callable[..., object] | ClientApp,
    *,
    name: str = "flower",
    score_fn: Callable[[list[Anything], Integers, Context], Array] | None = None,
    initial_parameters: object = None,
    on_fit_config_fn: Callable[[int], Config] | None = None,
    run_config: Mapping[str, bool | int | float | str | Parameter] | None = None,
    loss: str = "train_loss",
) -> type[Method]:
    """Makes a method of Flower's clients, which scenarios can name from then on.

    `client` is a `client_fn` of a context (or of a `cid`, as it once was), or a `ClientApp`.

    `score_fn(parameters, items, context)` returns the score of each of `items` (int64, of the shape (n,)), an array of
    that shape, with the downloaded arrays, which have the shapes of the start and cannot be written to. It has the user's `context.state`, and no training items. Without it, all scores are 0,
    and the figures of accuracy say nothing.

    `initial_parameters` are arrays, Flower's `Parameters`, an `ArrayRecord`, or a function of a context that returns
    one of these; an `ArrayRecord` or a dictionary also names the blocks. By default, the client of user 0 is asked by
    `get_parameters`, without training items. A `ClientApp` with functions for messages has to be given them.

    `run_config` has the parameters of the method with their defaults. `loss` is the metric of `fit` that is the local
    loss. If `fit` has none, a `NumPyClient` is asked by `evaluate`, with the arrays that `fit` has returned; without
    that, it is 0. The metrics `row_visits` (by default the number of examples) and `multiply_adds` (0) are the work of
    a training, which takes virtual time.

    Raises FedrecsimError without Flower, and ScenarioError for a client or a name that cannot be used.
    """
    node = _flower.node(client)
    if score_fn is None:
        warnings.warn(f"`{name}` has no `score_fn`: its figures of accuracy say nothing", stacklevel=2)
    # The digest of a method's code, for checkpoints, is that of the module that its clients are in.
    module = client.__module__ if inspect.isfunction(client) else sys._getframe(1).f_globals["__name__"]
    attributes = {
        "__module__": module,
        "name": name,
        "parameters": dict(run_config or {}),
        "options": Options(node, score_fn, initial_parameters, on_fit_config_fn, loss),
    }
    return type(name, (FlowerMethod,), attributes)


@dataclass(frozen=True)
class Options:
    """What `method` was given."""

    node: _flower.Direct | _flower.Messages
    score_fn: Callable[[list[Anything], Integers, Context], Array] | None
    initial_parameters: object
    on_fit_config_fn: Callable[[int], Config] | None
    loss: str


class FlowerMethod(Method):
    """FedAvg over Flower's clients. `method` makes its subclasses."""

    summary = "clients of Flower, with FedAvg"
    source = "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017"
    weighted = True
    options: ClassVar[Options]

    def __init__(self, problem: Problem, **run_config: bool | int | float | str) -> None:
        self.problem, self.run_config = problem, run_config

    def context(self, user: int) -> Context:
        """Makes the context of a user, whose state is empty."""
        from flwr.app import Context, RecordDict

        try:
            seed = self.problem.seed("flower", user) >> 1
        except _native.ScenarioError:
            seed = 0  # Only the shapes of the model are asked for, before there is randomness.
        of_user: dict[str, bool | int | float | str] = {"partition-id": user, "seed": seed}
        of_user |= {"num-partitions": self.problem.users, "num-items": self.problem.items}
        made = Context(0, user + 1, of_user, RecordDict(), dict(self.run_config))
        attach(made, NOTHING)
        return made

    @cached_property
    def start(self) -> dict[str, Anything]:
        """The arrays that the server starts with, by the names of their blocks: each of the shape and the type that the
        clients have given it. They travel as `blocks`, in single precision."""
        given, context = self.options.initial_parameters, self.context(0)
        if given is None:
            given = self.options.node.initial(context)
        elif callable(given):
            given = given(context)
        named = _named(given)
        if not named:
            raise ValueError("`get_parameters` returned no arrays; write it, or give `method` the `initial_parameters`")
        for name, array in named.items():
            if array.dtype.kind not in "fiu":
                raise TypeError(f"the array `{name}` of the model has the type {array.dtype}, which is none of numbers")
        return named

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """The blocks that the arrays travel as: all dimensions but the first become columns."""
        items, blocks = self.problem.items, {}
        for name, array in self.start.items():
            is_items = array.ndim > 0 and len(array) == items
            rows = len(array) if is_items or array.ndim > 1 else 1
            blocks[name] = Block(rows, array.size // max(rows, 1), items=is_items)
        return blocks

    def layout(self) -> Mapping[str, Block]:
        return self.blocks

    def initial(self) -> Mapping[str, Anything]:
        return {name: array.reshape(block.rows, block.columns) for (name, block), array in self._pairs()}

    def _pairs(self) -> list[tuple[tuple[str, Block], Anything]]:
        return list(zip(self.blocks.items(), self.start.values()))

    def arrays(self, model: Mapping[str, Matrix], copy: bool) -> list[Anything]:
        """Returns the arrays of a downloaded model, in the order, shapes and types of the start."""
        found = []
        for name, like in self.start.items():
            table = model[name]
            if like.dtype.kind in "iu":
                table = np.rint(table)
            found.append(table.astype(like.dtype, copy=copy).reshape(like.shape))
        return found

    def changes(self, model: Mapping[str, Matrix], arrays: Sequence[Anything]) -> dict[str, Matrix | Rows]:
        """Returns what travels of the arrays that `fit` has returned."""
        if len(arrays) != len(self.start):
            raise ValueError(f"`fit` returned {len(arrays)} arrays, and the model has {len(self.start)}")
        update: dict[str, Matrix | Rows] = {}
        for ((name, block), like), value in zip(self._pairs(), arrays):
            array = np.asarray(value)
            # All arrays travel in single precision, so a client may compute in another one.
            is_alike = array.dtype == like.dtype or array.dtype.kind == like.dtype.kind == "f"
            if array.shape != like.shape or not is_alike:
                raise ValueError(
                    f"`fit` returned the array `{name}` with the shape {array.shape} and the type {array.dtype}, and "
                    f"the model has {like.shape} and {like.dtype}"
                )
            table = np.ascontiguousarray(array, np.float32).reshape(block.rows, block.columns)
            update[name] = _changed(model[name], table) if block.items else table
        return update

    def client(self, user: int) -> Client:
        return UserClient(self, user)


class UserClient(Client):
    """A user of Flower's clients, whose context lasts. Its state is that of the context, packed into two arrays."""

    state = ("numbers", "records")

    def __init__(self, method: FlowerMethod, user: int) -> None:
        self.method, self.node_context = method, method.context(user)

    def train(self, task: Task) -> Update:
        options, context = self.method.options, self.node_context
        config: dict[str, _flower.Scalar] = {"server-round": task.round, "seed": task.seed("flower") >> 1}
        if options.on_fit_config_fn is not None:
            config.update(options.on_fit_config_fn(task.round))
        attach(context, Partition(task.items, task.labels, task.rated, task.ratings))
        try:
            arrays = self.method.arrays(task.model, copy=True)
            trained, examples, metrics = options.node.fit(context, dict(zip(self.method.start, arrays)), config)
            blocks = self.method.changes(task.model, trained)
            loss = metrics.get(options.loss)
            if loss is None:
                loss = options.node.loss(context, trained, config)
        finally:
            # A user who scores has no training items, whether she has just trained or comes from a checkpoint.
            attach(context, NOTHING)
        if examples < 1:
            # FedAvg cannot divide by the examples of a round in which nobody has any.
            raise ValueError(f"`fit` returned {examples} as the number of examples, which must be 1 or more")
        visits, adds = metrics.get("row_visits", examples), metrics.get("multiply_adds", 0)
        return Update(blocks, float(loss), float(examples), int(visits), int(adds))

    def score(self, model: Mapping[str, Matrix], items: Integers) -> Array:
        score_fn = self.method.options.score_fn
        if score_fn is None:
            return np.zeros(len(items), np.float32)
        return score_fn(self.method.arrays(model, copy=False), items, self.node_context)

    @property
    def numbers(self) -> Values:
        """The values of all arrays of single precision, one after the other."""
        return _flower.packed(self.node_context.state)[0]

    @numbers.setter
    def numbers(self, values: Values) -> None:
        self._numbers = values

    @property
    def records(self) -> Integers:
        """All else of the state, as the words of a text."""
        return _flower.packed(self.node_context.state)[1]

    @records.setter
    def records(self, words: Integers) -> None:
        self.node_context.state = _flower.unpacked(self._numbers, words)


def attach(context: Context, items: Partition) -> None:
    """Makes these the training items that `partition` returns for a context."""
    setattr(context, "_partition", items)


def _changed(before: Matrix, after: Matrix) -> Matrix | Rows:
    """Returns the rows of a table that are not bit by bit what they were, or the table if that is most of them."""
    is_other = before.view(np.int32) != after.view(np.int32)
    # Eight truth values at a time, column by column, take a third of the time of `any(axis=1)`.
    words = is_other.view(np.int64) if is_other.shape[1] % 8 == 0 else is_other
    (rows,) = words.T.copy().any(axis=0).nonzero()
    return after if 2 * len(rows) > len(after) else Rows(rows, after.take(rows, axis=0))


def _named(given: object) -> dict[str, Anything]:
    """Returns copies of arrays by their names; those of a list have their places for names, as in an `ArrayRecord`."""
    if isinstance(given, Mapping):
        arrays = {str(name): value.numpy() if hasattr(value, "stype") else value for name, value in given.items()}
        return {name: np.array(array) for name, array in arrays.items()}
    if hasattr(given, "tensors"):
        given = [np.load(io.BytesIO(tensor), allow_pickle=False) for tensor in given.tensors]
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"the parameters at the start must be a list of arrays, not {type(given).__name__}")
    return {str(place): np.array(array) for place, array in enumerate(given)}
