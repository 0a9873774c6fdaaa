"""What was asked of a study, and the runs that follow from it. Every executor reads it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from . import _native, method


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study, and what it is expected to take."""

    arm: str
    seed: int
    folder: Path
    is_done: bool
    failure: str | None
    method: str
    rounds: int
    memory_bytes: int | None
    round_s: float | None

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.arm}, seed {self.seed}"


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    words: list[str]
    folder: Path
    threads: int | None
    jobs: int | None
    memory_gb: float | None
    progress: bool
    ray_options: dict[str, object]
    #: Ratings in memory, which are there as long as this is.
    ratings: _native.Ratings | None = None

    @property
    def limits(self) -> list[str]:
        """The words for what all runs together may have."""
        limits = {"--threads": self.threads, "--jobs": self.jobs, "--memory": self.memory_gb}
        return [word for key, value in limits.items() if value is not None for word in (key, str(value))]

    def prepared(self, threads: int) -> tuple[_native.Held, list[PlannedRun]]:
        """Returns the folder, which is held, and the runs, after the study was checked and its arms were rehearsed."""
        held, runs = _native.study_prepare(self.words, method.entries(), threads)
        return held, [self._run(run) for run in runs]

    def runs(self) -> list[PlannedRun]:
        """Returns the runs, and what has become of each."""
        return [self._run(run) for run in _native.study_runs(self.words, method.entries())]

    def _run(self, run: _native.Prepared) -> PlannedRun:
        arm, seed, folder = run[:3]
        return PlannedRun(arm, seed, self.folder / folder, *run[3:])

    def tell(self, text: str) -> None:
        """Shows a line, if progress is to be shown."""
        if self.progress:
            print(text, file=sys.stderr, flush=True)
