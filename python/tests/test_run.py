"""Runs: scenarios in every form, results, tables and pickles."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import fedrecsim
import numpy as np
import pytest
from conftest import REPOSITORY

TOML = """
seed = 7
method.fedmf = { latent_dimension = 8 }
dataset = { name = "generated", generator = { users = 60, items = 300 } }
training = { rounds = 4 }
codec = { uplink = "rows-f32" }
network = { preset = "wifi-2020" }
"""


def test_a_scenario_is_the_same_as_a_dictionary_as_text_and_as_a_file(small, tmp_path: Path) -> None:
    """If this fails, the same scenario has other results in another form."""
    path = tmp_path / "scenario.toml"
    path.write_text(TOML)
    runs = [fedrecsim.run(given, progress=False) for given in (small, TOML, path, str(path))]
    assert len({run.digest for run in runs}) == 1
    assert runs[0].complete and runs[0].stopped_by is None
    assert runs[0].record["rounds"] == 4 == len(runs[0].rounds)


def test_a_file_without_an_ending_whose_path_looks_like_a_key_is_a_file(tmp_path: Path) -> None:
    """If this fails, `runs/rate=0.1/scenario` is read as TOML."""
    path = tmp_path / "rate=0.1" / "scenario"
    path.parent.mkdir()
    path.write_text(TOML)
    assert fedrecsim.run(str(path), progress=False).complete


def test_a_run_has_the_digest_of_the_command(small, tmp_path: Path) -> None:
    """If this fails, Python and the command do not agree on what a scenario is."""
    path = tmp_path / "scenario.toml"
    path.write_text(TOML)
    command = [sys.executable, "-m", "fedrecsim", "run", str(path), "--no-report", "--json", "--progress", "off"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["digest"] == fedrecsim.run(small, progress=False).digest


def test_ctrl_c_ends_the_command_as_it_ends_the_program(tmp_path: Path) -> None:
    """If this fails, Ctrl-C leaves a traceback and another exit code than the documents say."""
    path = tmp_path / "scenario.toml"
    path.write_text(TOML)
    words = ["run", str(path), "--set", "training.rounds=100000", "--no-report", "--progress", "rounds"]
    command = subprocess.Popen(
        [sys.executable, "-m", "fedrecsim", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    next(line for line in command.stderr if line.startswith("round 3/"))
    command.send_signal(signal.SIGINT)
    told, errors = command.communicate()
    assert command.returncode == 1 and "digest" in told
    assert "error: interrupted" in errors and "Traceback" not in errors


def test_threads_do_not_matter_and_overrides_and_seeds_do(small) -> None:
    """If this fails, a result depends on the machine, or an override is lost."""
    digest = fedrecsim.run(small, threads=1, progress=False).digest
    assert fedrecsim.run(small, threads=3, progress=False).digest == digest
    assert fedrecsim.run(small, seed=8, progress=False).digest != digest
    changed = {"training.rounds": np.int64(2), "method": {"fedmf": {"latent_dimension": 4}}}
    run = fedrecsim.run(small, set=changed, progress=False)
    assert (len(run.rounds), run.model["V"].shape) == (2, (300, 4))


def test_the_model_is_an_array_that_cannot_be_written_to(small) -> None:
    """If this fails, a reader of the model may change the memory of a result."""
    model = fedrecsim.run(small, progress=False).model
    assert model["V"].dtype == np.float32 and model["V"].shape == (300, 8)
    assert np.isfinite(model["V"]).all()
    with pytest.raises(ValueError, match="read-only"):
        model["V"][0, 0] = 1.0


def test_a_pickled_run_is_the_run(small, tmp_path: Path) -> None:
    """If this fails, a run that another process has made has lost something on the way."""
    run = fedrecsim.run(small, progress=False)
    again = pickle.loads(pickle.dumps(run))
    assert again.record == run.record
    assert again.charts == run.charts and again.scenario == run.scenario
    assert again.rounds.columns == run.rounds.columns
    for column in run.rounds.columns:
        np.testing.assert_array_equal(again.rounds[column], run.rounds[column])
    np.testing.assert_array_equal(again.users["invited"], run.users["invited"])
    np.testing.assert_array_equal(again.model["V"], run.model["V"])
    assert len(again.events) == len(run.events) > 0
    with pytest.raises(ValueError, match="read-only"):
        again.model["V"][0, 0] = 1.0
    for place, made in (("one", run), ("other", again)):
        made.write(tmp_path / place)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert "run.json" in files and files == sorted(path.name for path in (tmp_path / "other").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name
    assert fedrecsim.compare([again, fedrecsim.run(small, seed=8, progress=False)], out=tmp_path / "compared").runs


def test_a_notebook_shows_the_summary_and_charts(small) -> None:
    """If this fails, a run in a notebook is a line of text."""
    shown = fedrecsim.run(small, progress=False)._repr_html_()
    assert shown.count("<svg") == 2 and "HR@10" in shown


def test_a_report_is_written_as_the_command_writes_it(small, tmp_path: Path) -> None:
    """If this fails, `fedrecsim compare` cannot read what Python has left."""
    run = fedrecsim.run(small, progress=False, out=tmp_path / "report")
    assert json.loads((tmp_path / "report" / "run.json").read_text()) == run.record
    assert (tmp_path / "report" / "rounds.csv").read_text().count("\n") == 5
    with pytest.raises(fedrecsim.ScenarioError, match="overwrite"):
        run.write(tmp_path / "report")


def test_an_estimate_tells_bytes_time_and_memory(small) -> None:
    """If this fails, an estimate prints nothing."""
    expected = fedrecsim.estimate(small, threads=1)
    assert expected["rounds"] == 4 and expected["threads"] == 1
    for key in ("up_bytes_per_round", "down_bytes_per_round", "virtual_time_per_round_s", "devices_bytes"):
        assert expected[key] > 0, key


def test_a_resolved_scenario_runs_to_the_same_digest(small) -> None:
    """If this fails, the scenario that a report shows is another one than the run had."""
    run = fedrecsim.run(small, progress=False)
    assert fedrecsim.run(fedrecsim.resolve(small), progress=False).digest == run.digest
    assert fedrecsim.run(run.scenario, progress=False).digest == run.digest


def test_the_quickstart_is_a_scenario() -> None:
    """If this fails, the first command of the README does not work."""
    run = fedrecsim.run(REPOSITORY / "scenarios" / "quickstart.toml", set={"training.rounds": 2}, progress=False)
    assert run.name == "quickstart" and "C" in run.model


def test_progress_is_shown_to_whoever_looks(small, monkeypatch, capsys) -> None:
    """If this fails, a long run says nothing, or a log fills with lines."""
    fedrecsim.run(small)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("fedrecsim._progress.is_visible", lambda: True)
    fedrecsim.run(small)
    assert "round 4/4" in capsys.readouterr().err


def test_a_run_recommends_what_its_simulation_would(small) -> None:
    """If this fails, a user is shown what another training has learned, or what it has rated."""
    simulation = fedrecsim.Simulation(small)
    for _ in simulation:
        pass
    shown = simulation.recommend(3, 5)
    for wrong in (-1, 2.5):
        with pytest.raises(fedrecsim.ScenarioError, match="`top` must be a whole number from 1"):
            simulation.recommend(3, wrong)
    assert len(shown) == 5 and [row["score"] for row in shown] == sorted((row["score"] for row in shown), reverse=True)
    run = fedrecsim.run(small, progress=False)
    with pytest.warns(UserWarning, match="and is trained once more"):
        assert run.recommend("3", 5) == shown
    by_count = fedrecsim.Simulation(small | {"method": "popularity"}).recommend(3, 5)
    assert [row["item"] for row in by_count] == [row["popular"] for row in shown]
    assert len({row["item"] for row in run.recommend(3, 1000)}) < run.record["size"]["items"]
    with pytest.raises(fedrecsim.FedrecsimError, match='there is no user "nobody"'):
        run.recommend("nobody")
    # The accuracy may be of an earlier round.
    by_validation = small | {"evaluation": {"selection": "best-validation"}, "training": {"rounds": 40}}
    run = fedrecsim.run(by_validation, progress=False)
    selected = run.record["selected_round"]
    assert selected < 40, "the last round is the best, so that nothing is tested"
    simulation = fedrecsim.Simulation(by_validation)
    simulation.step_until(round=selected)
    with pytest.warns(UserWarning, match="and is trained once more"):
        assert run.recommend("3", 5) == simulation.recommend(3, 5)
