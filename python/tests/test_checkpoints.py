"""Checkpoints of runs: what is left when a process is killed, and how a run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import fedrecsim
import pytest

#: A process that kills itself after some rounds. Its scenario, its folder and the round come as arguments.
KILLED = """
import json, os, signal, sys
import fedrecsim
{method}
scenario, out, last = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def at(record):
    if record["round"] == last:
        os.kill(os.getpid(), signal.SIGKILL)

{call}
"""

CALLS = {
    "run": "fedrecsim.run(scenario, progress=False, out=out, checkpoint_every=3, on_round=at)",
    "simulation": """
simulation = fedrecsim.Simulation(scenario)
step = simulation._native.step
class Native:
    def __getattr__(self, name):
        return getattr(simulation_native, name)
    def step(self):
        record = step()
        at(json.loads(record))
        return record
simulation_native, simulation._native = simulation._native, Native()
simulation.run(out=out, checkpoint_every=3)
""",
}


def killed(scenario: dict, out: Path, last: int, call: str, method: str = "") -> None:
    code = KILLED.format(method=method, call=CALLS[call])
    paths = os.pathsep.join([str(Path(fedrecsim.__file__).parent.parent), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", code, json.dumps(scenario), str(out), str(last)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="nothing kills a process like that here")
@pytest.mark.parametrize("call", list(CALLS))
def test_a_killed_process_loses_no_more_than_the_rounds_between_checkpoints(small, tmp_path: Path, call: str) -> None:
    """If this fails, a long run on a machine that is taken away begins anew."""
    scenario = small | {"training": {"rounds": 10}}
    whole = fedrecsim.run(scenario, progress=False)
    out = tmp_path / "out"
    killed(scenario, out, 8, call)
    assert (out / "checkpoint-6.bin").is_file() and not (out / "run.json").exists()
    seen: list[int] = []
    run = fedrecsim.run(
        scenario, progress=False, out=out, checkpoint_every=3, resume=True, on_round=lambda r: seen.append(r["round"])
    )
    assert seen == [7, 8, 9, 10] and run.digest == whole.digest and len(run.rounds) == 10
    assert json.loads((out / "run.json").read_text())["digest"] == whole.digest
    assert not list(out.glob("checkpoint-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="nothing kills a process like that here")
def test_methods_in_python_and_ratings_in_memory_go_on(in_python, tmp_path: Path) -> None:
    """If this fails, only what the command can run as well goes on after a kill."""
    method = "import numpy_fedmf"
    scenario = in_python | {"training": {"rounds": 5}}
    killed(scenario, tmp_path / "out", 4, "run", method)
    run = fedrecsim.run(scenario, progress=False, out=tmp_path / "out", resume=True)
    assert run.digest == fedrecsim.run(scenario, progress=False).digest
    ratings = {"user": [f"u{n % 20}" for n in range(400)], "item": [n * n % 61 for n in range(400)]}
    of_ratings = {key: value for key, value in in_python.items() if key != "dataset"}
    in_memory = {"dataset.repeated_pairs": "last", "evaluation.ranking": "full-catalogue"}
    whole = fedrecsim.run(of_ratings, ratings, set=in_memory, progress=False)

    def stop(record: dict) -> None:
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedrecsim.run(
            of_ratings,
            ratings,
            set=in_memory,
            progress=False,
            out=tmp_path / "memory",
            checkpoint_every=1,
            on_round=stop,
        )
    again = {"set": in_memory, "progress": False, "out": tmp_path / "memory", "checkpoint_every": 1}
    with pytest.raises(fedrecsim.ScenarioError, match="resume=True"):
        fedrecsim.run(of_ratings, ratings, **again)
    assert fedrecsim.run(of_ratings, ratings, resume=True, **again).digest == whole.digest


def test_a_run_with_resume_begins_where_nothing_is_and_refuses_what_is_not_its_own(small, tmp_path: Path) -> None:
    """If this fails, a script that always says `resume=True` fails the first time, or mixes two runs."""
    again = {"progress": False, "out": tmp_path / "out", "checkpoint_every": 1, "resume": True}
    with pytest.raises(KeyboardInterrupt):
        fedrecsim.run(small, on_round=lambda record: (_ for _ in ()).throw(KeyboardInterrupt), **again)
    with pytest.raises(fedrecsim.FedrecsimError, match="another run|another scenario"):
        fedrecsim.run(small, seed=8, **again)
    assert fedrecsim.run(small, **again).digest == fedrecsim.run(small, progress=False).digest
    with pytest.raises(fedrecsim.ScenarioError, match="is there already"):
        fedrecsim.run(small, **again)


def test_the_last_checkpoints_are_kept_on_request(small, tmp_path: Path) -> None:
    """If this fails, `fedrecsim resume --rounds` has nothing to add rounds to, or a folder fills with checkpoints."""
    run = fedrecsim.Simulation(small).run(out=tmp_path / "out", checkpoint_every=1, keep_checkpoint=True)
    assert sorted(path.name for path in (tmp_path / "out").glob("checkpoint-*")) == ["checkpoint-3.bin", "checkpoint-end.bin"]
    assert run.digest == fedrecsim.run(small, progress=False).digest
    assert fedrecsim.run(small, progress=False, start=run).complete


@pytest.mark.parametrize("wrong", [{"checkpoint_every": 0}, {"checkpoint_every": True}, {"checkpoint_every": 2.5}])
def test_a_number_that_is_none_is_refused(small, tmp_path: Path, wrong: dict) -> None:
    """If this fails, a typing error means that no checkpoint is ever left."""
    with pytest.raises(fedrecsim.ScenarioError, match="checkpoint_every"):
        fedrecsim.run(small, progress=False, out=tmp_path / "out", **wrong)


@pytest.mark.parametrize("asked", [{"checkpoint_every": 2}, {"resume": True}])
def test_checkpoints_need_a_folder(small, asked: dict) -> None:
    """If this fails, somebody relies on checkpoints that are nowhere."""
    with pytest.raises(fedrecsim.ScenarioError, match="name one with `out`"):
        fedrecsim.run(small, progress=False, **asked)
