"""What is refused, and how."""

from __future__ import annotations

import subprocess
import sys

import fedrecsim
import numpy as np
import pytest


@pytest.mark.parametrize("wrong", [None, b"scenarios/quickstart.toml", 3, 2.5, [], object(), ""])
def test_what_is_no_scenario_is_refused_by_one_exception(wrong) -> None:
    """If this fails, a mistake in a call ends in an exception that does not say what was expected."""
    with pytest.raises(fedrecsim.ScenarioError, match="scenario"):
        fedrecsim.run(wrong)


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    """If this fails, a mistyped path is not told."""
    with pytest.raises(fedrecsim.ScenarioError, match="absent.toml"):
        fedrecsim.run(tmp_path / "absent.toml")


def test_the_name_of_a_study_is_told_apart_from_that_of_a_scenario() -> None:
    """If this fails, somebody who has the right name gets a list of wrong ones."""
    with pytest.raises(fedrecsim.MissingFileError, match="`quickstart-codecs` is a study"):
        fedrecsim.run("quickstart-codecs")
    with pytest.raises(fedrecsim.MissingFileError, match="`ml100k-fedmf` is a scenario"):
        fedrecsim.study("ml100k-fedmf")


def test_messages_name_arguments_and_not_options(small, tmp_path) -> None:
    """If this fails, Python users are told to give options of a command line that they have not written."""
    out = tmp_path / "out"
    fedrecsim.run(small, out=out, progress=False)
    with pytest.raises(fedrecsim.ScenarioError) as again:
        fedrecsim.run(small, out=out, progress=False)
    told = str(again.value)
    assert "with `out`" in told and "with `overwrite=True`" in told and "--" not in told, told
    study = {"base": small, "seeds": [1], "arms": [{"name": "a"}]}
    with pytest.raises(fedrecsim.ScenarioError) as other:
        fedrecsim.study(study, out=out, progress=False)
    assert "with `out`" in str(other.value) and "--out" not in str(other.value), other.value


def test_the_command_of_the_package_fetches_data() -> None:
    """If this fails, somebody with a wheel is told to install a compiler to get data."""
    words = [sys.executable, "-m", "fedrecsim", "data", "fetch", "ml-100k", "--from", "here"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--from here is no address" in done.stderr, done.stderr


def test_a_fault_has_the_excerpt_of_the_command() -> None:
    """If this fails, Python users do not see which line is wrong."""
    text = 'method = "fedmf"\ndataset = { name = "generated" }\n[training]\nrouns = 3\n'
    with pytest.raises(fedrecsim.ScenarioError) as raised:
        fedrecsim.run(text)
    told = str(raised.value)
    assert "rouns" in told and "did you mean `rounds`" in told and "scenario.toml:4" in told
    assert issubclass(fedrecsim.ScenarioError, fedrecsim.FedrecsimError)


@pytest.mark.parametrize(
    "change",
    [
        {"training.rounds": "none"},
        {"training.rounds": None},
        {"training.rounds": float("nan")},
        {"training.rounds": object()},
        {"training": {"rounds": -1}},
        {"nothing.of.this": 1},
        {"": 1},
        [("training.rounds", 1)],
    ],
)
def test_overrides_that_make_no_sense_are_refused(small, change) -> None:
    """If this fails, a wrong override is ignored."""
    with pytest.raises(fedrecsim.ScenarioError):
        fedrecsim.run(small, set=change)


def test_a_fault_of_an_override_names_the_argument(small) -> None:
    """If this fails, Python users look for an option of a command line that they have not written."""
    for change in ({"training.rouns": 3}, {"training.rounds": "none"}):
        for call in (
            lambda: fedrecsim.run(small, set=change),
            lambda: fedrecsim.study({"base": small, "seeds": [1], "arms": [{"name": "a"}]}, set=change),
        ):
            with pytest.raises(fedrecsim.ScenarioError) as raised:
                call()
            told = str(raised.value)
            assert "--set" not in told and "set" in told, told


@pytest.mark.parametrize("threads", [0, -1, 2000, 1.5, "2", True])
def test_threads_that_make_no_sense_are_refused(small, threads) -> None:
    """If this fails, a wrong number of threads is an exception of another kind."""
    with pytest.raises(fedrecsim.ScenarioError, match="threads"):
        fedrecsim.run(small, threads=threads)


def test_a_run_that_diverges_has_its_rounds_and_says_why(small) -> None:
    """If this fails, a diverged run looks like a complete one."""
    wild = small | {"method": {"fedmf": {"learning_rate_items": 1e30}}}
    with pytest.warns(fedrecsim.RunStopped, match="diverged"):
        run = fedrecsim.run(wild, progress=False)
    assert not run.complete and "diverged" in run.stopped_by
    with pytest.raises(fedrecsim.FedrecsimError, match="diverged"):
        run.check()


def test_values_of_numpy_and_paths_are_values(small, tmp_path) -> None:
    """If this fails, a sweep over `numpy.arange` has to convert its values."""
    changes = {"training.rounds": np.arange(3)[1], "network.dropout": np.float32(0.5)}
    run = fedrecsim.run(small, set=changes, progress=False)
    assert run.record["rounds"] == 1 and run.record["scenario"]["network"]["dropout"] == 0.5
