"""How Flower's clients are asked, and how their state is packed into arrays."""

from __future__ import annotations

import inspect
import json
import math
import operator
import time
from typing import TYPE_CHECKING, Callable, Mapping, Sequence

import numpy as np

from . import _native
from ._arrays import Anything, Integers, Values

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
    from flwr.client import NumPyClient
    from flwr.clientapp import ClientApp

#: A value of `config` and of metrics.
Scalar = bool | int | float | str | bytes
Config = Mapping[str, Scalar]
#: What a training returns: arrays, the number of examples, and metrics.
Fitted = tuple[Sequence[Anything], int, Mapping[str, Scalar]]


class Direct:
    """Asks the clients that a `client_fn` makes, without messages, so that no array is serialised."""

    def __init__(self, client_fn: Callable[..., object]) -> None:
        (argument,) = inspect.signature(client_fn).parameters.values()
        self.client_fn, self.takes_cid = client_fn, argument.name == "cid" or argument.annotation in (str, "str")

    def client(self, context: Context) -> NumPyClient:
        """Makes a client, as Flower does for every message."""
        from flwr.client import NumPyClient

        made = self.client_fn(str(context.node_config["partition-id"]) if self.takes_cid else context)
        made = getattr(made, "numpy_client", made)
        if not isinstance(made, NumPyClient):
            raise TypeError(f"`client_fn` must return a NumPyClient, or what its `to_client` returns, not {made!r:.80}")
        return made

    def initial(self, context: Context) -> object:
        """Returns the arrays that a client has at the start."""
        return self.client(context).get_parameters({})

    def fit(self, context: Context, arrays: Mapping[str, Anything], config: Config) -> Fitted:
        """Trains a client."""
        returned = self.client(context).fit(list(arrays.values()), dict(config))
        is_whole = isinstance(returned, tuple) and [*map(type, returned)][::2] == [list, dict]
        if not is_whole or not hasattr(returned[1], "__index__"):
            wanted = "a list of arrays, the number of examples and a dictionary"
            raise TypeError(f"`fit` must return {wanted}, not {returned!r:.80}")
        trained, examples, metrics = returned
        return trained, operator.index(examples), metrics

    def loss(self, context: Context, arrays: Sequence[Anything], config: Config) -> float:
        """Returns the loss of arrays on the user's items, and 0 if clients cannot `evaluate`."""
        from flwr.client import NumPyClient

        client = self.client(context)
        if type(client).evaluate is NumPyClient.evaluate:
            return 0.0
        loss, _, _ = client.evaluate(list(arrays), dict(config))
        return float(loss)


class Messages:
    """Asks a `ClientApp` by messages, which go through its mods."""

    def __init__(self, app: ClientApp) -> None:
        # An app of a `client_fn` has other names for the parts of a message.
        self.app, self.of_client_fn = app, getattr(app, "_call", None) is not None

    def ask(self, context: Context, kind: str, content: Mapping[str, ArrayRecord | ConfigRecord]) -> RecordDict:
        """Returns the reply to a message of this kind."""
        from flwr.app import Message, Metadata, RecordDict

        # The clock is for the expiry of messages, and nothing of it comes into a result. A message that is given an
        # address takes its sender from a task of Flower's, which is not there.
        metadata = Metadata(context.run_id, "", 0, context.node_id, "", "", time.time(), 3600.0, kind)
        with_metadata: Callable[..., Message] = Message
        reply = self.app(with_metadata(metadata=metadata, content=RecordDict(dict(content))), context)
        if reply.has_error():
            raise RuntimeError(f"the ClientApp replied with an error: {reply.error.reason}")
        return reply.content

    def initial(self, context: Context) -> object:
        """Returns the arrays that a client has at the start, which only an app of a `client_fn` can say."""
        from flwr.app import ConfigRecord

        if not self.of_client_fn:
            raise ValueError("a ClientApp has no `get_parameters`; give `method` the `initial_parameters`")
        content = self.ask(context, "get_parameters", {"getparametersins.config": ConfigRecord()})
        return [array.numpy() for array in content.array_records["getparametersres.parameters"].values() if array.data]

    def fit(self, context: Context, arrays: Mapping[str, Anything], config: Config) -> Fitted:
        """Trains a client."""
        from flwr.app import Array, ArrayRecord, ConfigRecord

        sent = ArrayRecord({name: Array(array) for name, array in arrays.items()}), ConfigRecord(dict(config))
        names = ("fitins.parameters", "fitins.config") if self.of_client_fn else ("arrays", "config")
        content = self.ask(context, "train", dict(zip(names, sent)))
        metrics: dict[str, Scalar] = {}
        for record in content.values():
            if not isinstance(record, ArrayRecord):
                metrics.update((name, value) for name, value in record.items() if not isinstance(value, list))
        examples = metrics.get("num_examples" if self.of_client_fn else "num-examples")
        if len(content.array_records) != 1 or not isinstance(examples, int):
            raise TypeError("the reply to `train` must have one ArrayRecord and the integer metric `num-examples`")
        (trained,) = content.array_records.values()
        if not self.of_client_fn and set(trained) != set(arrays):
            raise ValueError(f"the arrays of the reply are {sorted(trained)}, and those of the model {sorted(arrays)}")
        ordered = trained.values() if self.of_client_fn else map(trained.__getitem__, arrays)
        return [array.numpy() for array in ordered if array.data], examples, metrics

    def loss(self, context: Context, arrays: Sequence[Anything], config: Config) -> float:
        """Returns 0: there is no one name for the loss in a reply to `evaluate`."""
        return 0.0


def node(client: Callable[..., object] | ClientApp) -> Direct | Messages:
    """Returns what asks clients.

    Raises FedrecsimError without Flower, and ScenarioError for what makes no clients.
    """
    try:
        from flwr.clientapp import ClientApp
    except ImportError as reason:
        text = f'clients of Flower need the package flwr: pip install "fedrecsim[flower]" ({reason})'
        raise _native.FedrecsimError(text) from None
    if isinstance(client, ClientApp):
        return Messages(client)
    if not callable(client) or len(inspect.signature(client).parameters) != 1:
        raise _native.ScenarioError(f"the client must be a ClientApp or a function of a context, not {client!r:.80}")
    return Direct(client)


def packed(state: RecordDict) -> tuple[Values, Integers]:
    """Returns a state as numbers of single precision, and as the words of a text that describes the rest.

    The numbers stand apart, because the contract suite looks for private numbers in frames.
    """
    from flwr.app import Array

    numbers = [np.empty(0, np.float32)]

    def parts(value: object) -> object:
        if not isinstance(value, Array):
            return value
        is_single = (value.dtype, value.stype) == ("float32", "numpy.ndarray")
        if is_single:
            numbers.append(value.numpy().reshape(-1))
        return value.dtype, value.shape, value.stype, b"" if is_single else value.data

    described = [
        (name, type(record).__name__, [(key, parts(value)) for key, value in record.items()])
        for name, record in state.items()
    ]
    text = json.dumps(described, default=lambda data: {"bytes": data.hex()}).encode()
    return np.concatenate(numbers), np.frombuffer(text.ljust(-(-len(text) // 8) * 8), "<i8").astype(np.int64)


def unpacked(numbers: Values, words: Integers) -> RecordDict:
    """Returns the state that `packed` has packed."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

    def array(dtype: str, shape: list[int], stype: str, data: bytes) -> Array:
        nonlocal numbers
        if data:
            return Array(dtype, tuple(shape), stype, data)
        own, numbers = np.split(numbers, [math.prod(shape)])
        return Array(own.reshape(shape))

    state, text = RecordDict(), words.astype("<i8").tobytes()
    for name, kind, cells in json.loads(text, object_hook=lambda found: bytes.fromhex(found["bytes"])):
        if kind == "ArrayRecord":
            state[name] = ArrayRecord({key: array(*parts) for key, parts in cells})
        else:
            state[name] = (MetricRecord if kind == "MetricRecord" else ConfigRecord)(dict(cells))
    return state
