"""Studies: runs beside each other, on this machine, as tasks of Ray, and comparisons."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fedrecsim
import pytest


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
    file = tmp_path / "study" / ".fedrecsim" / "study.toml"
    command = [sys.executable, "-m", "fedrecsim", "study", str(file), "--out", str(tmp_path / "other"), "--progress", "off"]
    subprocess.run(command, check=True, capture_output=True)
    for run in study.planned:
        other = tmp_path / "other" / run.folder.relative_to(tmp_path / "study") / "run.json"
        assert json.loads(other.read_text())["digest"] == study.digests[run.name]


def test_a_study_shows_tables_and_pictures(axes, tmp_path: Path) -> None:
    """If this fails, whoever ran a study sees nothing of it."""
    study = fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    assert "uplink=rows-f32, dropout=0.2" in study.markdown and study._repr_markdown_() == study.markdown
    assert {row["arm"] for row in study.summary} == {run.arm for run in study.planned}
    assert study.runs[0]["seed"] == 1
    assert "<svg" in study.plot("accuracy-by-bytes")._repr_svg_()
    with pytest.raises(fedrecsim.ScenarioError, match="accuracy-by-bytes"):
        study.plot("nothing")


def test_the_same_call_goes_on_with_what_is_missing(axes, tmp_path: Path, capsys) -> None:
    """If this fails, a study that was stopped begins anew, or runs what is done once more."""
    first = fedrecsim.study(axes, out=tmp_path / "study", seeds=[1], progress=False)
    made = {name: (tmp_path / "study" / "runs").stat().st_mtime for name in first.digests}
    assert len(made) == 4
    again = fedrecsim.study(axes, out=tmp_path / "study")
    assert "4 of 8 runs to do" in capsys.readouterr().err
    assert {name: again.digests[name] for name in first.digests} == first.digests
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


def test_slurm_gets_a_script_or_a_clear_refusal(axes, tmp_path: Path) -> None:
    """If this fails, a build without scripts for Slurm ends in a message on the command line's syntax."""
    try:
        script = fedrecsim.study(axes, executor="slurm", out=tmp_path / "study")
    except fedrecsim.FedrecsimError as error:
        assert "writes no scripts for Slurm" in str(error)
    else:
        assert "#SBATCH" in script
