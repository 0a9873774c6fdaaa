"""Trackers: what they get of a run, when, and what their failures cost it."""

from __future__ import annotations

import _thread
import json
import sys
import threading
import warnings
from pathlib import Path

import fedrecsim
import numpy as np
import pytest
from conftest import PATIENCE
from fedrecsim import _track
from fedrecsim._track import feed, figures, trackers

TOML = """
seed = 7
method.fedmf = { latent_dimension = 8 }
dataset = { name = "generated", generator = { users = 60, items = 300 } }
training = { rounds = 4 }
codec = { uplink = "rows-f32" }
network = { preset = "wifi-2020" }
"""

#: Changes of the small scenario under which the record of a round has something else in it.
CHANGES: dict[str, dict] = {
    "plain": {},
    "evaluated every second round": {"evaluation": {"every_rounds": 2}},
    "energy": {"devices": {"preset": "phone-wifi"}},
    "faults": {
        "network": {"preset": "wifi-2020", "dropout": 0.1},
        "faults": [{"effect": "drop", "probability": 0.3}, {"effect": {"delay_s": 1}, "probability": 0.3}],
    },
    "third party": {"method": "fedpergnn"},
    "no rounds": {"method": "popularity", "network": {}},
}


class Kept:
    """A tracker that keeps what it gets."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.parameters: list[dict] = []
        self.curves: list[dict[int, dict[str, float]]] = []
        #: The wall-clock seconds of rounds, which no report has.
        self.took: list[dict[int, float]] = []
        self.ends: list[fedrecsim.Ended] = []
        self.files: list[dict[str, bytes]] = []
        self.came = threading.Condition()

    def begin(self, name, parameters) -> None:
        self.names.append(name)
        self.parameters.append(dict(parameters))
        self.curves.append({})
        self.took.append({})

    def rounds(self, rounds) -> None:
        with self.came:
            for number, figures_ in rounds:
                own = dict(figures_)
                if (took := own.pop(figures.WALL, None)) is not None:
                    self.took[-1][number] = took
                self.curves[-1].setdefault(number, {}).update(own)
            self.came.notify_all()

    def end(self, ended) -> None:
        self.ends.append(ended)
        self.files.append({path.name: path.read_bytes() for path in ended.folder.iterdir()})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Works in a folder of the test's own: trackers leave folders where they run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expected(run: fedrecsim.Run) -> dict[int, dict[str, float]]:
    """Returns what a tracker has to have of the rounds of a run."""
    return {row["round"]: figures.named(row) for row in run.rounds.to_dicts()}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_tracker_gets_parameters_every_figure_the_accuracy_and_the_report(small, change, place: Path) -> None:
    """If this fails, a page of the tracker lacks a curve, or shows another number than the report."""
    kept = Kept()
    run = fedrecsim.run(small | change, track=kept, progress=False)
    assert run.digest == fedrecsim.run(small | change, progress=False).digest
    assert kept.curves == [expected(run)]
    assert kept.names == [run.name]
    assert kept.parameters == [figures.parameters_of(run.record["scenario"])]
    assert kept.parameters[0]["seed"] == 7 and kept.parameters[0]["version"] == fedrecsim.__version__
    assert kept.parameters[0]["evaluation.cutoffs"] == "[5, 10, 20]"
    [end] = kept.ends
    assert (end.digest, end.stopped_by) == (run.digest, None)
    assert end.figures["final/test_hr_at_10"] == run.accuracy["test"]["hr@10"]
    assert json.loads(kept.files[0]["run.json"]) == run.record
    assert not end.folder.exists(), "the copy of the report stays"
    run.write(place / "report")
    told = {path.name for path in (place / "report").iterdir()}
    assert set(kept.files[0]) == told - {"users.csv"}, "a new file of the report is missing in `FILES`"


def test_a_tracker_gets_the_wall_time_of_each_round_and_the_digest_does_not(small) -> None:
    """If this fails, nobody sees that a run slows down, or the time of a machine is a part of its result."""
    kept = Kept()
    run = fedrecsim.run(small, track=kept, progress=False)
    assert sorted(kept.took[0]) == [1, 2, 3, 4] and min(kept.took[0].values()) > 0
    wall = run.record["wall"]
    assert wall["total_s"] >= sum(kept.took[0].values())
    assert wall["per_round_ms"] == pytest.approx(np.median(list(kept.took[0].values())) * 1e3)
    assert kept.ends[0].figures["final/wall_total_s"] == wall["total_s"]
    assert run.digest == fedrecsim.run(small, progress=False).digest


def test_only_what_the_record_of_a_round_lacks_comes_at_the_end(small) -> None:
    """If this fails, curves of a long run are empty until it ends."""
    for change in CHANGES.values():
        simulation = fedrecsim.Simulation(small | change)
        rows = figures.Rows(change)
        live = set().union(*(rows.of(record) for record in simulation))
        assert set(simulation.finish().rounds.columns) - live <= {"round", "energy_j"}


def test_a_round_comes_as_it_ends(small, monkeypatch) -> None:
    """If this fails, nobody can follow a run while it goes on."""
    kept, step = Kept(), fedrecsim.Simulation.step

    def waiting(simulation: fedrecsim.Simulation):
        """Begins a round when the tracker has the one before it."""
        before = simulation.rounds
        with kept.came:
            assert kept.came.wait_for(lambda: before == 0 or before in kept.curves[-1], timeout=PATIENCE), before
        return step(simulation)

    monkeypatch.setattr(fedrecsim.Simulation, "step", waiting)
    run = fedrecsim.run(small, track=kept, progress=False)
    assert kept.curves == [expected(run)]


def test_a_tracker_that_fails_costs_the_run_nothing_and_is_told_once(small) -> None:
    """If this fails, a server that is away ends a run, or fills a log."""
    digest = fedrecsim.run(small, progress=False).digest
    for method in ("begin", "rounds", "end"):
        broken, kept = Kept(), Kept()
        setattr(broken, method, lambda *_: 1 / 0)
        with pytest.warns(fedrecsim.TrackerFailed, match="`Kept` lacks a part of this run.*ZeroDivisionError") as told:
            run = fedrecsim.run(small, track=[broken, kept], progress=False)
        assert len(told) == 1 and run.digest == digest, method
        assert kept.curves == [expected(run)] and len(kept.ends) == 1, method


def test_a_tracker_that_hangs_is_given_up(small, monkeypatch) -> None:
    """If this fails, a server that does not answer keeps a run from its end."""
    hanging, free = Kept(), threading.Event()
    hanging.rounds = lambda rounds: free.wait()
    monkeypatch.setattr(feed, "PATIENCE_S", 0.05)
    with pytest.warns(fedrecsim.TrackerFailed, match="has not answered"):
        assert fedrecsim.run(small, track=hanging, progress=False).complete
    free.set()


def test_a_full_disk_costs_a_tracker_the_report_and_the_run_nothing(small, monkeypatch) -> None:
    """If this fails, a run is lost as its report cannot be copied for a tracker."""

    def full(*_, **__) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(feed.tempfile, "TemporaryDirectory", full)
    with pytest.warns(fedrecsim.TrackerFailed, match="no space left"):
        assert fedrecsim.run(small, track=Kept(), progress=False).complete


def test_a_run_that_stops_ends_at_the_tracker_with_its_reason(small) -> None:
    """If this fails, a run that diverged is shown as one that is still going on, or as a good one."""
    kept = Kept()
    diverging = {"method.fedmf.learning_rate_items": 1e6, "training.divergence_limit": 10.0}
    with pytest.warns(fedrecsim.RunStopped):
        run = fedrecsim.run(small, set=diverging, track=kept, progress=False)
    assert kept.ends[0].stopped_by == run.stopped_by and kept.curves == [expected(run)]


def test_an_interrupted_run_ends_at_the_tracker_with_its_finished_rounds(small) -> None:
    """If this fails, Ctrl-C leaves a run that goes on for ever, or waits for the last round."""
    kept = Kept()
    take = kept.rounds

    def interrupting(rounds) -> None:
        take(rounds)
        if len(kept.curves[0]) == len(rounds):
            _thread.interrupt_main()

    kept.rounds = interrupting
    with pytest.raises(KeyboardInterrupt):
        fedrecsim.run(small, set={"training.rounds": 100_000}, track=kept, progress=False)
    [end] = kept.ends
    assert end.stopped_by
    assert 1 <= len(kept.curves[0]) == json.loads(kept.files[0]["run.json"])["rounds"] < 100_000


def test_a_tracker_of_no_name_is_refused_before_anything_runs(small, monkeypatch) -> None:
    """If this fails, a long run ends and nobody has followed it, because of a slip."""
    monkeypatch.setattr(_track.Tracking, "run", lambda *_: pytest.fail("it runs"))
    for name in ("sacred", "", 3, Kept, ["mlfow"]):
        with pytest.raises(fedrecsim.ScenarioError, match="there is no tracker .*mlflow, tensorboard, wandb"):
            fedrecsim.run(small, track=name)


def test_a_run_goes_on_without_a_tracker_that_is_not_installed(small, place: Path, monkeypatch) -> None:
    """If this fails, a library that is missing costs the run, or nobody is told."""
    for name, module in (("mlflow", "mlflow"), ("wandb", "wandb"), ("tensorboard", "tensorboardX")):
        monkeypatch.setitem(sys.modules, module, None)
        kept = Kept()
        with pytest.warns(fedrecsim.TrackerFailed, match=rf"`{name}` is not installed .*fedrecsim\[{name}\]") as told:
            run = fedrecsim.run(small, track=[name, kept], progress=False)
        assert len(told) == 1 and kept.ends[0].digest == run.digest
    # What W&B leaves where it has run looks like a package.
    (place / "left_behind").mkdir()
    monkeypatch.syspath_prepend(place)
    with pytest.raises(trackers.NotInstalled, match="not installed"):
        trackers._needed("left_behind", "wandb")


def test_every_new_run_of_a_study_is_a_run_of_the_tracker(small, place: Path) -> None:
    """If this fails, an arm is missing at the tracker, or is there twice when the study goes on."""
    axis = {"name": "uplink", "key": "codec.uplink", "values": ["rows-f32", "dense-f32"]}
    asked = {"base": small, "seeds": [1], "axes": [axis]}
    kept = Kept()
    study = fedrecsim.study(asked, out=place / "codecs", progress=False, track=kept)
    assert [end.digest for end in kept.ends] == list(study.digests.values())
    assert kept.names == [f"codecs: {run.name}" for run in study.planned]
    assert [told["codec.uplink"] for told in kept.parameters] == ["rows-f32", "dense-f32"]
    assert all(sorted(curves) == [1, 2, 3, 4] for curves in kept.curves)
    fedrecsim.study(asked | {"seeds": [1, 2]}, out=place / "codecs", progress=False, track=kept)
    assert [told["seed"] for told in kept.parameters] == [1, 1, 2, 2]
    with pytest.raises(fedrecsim.ScenarioError, match="for Slurm it carries out none"):
        fedrecsim.study(asked, out=place / "slurm", executor="slurm", track=kept)


def test_a_tracker_that_fails_gets_no_other_run_of_a_study(small, place: Path) -> None:
    """If this fails, a study waits for a server that is away as often as it has runs."""
    broken = Kept()
    broken.rounds = lambda rounds: 1 / 0
    with pytest.warns(fedrecsim.TrackerFailed) as told:
        fedrecsim.study({"base": small, "seeds": [1, 2]}, out=place / "seeds", progress=False, track=broken)
    assert len(told) == 1 and len(broken.names) == 1


def test_names_are_those_that_every_tracker_takes() -> None:
    """If this fails, MLflow refuses `hr@10`."""
    row = {"round": 3, "test_hr@10": 0.5, "up_sent_bytes": 7, "loss": None, "c_above_0_union": float("nan"), "epsilon": 2}
    assert figures.named(row) == {"test/hr_at_10": 0.5, "up/sent_bytes": 7.0, "round/epsilon": 2.0}


def test_a_warning_that_is_an_error_does_not_reach_the_run_that_goes_on(small) -> None:
    """If this fails, `python -W error` loses a run because of its tracker."""
    broken = Kept()
    broken.begin = lambda *_: 1 / 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading, "excepthook", lambda told: None)
            assert fedrecsim.run(small, track=broken, progress=False).complete
