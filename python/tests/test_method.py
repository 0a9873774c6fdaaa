"""Methods in Python: the contract, every world, and what becomes of mistakes."""

from __future__ import annotations

import pickle
import threading

import fedrecsim
import numpy as np
import pytest
from conftest import PATIENCE


def test_the_example_keeps_the_contract(numpy_method) -> None:
    """If this fails, the example breaks a promise that the simulator relies on."""
    fedrecsim.testing.contract(numpy_method)


def test_the_digest_is_stable(in_python) -> None:
    """If this fails, a method in Python has another result each time, or on other threads."""
    digests = {fedrecsim.run(in_python, threads=threads, progress=False).digest for threads in (1, 1, 3)}
    assert len(digests) == 1


def test_it_learns(small, in_python) -> None:
    """If this fails, what a Python client sends does not reach the server, or its scores do not count."""
    run = fedrecsim.run(in_python, set={"training.rounds": 20, "evaluation.every_rounds": 20}, progress=False)
    losses = run.rounds["loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert not np.array_equal(run.model["V"], fedrecsim.Simulation(in_python).model["V"])


def test_bytes_and_time_are_real(small, in_python) -> None:
    """If this fails, a Python method travels for free."""
    # In one batch, a row is visited once, as in the example.
    small["method"]["fedmf"]["batch_size"] = 100_000
    own, ours = (fedrecsim.run(given, progress=False) for given in (in_python, small))
    for direction in ("up", "down"):
        # The same shapes and the same samples take the same bytes.
        assert own.bytes[direction]["sent"] == ours.bytes[direction]["sent"] > 0
    assert own.virtual_time_s == ours.virtual_time_s


@pytest.mark.parametrize(
    "change",
    [
        {"codec.uplink": "dense-f32", "codec.downlink": "dense-f32"},
        {"codec.uplink": {"delta": True, "values": "int8"}, "codec.downlink": {"values": "f16"}},
        {"codec.downlink": {"select": "needed-rows"}},
        {"training.mode": {"fedbuff": {"buffer": 5, "concurrency": 20}}},
        {"training.mode": {"semi-synchronous": {"deadline_s": 5.0}}},
        {"network.dropout": 0.3},
        {"training.participation": {"share": 0.5}, "faults": [{"effect": "drop", "probability": 0.2}]},
    ],
    ids=str,
)
def test_it_runs_in_every_world(in_python, change) -> None:
    """If this fails, a Python method is not one like any other."""
    try:
        fedrecsim.resolve(in_python, set=change)
    except fedrecsim.ScenarioError as error:
        pytest.fail(f"the test's scenario is wrong: {error}")
    one, two = (fedrecsim.run(in_python, set=change, threads=n, progress=False) for n in (1, 2))
    assert one.complete and one.digest == two.digest


def test_it_goes_on_from_a_saved_state(in_python) -> None:
    """If this fails, private state of Python clients is lost in a checkpoint."""
    simulation = fedrecsim.Simulation(in_python)
    simulation.step_until(round=2)
    restored = fedrecsim.Simulation.restore(in_python, simulation.save())
    list(restored)
    assert restored.finish().digest == fedrecsim.run(in_python, progress=False).digest


class Broken(fedrecsim.Method):
    """Does what it is told to from the second round on, for user 3."""

    name = "broken"
    parameters = {"how": "", "where": "train"}
    draws_negatives = False

    def layout(self):
        return {"p": (self.problem.items, 1)}

    def initial(self):
        return {"p": np.zeros((self.problem.items, 1), dtype=np.float32)}

    def client(self, user):
        if self.how == "client" and user == 3:
            raise RuntimeError("no such user")
        return BrokenClient(self, user)


class BrokenClient(fedrecsim.Client):
    state = ("n",)

    def __init__(self, method, user):
        self.method, self.user, self.n = method, user, 0

    def train(self, task):
        self.n += 1
        value, how = np.full(task.model["p"].shape, 0.5, dtype=np.float32), ""
        if self.user == 3 and task.round == 2:
            how = self.method.how
        rows = task.rated
        return {
            "": lambda: ({"p": value}, 0.0),
            "raise": lambda: 1 / 0,
            "shape": lambda: ({"p": value[:3]}, 0.0),
            "nan": lambda: ({"p": value * np.nan}, 0.0),
            "loss": lambda: ({"p": value}, float("nan")),
            "none": lambda: None,
            "missing": lambda: ({}, 0.0),
            "unknown": lambda: ({"p": value, "q": value}, 0.0),
            "text": lambda: ({"p": "text"}, 0.0),
            "rows": lambda: ({"p": fedrecsim.Rows(rows[::-1], value[rows])}, 0.0),
            "outside": lambda: ({"p": fedrecsim.Rows(rows + 1000, value[rows])}, 0.0),
            "negative": lambda: ({"p": fedrecsim.Rows(rows - 1000, value[rows])}, 0.0),
            "values": lambda: ({"p": fedrecsim.Rows(rows, value)}, 0.0),
            "floats": lambda: ({"p": fedrecsim.Rows(rows + 0.5, value[rows])}, 0.0),
            "weight": lambda: fedrecsim.Update({"p": value}, 0.0, weight=1.0),
            "exit": lambda: exit(1),
            "state": lambda: setattr(self, "n", "text") or ({"p": value}, 0.0),
        }.get(how, lambda: ({"p": value}, 0.0))()

    def score(self, model, items):
        scores = model["p"][items, 0]
        if self.user == 3 and self.method.how.startswith("score") and self.n > 1:
            if self.method.how == "score-raise":
                raise KeyError("no score")
            if self.method.how == "score-nan":
                return scores * np.nan
            if self.method.how == "score-shape":
                return scores[1:]
        return scores


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "ZeroDivisionError: division by zero (test_method.py, line"),
        ("shape", "`p` has the shape [3, 1], but the layout says [300, 1]"),
        ("nan", "p reached NaN"),
        ("loss", "local loss reached NaN"),
        ("none", "`train` must return an Update or a pair"),
        ("missing", "the update has no block `p`"),
        ("unknown", "there is no block `q`"),
        ("text", "could not convert string to float"),
        ("rows", "not strictly ascending"),
        ("outside", "of a table of 300 rows"),
        ("negative", "are not all item numbers"),
        ("values", "instead of"),
        ("floats", "rows must be integers"),
        ("weight", "`weight`"),
        ("exit", "SystemExit: 1"),
        ("score-raise", "KeyError: 'no score' (test_method.py, line"),
        ("score-nan", "is NaN"),
        ("score-shape", "`score` returned an array of the shape"),
    ],
)
def test_a_mistake_names_the_user_and_the_round_and_leaves_the_rounds_before(small, how, told) -> None:
    """If this fails, a mistake in a method ends the interpreter, or its author looks for it among all users."""
    broken = small | {"method": {"broken": {"how": how}}}
    with pytest.warns(fedrecsim.RunStopped):
        run = fedrecsim.run(broken, progress=False)
    assert told in run.stopped_by, run.stopped_by
    assert "round 2" in run.stopped_by and "user 3" in run.stopped_by, run.stopped_by
    assert not run.complete and run.record["rounds"] == 1
    # The interpreter is alive, and so is the simulator.
    sound = small | {"method": {"broken": {"how": ""}}}
    assert fedrecsim.run(sound, progress=False).complete


def test_a_client_that_cannot_be_made_ends_the_run(small) -> None:
    """If this fails, an exception in `client` is lost."""
    with pytest.warns(fedrecsim.RunStopped, match=r"round 1 \(user 3\): RuntimeError: no such user"):
        fedrecsim.run(small | {"method": {"broken": {"how": "client"}}}, progress=False)


def test_state_that_cannot_be_saved_is_told(small) -> None:
    """If this fails, a private attribute that is no number is silently left out of the digest."""
    with pytest.raises(fedrecsim.FedrecsimError, match="`n` is neither an array"):
        simulation = fedrecsim.Simulation(small | {"method": {"broken": {"how": "state"}}})
        simulation.step_until(round=2)
        simulation.save()


def made(**attributes) -> type:
    """Returns a class of a method with these attributes."""
    return type("Odd", (Broken,), {"name": "odd", "parameters": {}, "how": "", **attributes})


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"layout": lambda self: {"p": (300,)}}, "not enough values"),
        ({"layout": lambda self: {"p": (-1, 1)}}, r"shape \(-1, 1\)"),
        ({"layout": lambda self: {"p": (0, 1)}}, r"shape \(0, 1\)"),
        ({"layout": lambda self: {"p": (300.7, 1)}}, "float"),
        ({"layout": lambda self: {}}, "a layout has a block"),
        ({"initial": lambda self: {"p": np.full((300, 1), np.nan)}}, "initial model has a value of NaN"),
        ({"upload_layout": lambda self: {"g": fedrecsim.Block(300, 1, statistic=True)}}, "block `g`, which the model"),
        ({"upload_layout": lambda self: {"p": (300, 2)}}, "another shape in `upload_layout`"),
        ({"server": lambda self: 1 / 0}, "ZeroDivisionError"),
        ({"layout": lambda self: [("p", 300, 1)]}, "a layout must be a dictionary"),
        ({"initial": lambda self: {"p": np.zeros((3, 1))}}, r"`p` has the shape \[3, 1\]"),
        ({"initial": lambda self: {}}, "the block `p` is missing"),
        ({"initial": lambda self: 1 / 0}, "ZeroDivisionError"),
        ({"rules": {"q": {}}}, "`q`"),
        ({"rules": {"p": {"combine": "median"}}}, "median"),
    ],
    ids=str,
)
def test_a_method_that_cannot_be_made_is_refused_before_the_run(small, attributes, told) -> None:
    """If this fails, a mistake in a method's description shows only in the middle of a run."""
    made(**attributes)
    with pytest.raises(fedrecsim.ScenarioError, match=told):
        fedrecsim.run(small | {"method": "odd"}, progress=False)


def test_parameters_are_checked_by_name(in_python, numpy_method) -> None:
    """If this fails, a mistyped parameter of a Python method has no effect."""
    with pytest.raises(fedrecsim.ScenarioError, match="did you mean `latent_dimension`"):
        fedrecsim.run(in_python, set={"method": {numpy_method.name: {"latent_dimensio": 3}}}, progress=False)
    with pytest.raises(fedrecsim.ScenarioError, match="latent_dimension"):
        fedrecsim.run(in_python, set={"method": {numpy_method.name: {"latent_dimension": 0}}}, progress=False)
    with pytest.raises(fedrecsim.ScenarioError, match="fedmf"):
        type("Twin", (fedrecsim.Method,), {"name": "fedmf"})


def test_a_breach_of_the_contract_is_found() -> None:
    """If this fails, the check says of a method with a flaw that it has none."""

    class Forgetful(fedrecsim.Method):
        name = "forgetful"
        draws_negatives = False

        def layout(self):
            return {"p": (self.problem.items, 1)}

        def initial(self):
            return {"p": np.zeros((self.problem.items, 1))}

        def client(self, user):
            return ForgetfulClient()

    class ForgetfulClient(fedrecsim.Client):
        def __init__(self):
            self.n = 0

        def train(self, task):
            self.n += 1
            return {"p": np.full(task.model["p"].shape, 1.0 / self.n)}, 1.0 / self.n

        def score(self, model, items):
            return model["p"][items, 0]

    with pytest.raises(fedrecsim.FedrecsimError, match="Snapshots|SavedState"):
        fedrecsim.testing.contract(Forgetful)


class Median(fedrecsim.Method):
    """Has a server of its own, which takes the median of what clients send."""

    name = "median"
    draws_negatives = False

    def layout(self):
        return {"p": fedrecsim.Block(self.problem.items, 1)}

    def initial(self):
        return {"p": np.zeros((self.problem.items, 1))}

    def client(self, user):
        return Rated()

    def server(self):
        return MedianServer()


class Rated(fedrecsim.Client):
    def train(self, task):
        own = np.array(task.model["p"])
        own[task.rated] += 1.0
        return {"p": own}, 0.0

    def score(self, model, items):
        return model["p"][items, 0]


class MedianServer(fedrecsim.Server):
    state = ("steps", "last")

    def __init__(self):
        self.steps, self.last = 0, np.zeros(0)

    def step(self, model, updates, step):
        assert self.steps == step and [u.user for u in updates] == sorted(u.user for u in updates)
        self.steps += 1
        if not updates:
            return model
        assert all(u.weight > 0 and u.received["p"].shape == model["p"].shape for u in updates)
        self.last = np.mean([u.blocks["p"] for u in updates], axis=0)
        return {"p": self.last}


def test_a_server_of_ones_own_steps_the_model_and_keeps_its_state(small) -> None:
    """If this fails, a server in Python forgets, or sees other updates than were sent."""
    scenario = small | {"method": "median"}
    run = fedrecsim.run(scenario, progress=False)
    assert run.complete and run.model["p"].max() > 0
    simulation = fedrecsim.Simulation(scenario)
    simulation.step_until(round=2)
    restored = fedrecsim.Simulation.restore(scenario, simulation.save())
    list(restored)
    assert restored.finish().digest == run.digest
    fedrecsim.testing.contract(Median)


def test_a_server_that_fails_is_told_with_its_round(small) -> None:
    """If this fails, a mistake of the server side ends the interpreter."""
    broken = type("BrokenServer", (MedianServer,), {"step": lambda self, model, updates, step: {"p": np.zeros(3)}})
    type("Worse", (Median,), {"name": "worse", "server": lambda self: broken()})
    with pytest.warns(fedrecsim.RunStopped, match=r"round 1 \(at the server\): .*shape"):
        fedrecsim.run(small | {"method": "worse"}, progress=False)


class Sums(fedrecsim.Method):
    """Sends sums up, and has two blocks of the model at the server."""

    name = "sums"
    draws_negatives = False
    parameters = {"bad": ""}

    def layout(self):
        return {"p": (self.problem.items, 1), "q": (self.problem.items, 1)}

    def upload_layout(self):
        return {"g": fedrecsim.Block(self.problem.items, 1, statistic=True)}

    def initial(self):
        return {name: np.zeros((self.problem.items, 1)) for name in ("p", "q")}

    def client(self, user):
        return SumsClient()

    def server(self):
        return SumsServer(self.bad)


class SumsClient(fedrecsim.Client):
    def train(self, task):
        return {"g": np.ones(task.model["p"].shape)}, 0.0

    def score(self, model, items):
        return model["p"][items, 0]


class SumsServer(fedrecsim.Server):
    def __init__(self, bad):
        self.bad = bad

    def step(self, model, updates, step):
        if self.bad == "raise" and step == 5:
            raise RuntimeError("the sixth step")
        return {name: block + (np.nan if name == self.bad else 1.0) for name, block in model.items()}


@pytest.mark.parametrize("block", ["p", "q"])
def test_a_value_of_the_server_that_is_not_finite_ends_the_run_and_is_named(small, block) -> None:
    """If this fails, a model of NaN is the result of a complete run, or the error names another block."""
    with pytest.warns(fedrecsim.RunStopped, match=rf"round 1 \(at the server\): {block} reached NaN"):
        run = fedrecsim.run(small | {"method": {"sums": {"bad": block}}}, progress=False)
    assert not run.complete and run.record["rounds"] == 0
    assert fedrecsim.run(small | {"method": "sums"}, progress=False).complete


def test_a_mistake_of_the_server_is_told_with_the_round_of_its_step(small) -> None:
    """If this fails, a run of three rounds is said to have failed in its sixth."""
    mode = {"rounds": 3, "steps_per_round": 3, "mode": {"fedbuff": {"buffer": 5, "concurrency": 20}}}
    scenario = small | {"method": {"sums": {"bad": "raise"}}, "training": mode}
    with pytest.warns(fedrecsim.RunStopped, match=r"round 2 \(at the server\): RuntimeError: the sixth step"):
        fedrecsim.run(scenario, progress=False)


def test_a_method_may_say_that_it_needs_no_server(small) -> None:
    """If this fails, `server` cannot decide by a parameter whether there is one."""
    type("MayBe", (Broken,), {"name": "may-be", "parameters": {}, "how": "", "server": lambda self: None})
    assert fedrecsim.run(small | {"method": "may-be"}, progress=False).model["p"].max() == 0.5


def test_a_parameter_does_not_hide_a_method_of_the_class() -> None:
    """If this fails, `client` is a number when the simulator calls it."""
    for name in ("client", "layout", "problem", "name"):
        with pytest.raises(fedrecsim.ScenarioError, match=f"`{name}` is no name for a parameter"):
            type("Hidden", (Broken,), {"name": "hidden", "parameters": {name: 3}})
    assert "hidden" not in fedrecsim.methods()


def test_methods_in_python_work_at_once_in_several_threads(in_python) -> None:
    """If this fails, two runs with methods in Python wait for each other for ever, or share their clients."""
    digests: list = []

    def carry_out() -> None:
        digests.append(fedrecsim.run(in_python, progress=False).digest)

    threads = [threading.Thread(target=carry_out) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert len(digests) == 3 and set(digests) == {fedrecsim.run(in_python, progress=False).digest}


def test_the_events_are_those_of_the_run_or_there_are_none(small) -> None:
    """If this fails, a class that was written anew gives an earlier run the events of another one."""

    def made_with(rate: float) -> type:
        rules = {"p": {"combine": "mean", "optimizer": "plain", "rate": rate}}
        return type("Again", (Broken,), {"name": "again", "parameters": {}, "how": "", "rules": rules})

    made_with(1.0)
    scenario = small | {"method": "again"}
    run, again = (fedrecsim.run(scenario, progress=False) for _ in range(2))
    made_with(0.25)
    names = np.array(run.events["event"])
    assert np.asarray(run.events["bytes"], dtype=float)[names == "upload-started"].sum() == run.bytes["up"]["sent"]
    # In another process only the class by that name is known.
    with pytest.raises(fedrecsim.FedrecsimError, match="running the scenario once more"):
        pickle.loads(pickle.dumps(again)).events


def test_what_was_changed_by_hand_has_no_events(small) -> None:
    """If this fails, the events of a simulation whose model was set are those of another one."""
    simulation = fedrecsim.Simulation(small)
    simulation.step()
    simulation.model = {"V": simulation.model["V"] * 0.5}
    list(simulation)
    with pytest.raises(fedrecsim.ScenarioError, match="set by hand"):
        simulation.finish().events


def test_randomness_is_that_of_the_run(small) -> None:
    """If this fails, two users or two runs with other seeds draw the same numbers, or one run others each time."""
    drawn: list = []

    class Drawing(fedrecsim.Method):
        name = "drawing"
        draws_negatives = False

        def layout(self):
            return {"p": (self.problem.items, 1)}

        def initial(self):
            drawn.append(("initial", int(self.problem.rng("initial").integers(1 << 40))))
            return {"p": np.zeros((self.problem.items, 1))}

        def client(self, user):
            return DrawingClient()

    class DrawingClient(fedrecsim.Client):
        def train(self, task):
            drawn.append((task.round, task.user, int(task.rng().integers(1 << 40)), task.seed("other")))
            return {"p": task.model["p"] + 0.1}, 0.0

        def score(self, model, items):
            return np.arange(len(items))

    def numbers(seed: int) -> list:
        drawn.clear()
        fedrecsim.run(small | {"method": "drawing"}, seed=seed, threads=1, progress=False)
        return list(drawn)

    one, again, other = numbers(1), numbers(1), numbers(2)
    assert one == again and one != other
    trained = [entry[2] for entry in one if entry[0] != "initial"]
    assert len(trained) == 240 == len(set(trained))


def test_a_result_can_be_pickled_where_its_method_is_known(in_python) -> None:
    """If this fails, runs of methods in Python cannot be sent between processes."""
    run = fedrecsim.run(in_python, progress=False)
    assert pickle.loads(pickle.dumps(run)).digest == run.digest


def test_methods_are_listed(numpy_method) -> None:
    """If this fails, nobody learns which methods there are."""
    listed = fedrecsim.methods()
    assert listed["numpy-fedmf"].summary == numpy_method.summary and "fedrap" in listed
    width = listed["numpy-fedmf"].parameters["latent_dimension"]
    assert (width.name, width.default, width.types) == ("latent_dimension", 16, ("integer",)), width
    rate = listed["fedmf"].parameters["learning_rate_user"]
    assert (rate.types, rate.default, rate.above) == (("number",), 0.1, 0.0) and rate.doc


def test_keys_are_explained_as_data() -> None:
    """If this fails, a search over parameters needs its ranges by hand, or a mistyped key is not told."""
    [rounds] = fedrecsim.explain("training.rounds")
    assert rounds.types == ("integer",) and rounds.minimum == 1 and rounds.doc
    [preset] = fedrecsim.explain("network.preset")
    assert "wifi-2020" in preset.choices
    assert {key.unit for key in fedrecsim.explain() if key.path.endswith("_ms")} == {"milliseconds"}
    assert len(fedrecsim.explain()) > 100 and {key.path for key in fedrecsim.explain("dataset.negatives")}
    with pytest.raises(fedrecsim.ScenarioError, match="did you mean `training.rounds`"):
        fedrecsim.explain("training.rouns")


def test_the_example_in_pytorch(small) -> None:
    """If this fails, tensors do not travel like arrays."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    import torch_fedmf

    scenario = small | {"method": {"torch-fedmf": {"latent_dimension": 8}}}
    digests = {fedrecsim.run(scenario, progress=False).digest for _ in range(2)}
    assert len(digests) == 1
    fedrecsim.testing.contract(torch_fedmf.TorchFedMF)
