"""Trackers that follow a run of the command: when they get it, and what their failures cost it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fedrecsim._track import figures
from test_track import TOML


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Works in a folder of the test's own, which has the scenario."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(TOML)
    return tmp_path


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Carries out the command of the package."""
    return subprocess.run([sys.executable, "-m", "fedrecsim", *words], capture_output=True, text=True, check=False)


def test_the_command_refuses_what_it_cannot_track() -> None:
    """If this fails, a run goes on for hours and is tracked by nobody."""
    for words, reason in (
        (["--track"], "`--track` takes a tracker: mlflow, tensorboard, wandb"),
        (["--track", "--json"], "`--track` takes a tracker"),
        (["--track=sacred"], "there is no tracker 'sacred'"),
        (["--no-report", "--track", "mlflow"], "`--no-report` leaves out; name a folder with --out"),
    ):
        done = command("run", "a.toml", *words)
        assert (done.returncode, done.stdout) == (2, "") and reason in done.stderr, done
    assert not Path("reports").exists()
    assert "unexpected argument '--track'" in command("methods", "--track", "mlflow").stderr


def tracked(tracker: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Carries out the command of the package with a tracker `kept`, whose body this is."""
    source = f"""
import json, os, signal, sys
from pathlib import Path
from fedrecsim import __main__, _track

class Kept:
    came = []
    def begin(self, name, parameters): Path("begun").write_text(name + " " + str(parameters["seed"]))
    def rounds(self, rounds): self.came += [[number, dict(figures)] for number, figures in rounds]
    def end(self, ended):
        report = [path.name for path in ended.folder.iterdir()]
        Path("kept.json").write_text(json.dumps([self.came, ended.digest, ended.stopped_by, report]))

class Own(Kept):
{tracker}

_track.TRACKERS["kept"] = Own
sys.exit(__main__.main())
"""
    command = [sys.executable, "-c", source, "run", "a.toml", "--track", "kept", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_round_of_the_command_comes_as_it_ends() -> None:
    """If this fails, nobody can follow a run of the command while it goes on."""
    interrupting = """
    def rounds(self, rounds):
        super().rounds(rounds)
        if len(self.came) == len(rounds):
            os.kill(os.getpid(), signal.SIGINT)
"""
    done = tracked(interrupting, "--set", "training.rounds=100000", "--out", "report")
    record = json.loads(Path("report/run.json").read_text())
    assert done.returncode != 0 and 1 <= record["rounds"] < 100_000, done.stderr
    came, digest, stopped_by, report = json.loads(Path("kept.json").read_text())
    assert [number for number, _ in came] == list(range(1, record["rounds"] + 1))
    assert all(own[figures.WALL] > 0 for _, own in came)
    assert (digest, stopped_by) == (record["digest"], record["stopped_by"]) and "run.json" in report
    assert Path("begun").read_text() == "a 7"


@pytest.mark.parametrize("method", ["begin", "rounds", "end"])
def test_a_tracker_that_dies_costs_a_run_of_the_command_nothing_and_is_told_once(method: str) -> None:
    """If this fails, a server that goes away ends a run of the command, changes its result, or fills its log."""
    plain = command("run", "a.toml", "--json", "--out", "plain")
    done = tracked(f"    def {method}(self, *_): raise OSError('gone')", "--json", "--out", "tracked")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == json.loads(plain.stdout)["digest"]
    assert done.stderr.count("gone") == done.stderr.count("warning: the tracker ") == 1, done.stderr
    assert sorted(path.name for path in Path("plain").iterdir()) == sorted(
        path.name for path in Path("tracked").iterdir()
    )


def test_a_run_of_the_command_that_is_refused_begins_at_no_tracker() -> None:
    """If this fails, a tracker shows a run that never was, or takes an old report for the run's."""
    done = tracked("    pass", "--set", "training.rounds=none")
    assert (done.returncode, Path("begun").exists()) == (2, False)
    assert tracked("    pass", "--out", "report").returncode == 0
    Path("begun").unlink()
    done = tracked("    pass", "--out", "report")
    assert (done.returncode, Path("begun").exists()) == (2, False) and "is there already" in done.stderr
