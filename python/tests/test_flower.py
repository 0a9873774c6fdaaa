"""Clients of Flower as a method: what they are given, what is kept of them, and what becomes of mistakes."""

from __future__ import annotations

import sys

import fedrecsim
import numpy as np
import pytest
from fedrecsim import flower

pytest.importorskip("flwr", reason="the clients of Flower need the package flwr")

import flower_client  # noqa: E402
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.client import NumPyClient  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.common import ndarrays_to_parameters  # noqa: E402

DENSE = {"codec.uplink": "dense-f32", "codec.downlink": "dense-f32"}


def digests_of(method: type, small: dict, **options) -> set[str]:
    """Returns the digests of two runs and of one that goes on from a checkpoint."""
    scenario = small | {"method": method}
    simulation = fedrecsim.Simulation(scenario)
    simulation.step_until(round=2)
    restored = fedrecsim.Simulation.restore(scenario, simulation.save())
    list(restored)
    runs = [fedrecsim.run(scenario, threads=threads, progress=False).check() for threads in (1, 3)]
    return {run.digest for run in [*runs, restored.finish()]}


def test_the_example_keeps_the_contract() -> None:
    """If this fails, the example breaks a promise that the simulator relies on, or the state of a context is lost."""
    fedrecsim.testing.contract(flower_client.FlowerFedMF)


def test_the_digest_is_stable_and_parameters_count(small) -> None:
    """If this fails, a run has another result each time, on other threads, or from a checkpoint."""
    first = digests_of(flower_client.FlowerFedMF, small)
    assert len(first) == 1
    other = fedrecsim.run(small | {"method": {"flower-fedmf": {"learning-rate-items": 1.0}}}, progress=False)
    assert other.digest not in first


def test_it_learns(small) -> None:
    """If this fails, clients of Flower are not given their items, or what they send is lost."""
    scenario = small | {"method": "flower-fedmf", "training": {"rounds": 40}}
    loss = np.asarray(fedrecsim.run(scenario, progress=False).rounds["loss"])
    assert loss[-1] < loss[0] / 2


class Odd(NumPyClient):
    """Has arrays of every kind, and writes into those that it is given."""

    log: list = []

    def __init__(self, user: int, items: int = 300) -> None:
        self.user, self.items = user, items

    def get_parameters(self, config):
        table = np.zeros((self.items, 2))
        return [table, np.arange(3), np.float32(2.0), np.ones((2, 3, 4), np.float16), np.zeros(self.items, np.float32)]

    def fit(self, parameters, config):
        Odd.log.append((config, self.user, [array.copy() for array in parameters]))
        for array in parameters:
            array += 1
        parameters[0][10:] -= 1
        parameters[0][:10] *= self.user / 60
        return parameters, self.user + 1, {}

    def evaluate(self, parameters, config):
        return 2.5, 1, {}


@pytest.fixture
def odd() -> type:
    """The method of these clients."""
    Odd.log = []
    with pytest.warns(UserWarning, match="`odd` has no `score_fn`"):
        return flower.method(lambda cid: Odd(int(cid)), name="odd")


def test_arrays_keep_shapes_and_types_and_are_averaged_by_examples(small, odd) -> None:
    """If this fails, a client gets other arrays than in Flower, or the server is not FedAvg."""
    run = fedrecsim.run(small | {"method": odd}, set=DENSE, threads=1, progress=False).check()
    like = Odd(0).get_parameters({})
    for _, _, arrays in Odd.log:
        assert [(a.dtype, a.shape) for a in arrays] == [(a.dtype, np.shape(a)) for a in like]
    last = [(user, arrays) for config, user, arrays in Odd.log if config["server-round"] == 4]
    assert len(last) == 60 and all(arrays[1][0] == 3 for _, arrays in last)
    weights = np.arange(1, 61)
    for row in (0, 200):
        sent = np.array([(arrays[0][row, 0] + (row < 10)) * (user / 60 if row < 10 else 1) for user, arrays in last])
        np.testing.assert_allclose(run.model["0"][row, 0], (weights * sent).sum() / weights.sum(), rtol=1e-5)
    assert run.model["4"].shape == (300, 1) and run.model["3"].shape == (2, 12)


def test_the_loss_is_that_of_evaluate_if_fit_tells_none(small, odd) -> None:
    """If this fails, a client that only `evaluate`s has no curve of its loss."""
    run = fedrecsim.run(small | {"method": odd}, progress=False)
    assert set(np.asarray(run.rounds["loss"])) == {2.5}


def test_an_update_of_an_item_table_has_the_rows_that_changed(small) -> None:
    """If this fails, a client that touches ten items pays for all of them."""

    class Some(Odd):
        def fit(self, parameters, config):
            parameters[0][3:13] += 0.5
            return parameters[:1], 1, {"row_visits": 20, "multiply_adds": 7}

        def get_parameters(self, config):
            return [np.zeros((300, 2), np.float32)]

    method = flower.method(lambda cid: Some(int(cid)), name="some", score_fn=lambda p, items, context: -items)
    run = fedrecsim.run(small | {"method": method}, progress=False).check()
    assert run.bytes["up"]["values"] == run.bytes["up"]["frames"] * (10 * 2 * 4 + 4)
    assert list(run.model["0"][:14, 0]) == [0.0] * 3 + [2.0] * 10 + [0.0]
    assert set(np.asarray(run.rounds["row_visits"])) == {60 * 20}
    assert set(np.asarray(run.rounds["multiply_adds"])) == {60 * 7}


def test_config_and_context_say_who_and_when(small) -> None:
    """If this fails, a client does not know its user, its round, or a seed of its own."""
    seen, contexts = [], {}

    class Asking(Odd):
        def fit(self, parameters, config):
            seen.append((config["server-round"], config["rate"], self.user, config["seed"]))
            return super().fit(parameters, config)

    def client_fn(context: Context):
        contexts[context.node_config["partition-id"]] = dict(context.node_config), dict(context.run_config)
        return Asking(context.node_config["partition-id"]).to_client()

    config = {"a": fedrecsim.Parameter(2, minimum=1), "b": "text"}
    method = flower.method(
        client_fn, name="asking", on_fit_config_fn=lambda n: {"rate": 0.5**n}, run_config=config, score_fn=scores
    )
    fedrecsim.run(small | {"method": {"asking": {"a": 3}}}, progress=False).check()
    assert {(number, rate) for number, rate, _, _ in seen} == {(n, 0.5**n) for n in (1, 2, 3, 4)}
    assert len({seed for *_, seed in seen}) == len(seen) == 240
    of_node, of_run = contexts[7]
    assert (of_node["num-partitions"], of_node["num-items"], of_run) == (60, 300, {"a": 3, "b": "text"})
    assert len({of_node["seed"] for of_node, _ in contexts.values()}) == 60
    with pytest.raises(fedrecsim.ScenarioError, match="`a` must be at least 1, found 0"):
        fedrecsim.run(small | {"method": {"asking": {"a": 0}}}, progress=False)
    assert issubclass(method, fedrecsim.Method)


def scores(parameters, items, context):
    """Scores items by their numbers."""
    return -items.astype(np.float32)


def keeping(context: Context):
    """Makes a client whose state has values of every kind, which its training needs."""

    class Keeping(NumPyClient):
        def get_parameters(self, config):
            return [np.zeros((context.node_config["num-items"], 1), np.float32)]

        def fit(self, parameters, config):
            data, state = flower.partition(context), context.state
            parameters[0][data.rated] += np.float32(0.5)
            if "arrays" in state:
                double, single = (state["arrays"][key].numpy() for key in ("double", "single"))
                settings = state["settings"]
                assert single.shape == (2, 1) and double.dtype == np.float64 and np.isnan(state["metrics"]["nan"])
                assert settings["bytes"] == b"\x00\xff" and settings["list"] == [1, 2] and settings["is"] is True
                assert "empty" in state and state["arrays"]["scalar"].numpy().shape == ()
                parameters[0][data.rated] += np.float32(double[0] + single[1, 0] + state["metrics"]["n"])
            count = state["metrics"]["n"] + 1 if "metrics" in state else 0
            arrays = {"double": np.array([0.1 * count]), "single": np.full((2, 1), count, np.float32)}
            arrays["scalar"], arrays["whole"] = np.array(5, np.float32), data.rated[:1]
            state["arrays"] = ArrayRecord({key: Array(value) for key, value in arrays.items()})
            state["metrics"] = MetricRecord({"n": count, "nan": float("nan")})
            state["settings"] = ConfigRecord({"bytes": b"\x00\xff", "list": [1, 2], "text": "ä", "is": True})
            state["empty"] = MetricRecord()
            return parameters, len(data.rated), {"train_loss": 1.0 / (1 + count)}

    return Keeping()


def test_the_state_of_a_context_is_private_and_lasts(small) -> None:
    """If this fails, what a client keeps is lost between rounds or in a checkpoint, or comes back as something else."""
    method = flower.method(keeping, name="keeping", score_fn=scores)
    assert len(digests_of(method, small)) == 1
    run = fedrecsim.run(small | {"method": method}, progress=False).check()
    assert list(np.asarray(run.rounds["loss"])) == [1.0, 0.5, pytest.approx(1 / 3), 0.25]
    fedrecsim.testing.contract(method)


def test_a_private_number_in_an_update_is_found(small) -> None:
    """If this fails, the contract does not see that a client sends its private part."""

    def leaking(context):
        made = flower_client.FlowerClient(context, flower.partition(context))
        fit = made.fit

        def leak(parameters, config):
            (table,), *rest = fit(parameters, config)
            table[0] = flower_client.user_vector(context)
            return [table], *rest

        made.fit = leak
        return made

    config = flower_client.FlowerFedMF.parameters
    method = flower.method(leaking, name="leaking", score_fn=flower_client.scores, run_config=config)
    with pytest.raises(fedrecsim.FedrecsimError, match="[Pp]rivate"):
        fedrecsim.testing.contract(method)


def app_of_messages() -> ClientApp:
    """Returns the example's client as an app with a function for messages."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = flower_client.client_fn(context).numpy_client
        record = message.content["arrays"]
        arrays, examples, metrics = client.fit(record.to_numpy_ndarrays(), dict(message.content["config"]))
        reply = {"arrays": ArrayRecord(dict(zip(record, map(Array, arrays))))}
        reply["metrics"] = MetricRecord(metrics | {"num-examples": examples})
        return Message(RecordDict(reply), reply_to=message)

    return app


def test_apps_do_what_their_clients_do(small) -> None:
    """If this fails, a ClientApp gives another result than its clients, or its mods are left out."""
    passed = []

    def mod(message, context, call_next):
        passed.append(message.metadata.message_type)
        return call_next(message, context)

    def initial(context):
        return flower_client.client_fn(context).numpy_client.get_parameters({})

    options = {"name": "app", "score_fn": flower_client.scores, "run_config": flower_client.FlowerFedMF.parameters}
    methods = [
        flower.method(flower_client.client_fn, **options),
        flower.method(ClientApp(flower_client.client_fn, mods=[mod]), **options),
        flower.method(app_of_messages(), **options, initial_parameters=initial),
    ]
    digests = set()
    for method in methods:
        fedrecsim.method.register(method)
        digests.add(fedrecsim.run(small | {"method": "app"}, progress=False).check().digest)
    assert len(digests) == 1 and passed.count("train") == 240
    flower.method(app_of_messages(), **options)
    with pytest.raises(fedrecsim.ScenarioError, match="`initial_parameters`"):
        fedrecsim.run(small | {"method": "app"}, progress=False)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"arrays": ArrayRecord([np.zeros((300, 1))])}, "the integer metric `num-examples`"),
        ({"metrics": MetricRecord({"num-examples": 1})}, "must have one ArrayRecord"),
        ({"arrays": ArrayRecord({"V": Array(np.zeros(3))}), "m": MetricRecord({"num-examples": 1})}, r"are \['V'\]"),
        ({}, "must have one ArrayRecord"),
    ],
    ids=str,
)
def test_a_reply_that_cannot_be_read_ends_the_run(small, reply, told) -> None:
    """If this fails, an app that leaves something out of its reply ends in an error of the inside."""
    app = ClientApp()
    app.train()(lambda message, context: Message(RecordDict(reply), reply_to=message))
    flower.method(app, name="replying", initial_parameters=[np.zeros((300, 1))], score_fn=scores)
    with pytest.warns(fedrecsim.RunStopped, match=rf"round 1 \(user \d+\): .*{told}"):
        fedrecsim.run(small | {"method": "replying"}, progress=False)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([np.zeros((300, 1))], ["0"]),
        (ndarrays_to_parameters([np.zeros((300, 1))]), ["0"]),
        (ArrayRecord({"V.weight": Array(np.zeros((300, 1)))}), ["V.weight"]),
        ({"V": np.zeros((300, 1))}, ["V"]),
        (lambda context: [np.zeros((context.node_config["num-items"], 1))], ["0"]),
    ],
    ids=["arrays", "Parameters", "ArrayRecord", "dictionary", "function"],
)
def test_the_parameters_at_the_start_may_be_given(small, given, names) -> None:
    """If this fails, a client without `get_parameters` cannot run, or blocks have other names."""

    class Without(NumPyClient):
        def fit(self, parameters, config):
            return [parameters[0] + 1.0], 1, {}

    method = flower.method(lambda context: Without(), name="without", initial_parameters=given, score_fn=scores)
    run = fedrecsim.run(small | {"method": method}, progress=False).check()
    assert list(run.model) == names and run.model[names[0]][0, 0] == 4.0
    flower.method(lambda context: Without(), name="without", score_fn=scores)
    with pytest.raises(fedrecsim.ScenarioError, match="`get_parameters` returned no arrays"):
        fedrecsim.run(small | {"method": "without"}, progress=False)


V = np.zeros((300, 1), np.float32)


@pytest.mark.parametrize(
    ("fitted", "told"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero (test_flower.py, line"),
        (lambda: ([V, V], 1, {}), "returned 2 arrays, and the model has 1"),
        (lambda: ([], 1, {}), "returned 0 arrays"),
        (lambda: ([V.T], 1, {}), "array `0` with the shape (1, 300) and the type float32, and the model has (300, 1)"),
        (lambda: ([V.astype(int)], 1, {}), "type int64, and the model has (300, 1) and float32"),
        (lambda: ([V * np.nan], 1, {}), "0 reached NaN"),
        (lambda: ([V], 0, {}), "returned 0 as the number of examples"),
        (lambda: ([V], 1.5, {}), "the number of examples and a dictionary"),
        (lambda: ([V], None, {}), "the number of examples and a dictionary"),
        (lambda: ([V], 1), "`fit` must return a list of arrays"),
        (lambda: None, "`fit` must return a list of arrays"),
        (lambda: ([V], 1, {"train_loss": "high"}), "could not convert string to float"),
        (lambda: ([V], 1, {"train_loss": float("nan")}), "local loss reached NaN"),
    ],
)
def test_a_mistake_names_the_client_and_the_round_and_leaves_the_rounds_before(small, fitted, told) -> None:
    """If this fails, a mistake in a client costs the finished rounds, or its author looks for it among all users."""

    class Failing(NumPyClient):
        def __init__(self, context):
            self.user = context.node_config["partition-id"]

        def get_parameters(self, config):
            return [V]

        def fit(self, parameters, config):
            return fitted() if (self.user, config["server-round"]) == (3, 2) else (parameters, 1, {})

    flower.method(Failing, name="failing", score_fn=scores)
    with pytest.warns(fedrecsim.RunStopped):
        run = fedrecsim.run(small | {"method": "failing"}, progress=False)
    assert told in run.stopped_by and "round 2 (user 3)" in run.stopped_by, run.stopped_by
    assert run.record["rounds"] == 1 and len(run.rounds) == 1


def test_a_client_may_compute_in_double_precision(small) -> None:
    """If this fails, a client of Flower that returns what NumPy makes of its own accord does not run unchanged."""

    class Double(NumPyClient):
        kind: type = np.float64

        def __init__(self, context):
            pass

        def get_parameters(self, config):
            return [V]

        def fit(self, parameters, config):
            return [(parameters[0] + 0.5).astype(self.kind)], 1, {}

    class Single(Double):
        kind = np.float32

    digests = set()
    for client in (Double, Single):
        flower.method(client, name=client.__name__.lower(), score_fn=scores)
        run = fedrecsim.run(small | {"method": client.__name__.lower()}, progress=False)
        digests.add(run.record["state_digest"])
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("client", "told"),
    [
        (lambda context: None, "`client_fn` must return a NumPyClient"),
        (lambda context: 1 / 0, "ZeroDivisionError"),
        (lambda context: type("Texts", (NumPyClient,), {"get_parameters": lambda self, c: ["a"]})(), "none of numbers"),
        (lambda context: type("One", (NumPyClient,), {"get_parameters": lambda self, c: V})(), "be a list of arrays"),
    ],
)
def test_a_client_that_cannot_be_made_is_refused_before_the_run(small, client, told) -> None:
    """If this fails, the mistake shows only in the middle of a run."""
    flower.method(client, name="unmade", score_fn=scores)
    with pytest.raises(fedrecsim.ScenarioError, match=told):
        fedrecsim.run(small | {"method": "unmade"}, progress=False)


def test_what_is_no_client_is_refused(monkeypatch) -> None:
    """If this fails, a mistaken argument is told in words of the inside, or nobody learns that Flower is missing."""
    for wrong in (None, NumPyClient(), lambda: None, lambda context, more: None):
        with pytest.raises(fedrecsim.ScenarioError, match="must be a ClientApp or a function of a context"):
            flower.method(wrong, name="wrong", score_fn=scores)
    with pytest.raises(fedrecsim.FedrecsimError, match="a context that fedrecsim has not made"):
        flower.partition(Context(0, 1, {}, RecordDict(), {}))
    monkeypatch.setitem(sys.modules, "flwr.clientapp", None)
    with pytest.raises(fedrecsim.FedrecsimError, match=r'pip install "fedrecsim\[flower\]"'):
        flower.method(keeping, name="wrong", score_fn=scores)


def test_a_checkpoint_tells_that_the_clients_have_changed() -> None:
    """If this fails, a run goes on from a checkpoint with another client's code."""
    here = flower.method(keeping, name="versions", score_fn=scores)
    elsewhere = flower.method(flower_client.client_fn, name="versions", score_fn=scores)
    assert here._version != elsewhere._version
    assert (here.__module__, elsewhere.__module__) == (__name__, "flower_client")
