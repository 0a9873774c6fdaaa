"""Studies: many runs that differ in a few keys, over seeds, on this machine or on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from . import _inputs, _native, method
from .compare import Comparison

#: Who may carry out the runs of a study.
EXECUTORS = ("local", "ray", "slurm")

#: What a study that is a dictionary leaves in its folder.
_HIDDEN = ".fedrecsim"


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study, and what it is expected to take."""

    arm: str
    seed: int
    folder: Path
    is_done: bool
    method: str
    rounds: int
    memory_bytes: int | None
    round_s: float | None

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.arm}, seed {self.seed}"


class Study(Comparison):
    """A study whose runs have ended: its tables, pictures and reports.

    `failures` says of each run that has no result why. The same call goes on with what is missing.
    """

    def __init__(self, folder: Path, markdown: str, planned: Sequence[PlannedRun], failures: Mapping[str, str]) -> None:
        super().__init__(folder, markdown, "study")
        self.planned = list(planned)
        self.failures = dict(failures)

    @property
    def digests(self) -> dict[str, str]:
        """The digest of the result of every run, by its name. They do not depend on the executor."""
        found = {}
        for run in self.planned:
            path = run.folder / "run.json"
            if path.is_file():
                found[run.name] = json.loads(path.read_text(encoding="utf-8"))["digest"]
        return found


def study(
    study: str | os.PathLike[str] | Mapping[str, Any],
    *,
    executor: str = "local",
    out: str | os.PathLike[str] | None = None,
    set: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (),
    threads: int | None = None,
    jobs: int | None = None,
    memory_gb: float | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = True,
    ray_options: Mapping[str, Any] | None = None,
) -> Study:
    """Runs a study, and returns its tables. What is complete in its folder stays, and what was stopped goes on.

    `study` is a file as the command takes it, or a dictionary with the same keys, whose `base` may be a scenario as a
    dictionary. The executor is "local" (runs beside each other on this machine), "ray" (every run is a task of the
    cluster that `ray` is connected to, with the memory and the processors that it is expected to need; it goes on from
    its last checkpoint when its node is lost), or "slurm" (writes a script for `sbatch`, runs nothing, and returns the
    script).

    `out` has to be a folder that every node sees. `threads` are those of a run on a cluster, and of all runs together
    on this machine, where `jobs` run at once. `ray_options` are added to the options of every task.
    """
    if executor not in EXECUTORS:
        raise _native.ScenarioError(f"there is no executor {executor!r}; there are {', '.join(EXECUTORS)}")
    path, folder = _placed(study, out)
    words = ["study", os.fspath(path), "--out", os.fspath(folder)]
    for key, value in _inputs.overrides(set):
        words += ["--set", f"{key}={_native.inline_of_json(value)}"]
    if seeds:
        words += ["--seeds", ",".join(str(int(seed)) for seed in seeds)]
    if data_dir is not None:
        words += ["--data-dir", os.path.abspath(data_dir)]
    if checkpoint_every is not None:
        words += ["--checkpoint-every", str(checkpoint_every)]
    if executor == "slurm":
        return _slurm(words)
    order = _Order(words, folder, _inputs.threads_of(threads), jobs, memory_gb, progress, dict(ray_options or {}))
    return _ray(order) if executor == "ray" else _local(order)


def _placed(study: Any, out: Any) -> tuple[Path, Path]:
    """Returns the file and the folder of a study, and writes the file if the study is a dictionary."""
    if not isinstance(study, Mapping):
        if not isinstance(study, (str, os.PathLike)) or not os.fspath(study):
            raise _native.ScenarioError(f"a study is the path of a file or a dictionary, and not {study!r:.80}")
        path = Path(study)
        return path.absolute(), Path(out if out is not None else Path("reports") / path.stem).absolute()
    folder = Path(out if out is not None else Path("reports") / "study").absolute()
    hidden = folder / _HIDDEN
    hidden.mkdir(parents=True, exist_ok=True)
    written = {key: value for key, value in study.items() if key != "name"}
    arms = [dict(arm) for arm in written.get("arms", [])]
    for place, owner in enumerate([written, *arms]):
        base = owner.get("base")
        if isinstance(base, Mapping):
            name = hidden / ("scenario.toml" if place == 0 else f"scenario-{place}.toml")
            name.write_text(_native.toml_of_json(_inputs.json_of(dict(base))), encoding="utf-8")
            owner["base"] = os.fspath(name)
        elif base is not None:
            owner["base"] = os.path.abspath(base)
    if arms:
        written["arms"] = arms
    path = hidden / f"{study.get('name', 'study')}.toml"
    path.write_text(_native.toml_of_json(_inputs.json_of(written)), encoding="utf-8")
    return path, folder


@dataclass(frozen=True)
class _Order:
    """What was asked for."""

    words: list[str]
    folder: Path
    threads: int | None
    jobs: int | None
    memory_gb: float | None
    progress: bool
    ray_options: dict[str, Any]

    def planned(self, threads: int) -> list[PlannedRun]:
        """Returns the runs, after the study was checked and its arms were rehearsed."""
        runs = _native.study_prepare(self.words, method.entries(), threads)
        return [
            PlannedRun(arm, seed, self.folder / folder, done, used, rounds, memory, round_s)
            for arm, seed, folder, done, used, rounds, memory, round_s in runs
        ]

    def ended(self, planned: Sequence[PlannedRun], failures: Mapping[str, str]) -> Study:
        """Writes the tables."""
        markdown, _ = _native.study_tables([*self.words, "--no-run"], method.entries())
        return Study(self.folder, markdown, planned, failures)

    def tell(self, text: str) -> None:
        """Shows a line, if progress is to be shown."""
        if self.progress:
            print(text, file=sys.stderr, flush=True)


def _free_bytes() -> int | None:
    """Returns the memory that this machine has left, if it tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _local(order: _Order) -> Study:
    """Runs the runs beside each other in threads of this process, which do their work without the interpreter."""
    cores = order.threads or os.cpu_count() or 1
    jobs = order.jobs or cores
    each = max(cores // jobs, 1)
    words = [*order.words, "--threads", str(each)]
    planned = order.planned(each)
    budget = order.memory_gb * 1e9 if order.memory_gb is not None else _free_bytes()
    waiting = [run for run in planned if not run.is_done]
    order.tell(f"{len(waiting)} of {len(planned)} runs to do")
    entries, stop = method.entries(), _native.Stop()
    failures: dict[str, str] = {}
    running: dict[Any, PlannedRun] = {}

    def fits(run: PlannedRun) -> bool:
        if not running or budget is None:
            return True
        taken = sum(other.memory_bytes or 0 for other in running.values())
        return taken + (run.memory_bytes or 0) <= budget

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            while waiting or running:
                while len(running) < jobs and (chosen := next(filter(fits, waiting), None)) is not None:
                    waiting.remove(chosen)
                    task = pool.submit(_native.study_carry_out, words, entries, chosen.arm, chosen.seed, stop)
                    running[task] = chosen
                ended, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for task in ended:
                    _note(order, running.pop(task), task.result(), failures)
        except BaseException:
            stop.set()
            raise
    return order.ended(planned, failures)


def _note(order: _Order, run: PlannedRun, reason: str | None, failures: dict[str, str]) -> None:
    if reason is not None:
        failures[run.name] = reason
    order.tell(f"{run.name}: {'done' if reason is None else reason}")


def _slurm(words: list[str]) -> Any:
    """Has the command write the script for Slurm, and returns its text."""
    command = [sys.executable, "-m", "fedrecsim", *words, "--slurm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if "unexpected argument '--slurm'" in done.stderr:
            raise _native.FedrecsimError("this build of fedrecsim writes no scripts for Slurm: `study` has no --slurm")
        raise _native.FedrecsimError(done.stderr.strip() or f"`study --slurm` ended with {done.returncode}")
    return done.stdout


def _ray(order: _Order) -> Study:
    """Runs every run as a task of the cluster that `ray` is connected to."""
    from . import _ray as tasks

    return tasks.carry_out(order)
