"""Studies: runs beside each other, on this machine, as tasks of Ray, and comparisons."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import fedrecsim
import pytest
from conftest import PATIENCE
from fedrecsim import _native, _ray

study_module = sys.modules["fedrecsim.study"]


@pytest.fixture
def axes(small) -> dict:
    """A study of four arms with two seeds."""
    return {
        "title": "codecs and dropouts",
        "base": small,
        "seeds": [1, 2],
        "axes": [
            {"name": "uplink", "key": "codec.uplink", "values": ["rows-f32", "dense-f32"]},
            {"name": "dropout", "key": "network.dropout", "values": [0.0, 0.2]},
        ],
    }


def test_a_study_has_the_digests_of_the_command(axes, tmp_path: Path) -> None:
    """If this fails, an executor changes results."""
    study = fedrecsim.study(axes, out=tmp_path / "study", progress=False)
    assert len(study.digests) == 8 == len(study.planned) and not study.failures
    (file,) = (tmp_path / "study" / ".fedrecsim").glob("*/study.toml")
    command = [sys.executable, "-m", "fedrecsim", "study", str(file), "--out", str(tmp_path / "other")]
    subprocess.run([*command, "--progress", "off"], check=True, capture_output=True)
    for run in study.planned:
        other = tmp_path / "other" / run.folder.relative_to(tmp_path / "study") / "run.json"
        assert json.loads(other.read_text())["digest"] == study.digests[run.name]


def test_a_study_shows_tables_and_pictures(axes, tmp_path: Path) -> None:
    """If this fails, the results of a study are not shown."""
    study = fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    assert "uplink=rows-f32, dropout=0.2" in study.markdown
    page = study._repr_html_()
    assert ">uplink=rows-f32, dropout=0.2</td>" in page and ">hr@10</th>" in page and "<svg" in page
    # Somebody who sees a mean alone does not see that popularity may be as good.
    hr = next(row for row in study.summary.to_dicts() if row["figure"] == "hr@10")
    assert f"{hr['mean']:.3g} ({hr['users_low']:.3g} to {hr['users_high']:.3g})" in page
    assert "more than popularity" in page and "opularity" in page.split("</p>")[0] and " more figures, in" in page
    assert set(study.summary["arm"]) == {run.arm for run in study.planned}
    assert study.runs["seed"][0] == 1 and study.runs.to_dicts()[0]["seed"] == 1
    assert {"UInt64", "Float64", "Utf8"} <= set(study.summary._native.types)
    frame = pytest.importorskip("polars").DataFrame(study.summary)
    assert frame.height == len(study.summary) and frame["mean"].null_count() < frame.height
    assert "<svg" in study.plot("accuracy-by-bytes")._repr_svg_()
    with pytest.raises(fedrecsim.ScenarioError, match="accuracy-by-bytes"):
        study.plot("nothing")


def test_the_same_call_goes_on_with_what_is_missing(axes, tmp_path: Path, capsys) -> None:
    """If this fails, a study that was stopped begins anew, or runs what is done once more."""
    first = fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    made = {run.folder / "run.json": (run.folder / "run.json").stat().st_mtime_ns for run in first.planned}
    assert len(made) == 4
    again = fedrecsim.study(axes, out=tmp_path / "study")
    assert "4 of 8 runs to do" in capsys.readouterr().err
    assert {name: again.digests[name] for name in first.digests} == first.digests
    assert {path: path.stat().st_mtime_ns for path in made} == made, "a run that was complete was run once more"
    with pytest.raises(fedrecsim.FedrecsimError, match="has changed"):
        fedrecsim.study(axes | {"title": "x"}, out=tmp_path / "study", set={"training.rounds": 3})


def test_a_method_in_python_takes_part_in_a_study(axes, numpy_method, tmp_path: Path) -> None:
    """If this fails, studies know only the methods of the simulator."""
    axes["axes"] = [{"name": "method", "key": "method", "values": [numpy_method.name, "fedmf"]}]
    study = fedrecsim.study(axes, out=tmp_path / "study", progress=False)
    assert len(study.digests) == 4 and not study.failures


def test_runs_that_fail_are_told_and_the_others_have_results(axes, tmp_path: Path) -> None:
    """If this fails, one arm that diverges takes the study with it."""
    key = "method.fedmf.learning_rate_items"
    axes["axes"] = [{"name": "rate", "key": key, "values": [1.0, 1e30]}]
    study = fedrecsim.study(axes, out=tmp_path / "study", progress=False)
    assert len(study.failures) == 2 and all("diverged" in reason for reason in study.failures.values())
    assert "diverged" in study.markdown


def test_runs_are_compared(small, tmp_path: Path) -> None:
    """If this fails, runs of a notebook cannot stand in one table."""
    runs = [fedrecsim.run(small, set={"codec.uplink": up}, progress=False) for up in ("rows-f32", "dense-f32")]
    comparison = fedrecsim.compare(runs, out=tmp_path / "compared")
    assert "dense-f32" in comparison.markdown and len(comparison.pictures) >= 3
    assert "<svg" in comparison.plot("accuracy-by-bytes").svg


def test_what_is_no_study_is_refused(axes, small, tmp_path: Path) -> None:
    """If this fails, a mistake in a call ends in an exception that does not say what was expected."""
    for wrong in (None, b"study.toml", 3, ""):
        with pytest.raises(fedrecsim.ScenarioError, match="study"):
            fedrecsim.study(wrong, out=tmp_path)
    with pytest.raises(fedrecsim.ScenarioError, match="executor 'cloud'; there are local, ray, slurm"):
        fedrecsim.study(axes, executor="cloud")
    with pytest.raises(fedrecsim.ScenarioError, match="absent"):
        fedrecsim.study(tmp_path / "absent.toml", out=tmp_path / "study")
    with pytest.raises(fedrecsim.ScenarioError, match="sedes"):
        fedrecsim.study(axes | {"sedes": [1]}, out=tmp_path / "wrong")
    for name in ("a/b", "..", ""):
        with pytest.raises(fedrecsim.ScenarioError, match="the name of a study"):
            fedrecsim.study(axes | {"name": name}, out=tmp_path / "wrong")
    for wrong in ({"jobs": -1}, {"jobs": 1.5}, {"memory_gb": 0}, {"checkpoint_every": 0}, {"threads": True}):
        with pytest.raises(fedrecsim.ScenarioError, match=f"`{next(iter(wrong))}` must be a"):
            fedrecsim.study(axes, out=tmp_path / "wrong", **wrong)
    for seeds in ([-1], [1.5], [True], [2**63]):
        with pytest.raises(fedrecsim.ScenarioError, match="a seed must be a whole number"):
            fedrecsim.study(axes, out=tmp_path / "wrong", seeds=seeds)


def test_a_script_for_slurm_starts_this_package(axes, numpy_method, tmp_path: Path) -> None:
    """If this fails, a script starts the interpreter without the package, or a command that does not know the method."""
    own = axes | {"base": axes["base"] | {"method": numpy_method.name}}
    with pytest.raises(fedrecsim.ScenarioError, match="has no method `numpy-fedmf`"):
        fedrecsim.study(own, executor="slurm", out=tmp_path / "own")
    script = fedrecsim.study(axes, executor="slurm", out=tmp_path / "study", threads=2)
    assert "#SBATCH --cpus-per-task=2" in script
    assert f"study=({sys.executable} -m fedrecsim study " in script
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_a_study_that_is_refused_leaves_what_others_read(axes, tmp_path: Path) -> None:
    """If this fails, runs of a study that is under way read the scenario of a call that was refused."""
    fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    files = {path: path.read_bytes() for path in (tmp_path / "study" / ".fedrecsim").rglob("*.toml")}
    assert len(files) == 2
    axes["base"] = axes["base"] | {"training": {"rounds": 2}}
    with pytest.raises(fedrecsim.FedrecsimError, match="has changed"):
        fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    assert {path: path.read_bytes() for path in files} == files


def test_a_study_holds_its_folder_while_its_runs_are_at_work(axes, tmp_path: Path) -> None:
    """If this fails, two calls on one folder carry out the same runs, and the slower one fails in the middle."""
    first = fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    (file,) = (tmp_path / "study" / ".fedrecsim").glob("*/study.toml")
    words = ["study", str(file), "--out", str(tmp_path / "study")]
    held, runs = _native.study_prepare(words, [], 1)
    assert len(runs) == 8 and sum(run[3] for run in runs) == len(first.planned) == 4
    with pytest.raises(fedrecsim.FedrecsimError, match="another process is at work"):
        fedrecsim.study(axes, out=tmp_path / "study", progress=False)
    held.release()
    assert len(fedrecsim.study(axes, out=tmp_path / "study", progress=False).digests) == 8


def test_an_arm_whose_name_is_a_number_is_a_text(axes, tmp_path: Path) -> None:
    """If this fails, the rows of an arm that is called 10 are not found by its name."""
    del axes["axes"]
    axes["arms"] = [{"name": name, "set": {"network.dropout": 0.1 * place}} for place, name in enumerate(("10", "20"))]
    study = fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    assert set(study.runs["arm"]) == {"10", "20"} == {run.arm for run in study.planned}


def test_ctrl_c_ends_a_study_and_the_same_call_goes_on(axes, tmp_path: Path) -> None:
    """If this fails, a study cannot be stopped, or loses what was done."""
    axes["base"] = axes["base"] | {"training": {"rounds": 100_000}, "evaluation": {"every_rounds": 100_000}}
    script = f"""
import fedrecsim
try:
    fedrecsim.study({axes!r}, out={str(tmp_path / "study")!r}, checkpoint_every=20, jobs=2)
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("study/runs/*/*/checkpoint-*.bin")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE)[0] == "interrupted\n" and process.returncode == 0
    assert list(tmp_path.glob("study/runs/*/*/checkpoint-*.bin")), "no checkpoint is left"


class Lost(Exception):
    """What a cluster raises for a task whose worker is gone."""


class Cluster:
    """A stand-in for the module `ray`: it carries out tasks at once and loses the first one."""

    exceptions = SimpleNamespace(RayError=Lost)
    cloudpickle = pickle

    def __init__(self, fault: type[BaseException]) -> None:
        self.fault, self.cancelled, self.told = fault, [], []

    def nodes(self) -> list:
        return [{"Alive": True, "Resources": {"CPU": 2.0, "memory": 4e9}}]

    def remote(self, work):
        def options(**told):
            self.told.append(told)
            return SimpleNamespace(remote=lambda words, packed, arm, seed: (tuple(words), arm, seed, len(self.told)))

        return SimpleNamespace(options=options)

    def wait(self, running, num_returns):
        return running[:1], running[1:]

    def get(self, reference):
        words, arm, seed, place = reference
        if place == 1:
            raise self.fault("the worker is gone")
        return _native.study_carry_out(list(words), [], arm, seed)

    def cancel(self, reference) -> None:
        self.cancelled.append(reference)


def of_cluster(cluster: Cluster, axes: dict, folder: Path) -> tuple:
    """Carries out a study on a stand-in for a cluster, and returns its order and why runs are missing."""
    path, folder = study_module._placed(axes, folder)
    words = ["study", str(path), "--out", str(folder)]
    order = study_module.Order(words, folder, None, None, None, False, {})
    held, planned = order.prepared(1)
    try:
        return order, _ray._carry_out_all(cluster, order, planned, 1)
    finally:
        held.release()


def test_a_task_that_is_lost_does_not_take_the_study_with_it(axes, tmp_path: Path, monkeypatch) -> None:
    """If this fails, one worker without memory ends the study, and the tasks of the others go on for nobody."""
    monkeypatch.setattr(_ray, "_packed", lambda ray, classes: b"")
    cluster = Cluster(Lost)
    order, lost = of_cluster(cluster, axes, tmp_path / "study")
    study = study_module._ended(order, lost)
    first = study.planned[0].name
    assert study.failures == {first: "the worker is gone"} and len(study.digests) == 7
    # What this process holds is no part of what a task asks for.
    assert all(_ray.WORKER_BYTES < told["memory"] < _ray.WORKER_BYTES + 60e6 for told in cluster.told)
    stopped = Cluster(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        of_cluster(stopped, axes, tmp_path / "stopped")
    assert len(stopped.cancelled) == 7


def test_a_run_that_no_node_has_room_for_now_is_told() -> None:
    """If this fails, a study waits for ever without a word, or a cluster that grows is refused."""
    nodes = [{"CPU": 2.0, "memory": 4e9}, {"CPU": 8.0, "memory": 1e9}]
    with pytest.warns(UserWarning, match="no node of the cluster has 4 processors and 2.0 GB"):
        _ray._check_room(nodes, "a, seed 1", {"num_cpus": 4, "memory": 2e9})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ray._check_room(nodes, "a, seed 1", {"num_cpus": 4, "memory": 5e8})
