"""How runs end early, what is kept of them, and which exceptions say why."""

from __future__ import annotations

import os
import pickle
import signal
import zipfile
from pathlib import Path

import fedrecsim
import pytest


class Stopped(Exception):
    """What a callback raises."""


def test_ctrl_c_loses_no_finished_round(small, tmp_path: Path) -> None:
    """If this fails, Ctrl-C in a notebook throws hours of training away."""

    def at(record) -> None:
        if record["round"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    endless = {"training.rounds": 100_000}
    with pytest.raises(KeyboardInterrupt) as raised:
        fedrecsim.run(small, set=endless, progress=False, on_round=at, out=tmp_path / "left")
    run = raised.value.run
    assert run.record["rounds"] >= 3 and not run.complete and len(run.rounds) == run.record["rounds"]
    assert (tmp_path / "left" / "run.json").is_file()
    whole = fedrecsim.run(small, set={"training.rounds": run.record["rounds"]}, progress=False)
    assert run.rounds["loss"].tolist() == whole.rounds["loss"].tolist()


def test_ctrl_c_loses_no_finished_round_of_a_run_without_callbacks(small, tmp_path: Path, monkeypatch) -> None:
    """If this fails, the usual call of `run` loses what the one with a callback keeps."""

    def show(round_: int, *_: object) -> None:
        if round_ >= 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(fedrecsim.run.__globals__["_progress"], "is_visible", lambda: True)
    monkeypatch.setattr(fedrecsim.run.__globals__["_progress"], "shown", lambda: (show, lambda: None))
    with pytest.raises(KeyboardInterrupt) as raised:
        fedrecsim.run(small, set={"training.rounds": 100_000}, out=tmp_path / "left")
    assert raised.value.run.record["rounds"] >= 3 and (tmp_path / "left" / "rounds.csv").is_file()
    assert not hasattr(raised.value, "report")


def test_a_callback_gets_every_round_and_may_end_the_run(small) -> None:
    """If this fails, early stopping needs a loop of its own."""
    seen: list[int] = []
    run = fedrecsim.run(small, progress=False, on_round=lambda record: seen.append(record["round"]))
    assert seen == [1, 2, 3, 4] and run.digest == fedrecsim.run(small, progress=False).digest
    with pytest.warns(fedrecsim.RunStopped, match="round 2"):
        stopped = fedrecsim.run(small, progress=False, on_round=lambda record: record["round"] == 2)
    assert stopped.record["rounds"] == 2 and stopped.rounds["loss"].tolist() == run.rounds["loss"][:2].tolist()

    def fails(record) -> None:
        if record["round"] == 2:
            raise Stopped("enough")

    with pytest.raises(Stopped, match="enough") as raised:
        fedrecsim.run(small, progress=False, on_round=fails)
    assert raised.value.run.record["rounds"] == 2


def test_an_end_without_a_finished_round_has_no_run(small) -> None:
    """If this fails, an exception claims a result that is not there."""

    def fails(*_: object) -> None:
        raise Stopped("at once")

    with pytest.raises(fedrecsim.ScenarioError) as raised:
        fedrecsim.run(small, set={"training.rounds": -1}, on_round=fails, progress=False)
    assert not hasattr(raised.value, "run")


def test_a_saved_run_is_the_run(small, tmp_path: Path) -> None:
    """If this fails, a result that took hours has to be trained again in another notebook."""
    run = fedrecsim.run(small, progress=False)
    path = tmp_path / "mine.run"
    run.save(path)
    again = fedrecsim.Run.load(path)
    assert again.record == run.record and again.summary == run.summary and again.scenario == run.scenario
    assert again.model.keys() == run.model.keys() and (again.model["V"] == run.model["V"]).all()
    for name in ("rounds", "users", "items"):
        assert getattr(again, name).to_dicts() == getattr(run, name).to_dicts(), name
    run.write(tmp_path / "one")
    again.write(tmp_path / "two")
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), file.name
    assert len(again.events) == len(run.events)
    with pytest.raises(ValueError, match="read-only"):
        again.model["V"][0, 0] = 1.0


def test_what_is_no_saved_run_is_refused(tmp_path: Path) -> None:
    """If this fails, another file ends in an error of the zip library."""
    (tmp_path / "text").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("hello", "hello")
    for name in ("text", "zip"):
        with pytest.raises(fedrecsim.ScenarioError, match="no run that"):
            fedrecsim.Run.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="absent"):
        fedrecsim.Run.load(tmp_path / "absent")


def test_exceptions_are_also_the_usual_ones(small, tmp_path: Path) -> None:
    """If this fails, `except ValueError` and `except FileNotFoundError` miss what they mean."""
    delimited = {"name": "delimited", "path": "absent.csv", "columns": {"user": "u", "item": "i"}}
    for call, kind in [
        (lambda: fedrecsim.run(small, set={"training.rounds": -1}), ValueError),
        (lambda: fedrecsim.run(small, threads=0), ValueError),
        (lambda: fedrecsim.run(small, seed=-1), ValueError),
        (lambda: fedrecsim.run(tmp_path / "absent.toml"), FileNotFoundError),
        (lambda: fedrecsim.run(small | {"dataset": delimited}), FileNotFoundError),
        (lambda: fedrecsim.run(3), TypeError),
        (lambda: fedrecsim.run(small, threads="2"), TypeError),
        (lambda: fedrecsim.run(small, seed=1.5), TypeError),
        (lambda: fedrecsim.run(small, ratings=3), TypeError),
        (lambda: fedrecsim.study(3), TypeError),
        (lambda: fedrecsim.study("absent"), FileNotFoundError),
    ]:
        with pytest.raises(kind) as raised:
            call()
        assert isinstance(raised.value, fedrecsim.ScenarioError) and isinstance(raised.value, ValueError)
        again = pickle.loads(pickle.dumps(raised.value))
        assert type(again) is type(raised.value) and str(again) == str(raised.value)
    with pytest.raises(fedrecsim.ScenarioError) as raised:
        fedrecsim.run(small, threads=0)
    assert not isinstance(raised.value, TypeError)
    assert f"{fedrecsim.ScenarioError.__module__}.{fedrecsim.ScenarioError.__qualname__}" == "fedrecsim.ScenarioError"
