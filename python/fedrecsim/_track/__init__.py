"""Hands runs to experiment trackers: MLflow, W&B, TensorBoard, or an object of the user's own.

`trackers` has what each tracker does, `figures` the names of what it gets, and `feed` the threads that keep it from
slowing the run down. Here a run is followed while it goes on, or handed over from its report.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Callable, Iterator, Mapping, Optional, Sequence, Tuple

from .. import _inputs, _native
from .._columns import at
from .._order import Order
from ..records import RoundRecord, RunRecord
from ..table import Table
from .feed import Feeds
from .figures import WALL, Row, Rows, Value, accuracy_of, named, parameters_of, plain, resolved
from .trackers import TRACKERS, Ended, Round, Track, Tracker, chosen

__all__ = [
    "TRACKERS",
    "Ended",
    "Round",
    "Track",
    "Tracker",
    "TrackerFailed",
    "Tracking",
    "chosen",
    "each_run_of",
    "end",
    "hand_over",
    "read",
    "state_of",
    "warn",
]

#: The files of a report that trackers get. `users.csv` tells of single users, and stays with its owner.
FILES = frozenset(
    "run.json scenario.toml summary.md report.html rounds.csv rounds.parquet network.csv items.csv accuracy-by-bytes.svg "
    "accuracy-by-round.svg accuracy-by-time.svg accuracy-by-uploads.svg sparsity-by-round.svg".split()
)

#: The name of a figure of accuracy, and its value.
Figure = Tuple[str, float]

#: Shows a round: its number, the number of all, the virtual time, the bytes sent so far, and a figure of accuracy.
Show = Callable[[int, int, float, int, Optional[Figure]], None]


class TrackerFailed(UserWarning):
    """Says that a tracker lacks a part of a run, and why. The run itself goes on and loses nothing."""


class Tracking:
    """A run that trackers follow. Leaving the context ends it at the trackers, however it has ended."""

    def __init__(self, trackers: Sequence[Tracker], on_round: Callable[[RoundRecord], object] | None = None) -> None:
        self._trackers = trackers
        self._on_round = on_round
        self._feeds: Feeds | None = None
        self._report: _native.Report | None = None

    def run(
        self,
        source: _inputs.Source,
        threads: int | None,
        show: Show | None,
        kept: tuple[_native.Folder | None, bool, list[str] | None],
    ) -> _native.Report:
        """Carries out a run. With trackers or a callback it goes round by round, so that they get each as it ends. What
        ends it early has what remains as `report`, if a round was finished. What is `kept` is a folder for checkpoints,
        whether the parameters of the end stay there or in the report, and the users whose vectors the report has."""
        folder, keep, users = kept
        if not self._trackers and self._on_round is None:
            return _native.run(source, threads, show, folder, keep, users)
        from ..simulation import Simulation

        clock = time.perf_counter
        started = clock()
        laps: list[float] = []
        simulation = Simulation._of(source, _native.Simulation(source, threads, folder, users))

        def finished(keep: bool) -> _native.Report:
            return simulation._native.finish(keep, clock() - started, statistics.median(laps) * 1e3 if laps else 0.0)

        scenario = resolved(source)
        rows, rounds = Rows(scenario), at(scenario, "training").get("rounds")
        self._feeds = Feeds(self._trackers, warn)
        try:
            self._feeds.begin(Path(source["path"]).stem, parameters_of(scenario))
            last = clock()
            for record in simulation:
                laps.append(clock() - last)
                row = rows.of(record)
                self._feeds.round(record["round"], named(row) | {WALL: laps[-1]})
                if show is not None:
                    sent, figure = sum(rows.sent.values()), _figure_of(scenario, record)
                    show(record["round"], rounds if isinstance(rounds, int) else 0, record["virtual_time_s"], sent, figure)
                if self._on_round is not None and self._on_round(record) is True:
                    break
                # What the caller does between two rounds is no time of a round.
                last = clock()
        except BaseException as reason:
            # After Ctrl-C the finished rounds are what the trackers keep.
            with contextlib.suppress(_native.FedrecsimError):
                self._report = finished(False)
                if json.loads(self._report.json)["rounds"]:
                    reason.report = self._report  # type: ignore[attr-defined]
            raise
        self._report = finished(keep)
        return self._report

    def __enter__(self) -> Tracking:
        return self

    def __exit__(self, kind: object, reason: BaseException | None, trace: object) -> None:
        if self._feeds is None or not self._trackers:
            return
        try:
            if self._report is None:
                self._feeds.end({}, None, str(reason) or type(reason).__name__, {})
            else:
                end(self._feeds, json.loads(self._report.json), _rows_of(self._report), _files_of(self._report))
        except Exception as fault:
            # Whatever it is, the run has its result.
            warn(f"the trackers lack the end of this run: {fault!r}")


def hand_over(
    folder: Path,
    trackers: Sequence[Tracker],
    say: Callable[[str], None],
    name: str | None = None,
    parameters: Mapping[str, Value] | None = None,
) -> list[Tracker]:
    """Hands over a run that has ended from the folder of its report, and returns the trackers that have not failed.

    `say` is called with what goes wrong. `parameters` are added to those of the scenario.
    """
    try:
        record, rows, files = read(folder)
        feeds = Feeds(trackers, say)
        feeds.begin(name or record["name"], {**parameters_of(record["scenario"]), **(parameters or {})})
        return end(feeds, record, rows, files)
    except (OSError, ValueError, KeyError) as reason:
        say(f"the trackers lack the run in {folder}, as its report cannot be read: {reason!r}")
        return list(trackers)


def read(folder: Path) -> tuple[RunRecord, Sequence[Row], dict[str, bytes]]:
    """Returns of a report what trackers get: its record, the rows of its rounds, and its files."""
    from ..compare import rows_of

    record: RunRecord = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    files = {file: (folder / file).read_bytes() for file in FILES if (folder / file).is_file()}
    return record, rows_of(folder / "rounds.csv"), files


def state_of(folder: Path) -> tuple[int, int] | None:
    """Returns what changes when another report is written to a folder; `None` if there is none in it."""
    try:
        state = os.stat(folder / "run.json")
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns


@contextlib.contextmanager
def each_run_of(order: Order, track: Track | None) -> Iterator[None]:
    """Hands over every run of a study that ends within the context. A tracker that fails gets no other run."""
    trackers = chosen(track, warn)
    before = {run.folder: state_of(run.folder) for run in order.runs()} if trackers else {}
    try:
        yield
    finally:
        for run in order.runs() if trackers else ():
            if state_of(run.folder) not in (None, before.get(run.folder)):
                study = order.folder.name
                parameters: dict[str, Value] = {"study": study, "arm": run.arm}
                trackers = hand_over(run.folder, trackers, warn, f"{study}: {run.name}", parameters)


def end(feeds: Feeds, record: RunRecord, rows: Sequence[Row], files: Mapping[str, bytes]) -> list[Tracker]:
    """Hands over those figures of all rounds that the trackers lack, and the end. Returns the trackers that have not
    failed."""
    for row in rows:
        feeds.rest(int(row["round"] or 0), named(row))
    final = {f"final/{plain(name)}": value for name, value in accuracy_of(record["accuracy"]).items()}
    final["final/wall_total_s"] = record["wall"]["total_s"]
    final["final/wall_per_round_ms"] = record["wall"]["per_round_ms"]
    return feeds.end(final, record["digest"], record.get("stopped_by"), files)


def _rows_of(report: _native.Report) -> Sequence[Row]:
    """Returns the rows of the table of rounds."""
    return Table(report.rounds).to_dicts()


def _files_of(report: _native.Report) -> dict[str, bytes]:
    """Returns the files of the report that trackers get."""
    return {name: content for name, content in report.files().items() if name in FILES}


def _figure_of(scenario: Mapping[str, object], record: RoundRecord) -> Figure | None:
    """Returns the figure of accuracy that is shown of a round, if it has one."""
    headline = str(at(scenario, "evaluation").get("headline", ""))
    value = (record["accuracy"] or {"test": {}})["test"].get(headline)
    return None if value is None else (headline.upper(), value)


def warn(text: str) -> None:
    """Says that a tracker lacks something."""
    warnings.warn(text, TrackerFailed, stacklevel=2)
