"""Studies: many runs that differ in a few keys, over seeds, on this machine or on a cluster."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal, Mapping, Sequence, overload

from . import _inputs, _native, _ratings, _ray, _track, method
from ._errors import WrongTypeError
from ._order import Order, PlannedRun
from .compare import Comparison

#: Who may carry out the runs of a study.
EXECUTORS = ("local", "ray", "slurm")

#: What a study that is a dictionary leaves in its folder.
_HIDDEN = ".fedrecsim"


class Study(Comparison):
    """A study whose runs have ended: its tables, pictures and reports.

    `failures` says why a run has no result. The same call goes on with what is missing.
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


@overload
def study(
    study: str | os.PathLike[str] | Mapping[str, object],
    ratings: _ratings.Ratings | None = None,
    *,
    executor: Literal["local", "ray"] = "local",
    out: str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    seeds: Sequence[int] = (),
    threads: int | None = None,
    jobs: int | None = None,
    memory_gb: float | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = True,
    ray_options: Mapping[str, object] | None = None,
    track: _track.Track | None = None,
) -> Study: ...


@overload
def study(
    study: str | os.PathLike[str] | Mapping[str, object],
    ratings: _ratings.Ratings | None = None,
    *,
    executor: Literal["slurm"],
    out: str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    seeds: Sequence[int] = (),
    threads: int | None = None,
    jobs: int | None = None,
    memory_gb: float | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = True,
    ray_options: Mapping[str, object] | None = None,
) -> str: ...


def study(
    study: str | os.PathLike[str] | Mapping[str, object],
    ratings: _ratings.Ratings | None = None,
    *,
    executor: str = "local",
    out: str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,
    seeds: Sequence[int] = (),
    threads: int | None = None,
    jobs: int | None = None,
    memory_gb: float | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = True,
    ray_options: Mapping[str, object] | None = None,
    track: _track.Track | None = None,
) -> Study | str:
    """Runs a study, and returns its tables. Complete runs in its folder stay, and stopped runs go on.

    `study` is a file as the command takes it, or a dictionary with the same keys, whose `base` may be a scenario as a
    dictionary. The executor is "local" (runs beside each other on this machine), "ray" (every run is a task of the
    cluster that `ray` is connected to, with the memory and the processors that it is expected to need; it goes on from
    its last checkpoint when its node is lost), or "slurm" (writes a script for `sbatch`, runs nothing, and returns the
    script).

    `out` has to be a folder that every node sees. `threads` are those of a run on a cluster, and of all runs together
    on this machine, where `jobs` run at once. `ray_options` are added to the options of every task.

    `ratings` are ratings in memory as `run` takes them, for the runs of all arms and on this machine only. Whoever goes
    on with a study that has ended early gives them again.

    `track` names experiment trackers as `run` takes them. When the study has ended, each run that it has carried out is
    a run of theirs. A script for Slurm has none.
    """
    if executor not in EXECUTORS:
        raise _native.ScenarioError(f"there is no executor {executor!r}; there are {', '.join(EXECUTORS)}")
    for name, number in (("jobs", jobs), ("checkpoint_every", checkpoint_every)):
        _inputs.count_of(name, number)
    if memory_gb is not None and not (isinstance(memory_gb, (int, float)) and 0 < memory_gb < 1e9):
        raise _native.ScenarioError(f"`memory_gb` must be a number above 0, not {memory_gb!r}")
    if ratings is not None and executor != "local":
        raise _native.ScenarioError(
            f"the executor {executor!r} has runs in other processes, which do not have these ratings: write them to a file "
            "that every node sees, and name it with `dataset.path`"
        )
    kept, named = _ratings.given(ratings, study.get("base") if isinstance(study, Mapping) else None, set) or (None, [])
    path, folder = _placed(study, out)
    words = ["study", os.fspath(path), "--out", os.fspath(folder)]
    for key, value in [*_inputs.overrides(set), *named]:
        words += ["--set", f"{key}={_native.inline_of_json(value)}"]
    if seeds:
        words += ["--seeds", ",".join(str(_inputs.seed_of(seed)) for seed in seeds)]
    if data_dir is not None:
        words += ["--data-dir", os.path.abspath(data_dir)]
    if checkpoint_every is not None:
        words += ["--checkpoint-every", str(checkpoint_every)]
    order = Order(words, folder, _inputs.threads_of(threads), jobs, memory_gb, progress, dict(ray_options or {}), kept)
    if executor == "slurm":
        if track is not None:
            raise _native.ScenarioError("`track` follows runs that this call carries out, and for Slurm it carries out none")
        return _slurm(order)
    with _track.each_run_of(order, track):
        return _on_ray(order) if executor == "ray" else _local(order)


def _placed(
    study: str | os.PathLike[str] | Mapping[str, object], out: str | os.PathLike[str] | None
) -> tuple[Path, Path]:
    """Returns the file and the folder of a study, and writes the file if the study is a dictionary."""
    if not isinstance(study, Mapping):
        if not isinstance(study, (str, os.PathLike)) or not os.fspath(study):
            raise WrongTypeError(f"a study must be the path of a file or a dictionary, not {study!r:.80}")
        path = Path(study)
        # A file that is not there may be the name of a study that comes with the package.
        return path.absolute() if path.exists() else path, Path(out if out is not None else Path("reports") / path.stem).absolute()
    name = str(study.get("name", "study"))
    if name in ("", ".", "..") or name != os.path.basename(name):
        raise _native.ScenarioError(f"the name of a study must be a file name, not {name!r}")
    folder = Path(out if out is not None else Path("reports") / "study").absolute()
    written = {key: value for key, value in study.items() if key != "name"}
    given = written.get("arms")
    arms = [dict(arm) for arm in given] if isinstance(given, (list, tuple)) else []
    for owner in [written, *arms]:
        base = owner.get("base")
        if isinstance(base, Mapping):
            text = _native.toml_of_json(_inputs.json_of(dict(base)))
            owner["base"] = os.fspath(_kept(folder / _HIDDEN, "scenario", text))
        elif isinstance(base, (str, os.PathLike)) and os.path.exists(base):
            # Else it is the name of a scenario that comes with the package.
            owner["base"] = os.path.abspath(base)
    if arms:
        written["arms"] = arms
    return _kept(folder / _HIDDEN, name, _native.toml_of_json(_inputs.json_of(written))), folder


def _kept(folder: Path, name: str, text: str) -> Path:
    """Returns a file with this text, which is written if it is not there. Its folder is named after the text, so that no
    other call writes over what runs are still to read, and it appears whole or not at all."""
    path = folder / hashlib.blake2b(text.encode(), digest_size=8).hexdigest() / f"{name}.toml"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    return path


def _local(order: Order) -> Study:
    """Carries out the runs in threads of this process, as the command does in processes."""
    markdown, _ = _native.study_here([*order.words, *order.limits], method.entries(), order.tell)
    return _of_folder(order, markdown, {})


def _on_ray(order: Order) -> Study:
    """Carries out every run as a task of the cluster that `ray` is connected to."""
    return _ended(order, _ray.carry_out(order))


def _ended(order: Order, lost: Mapping[str, str]) -> Study:
    """Writes the tables. `lost` says why runs are missing whose folders do not say it."""
    markdown, _ = _native.study_tables([*order.words, "--no-run"], method.entries())
    return _of_folder(order, markdown, lost)


def _of_folder(order: Order, markdown: str, lost: Mapping[str, str]) -> Study:
    """Returns the study with what its folder says of each run."""
    runs = order.runs()
    told = {run.name: run.failure for run in runs if run.failure is not None}
    missing = {run.name: lost[run.name] for run in runs if run.name in lost and not run.is_done}
    return Study(order.folder, markdown, runs, missing | told)


def _slurm(order: Order) -> str:
    """Has the command write the script for Slurm, and returns its text."""
    runs = order.runs()
    own = {cls.name for cls in method.classes()}
    if here := sorted({run.method for run in runs} & own):
        raise _native.ScenarioError(f"a script for Slurm starts the command, which has no method `{here[0]}`")
    command = [sys.executable, "-m", "fedrecsim", *order.words, *order.limits, "--slurm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _native.FedrecsimError(done.stderr.strip() or f"`study --slurm` ended with {done.returncode}")
    return (order.folder / "slurm.sh").read_text(encoding="utf-8")
