"""Runs scenarios, and says what they take."""

from __future__ import annotations

import json
import os
import warnings
from typing import Callable, Mapping

from . import _inputs, _native, _progress, _ratings, _track
from .records import Estimate, RoundRecord
from .run import Run


class RunStopped(UserWarning):
    """Says that a run ended before its last round, and why. Its finished rounds are its result."""


def run(
    scenario: _inputs.Scenario,
    ratings: _ratings.Ratings | None = None,
    *,
    set: Mapping[str, object] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
    data_dir: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    track: _track.Track | None = None,
    on_round: Callable[[RoundRecord], object] | None = None,
) -> Run:
    """Runs a scenario, and returns what remains of it.

    `scenario` is the path of a file, TOML text or a dictionary; `set` replaces values in it, as `{"training.rounds":
    5}`. `threads` does not affect the result. `data_dir` is the folder with data sets, and `out` one for the report.

    `ratings` are ratings in memory, which the run takes in place of those that the scenario names: a data frame of
    pandas or polars, a table of pyarrow, a dictionary of columns, arrays `(user, item[, rating[, time]])`, or a sparse
    matrix of SciPy with a row for each user. Columns are found by their usual names, such as `user_id`; other names are
    given as `set={"dataset.columns.user": "member"}`. The result is that of a file with the same rows. The scenario of
    the run names the rows by their digest, so that it runs again only if they are given again.

    `track` names experiment trackers that follow the run: "mlflow", "tensorboard", "wandb", an object with the methods
    of `Tracker`, or a list of these. They get the parameters, the figures of every round as it ends, and at the end the
    accuracy and the report. One that fails costs the run nothing: the warning `TrackerFailed` says so.

    A run that cannot go on, because training diverged say, ends with the warning `RunStopped`, and its finished rounds
    are its result.

    `on_round` is called with the record of every round as it ends, as `Simulation.step` returns it. The run stops after the
    round if it returns True, and its finished rounds are its result.

    Ctrl-C raises KeyboardInterrupt, and so does `on_round` with its exceptions. If a round was finished, the exception has
    the finished rounds as a `Run` in its attribute `run`, and they are written to `out` if there is one.

    Raises ScenarioError with the place of every fault of a scenario or of the ratings, and for a tracker that is not
    installed.
    """
    source = _inputs.given(scenario, set, seed, data_dir, ratings=_ratings.given(ratings, scenario, set))
    show, end = _progress.shown() if progress and _progress.is_visible() else (None, None)
    with _track.Tracking(_track.chosen(track), on_round) as tracking:
        try:
            report = tracking.run(source, _inputs.threads_of(threads), show)
        except BaseException as reason:
            _keep(reason, source, out)
            raise
        finally:
            if end is not None:
                end()
        done = Run(report, source)
        for text in done.record.get("warnings", []):
            warnings.warn(text, UserWarning, stacklevel=2)
        if not done.complete:
            warnings.warn(f"stopped after round {done.record['rounds']}: {done.stopped_by}", RunStopped, stacklevel=2)
        if out is not None:
            done.write(out)
    return done


def _keep(reason: BaseException, source: _inputs.Source, out: str | os.PathLike[str] | None) -> None:
    """Gives an exception the finished rounds of the run that it ends, and writes them."""
    report = reason.__dict__.pop("report", None)
    if report is None:
        return
    left = Run(report, source)
    reason.run = left  # type: ignore[attr-defined]
    if out is not None:
        try:
            left.write(out)
        except _native.FedrecsimError as fault:
            # The rounds are at the exception, and their end is what the caller has to know.
            warnings.warn(f"the finished rounds are not in {os.fspath(out)}: {fault}", UserWarning, stacklevel=3)


def resolve(
    scenario: _inputs.Scenario, *, set: Mapping[str, object] | None = None, seed: int | None = None
) -> str:
    """Returns a scenario as it is resolved, with every preset and default written out, as TOML.

    Raises ScenarioError with the place of every fault.
    """
    resolved, found = _native.resolve(_inputs.given(scenario, set, seed))
    for text in found:
        warnings.warn(text, UserWarning, stacklevel=2)
    return resolved


def estimate(
    scenario: _inputs.Scenario,
    ratings: _ratings.Ratings | None = None,
    *,
    set: Mapping[str, object] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Estimate:
    """Rehearses the first rounds of a scenario, and returns what its run is expected to take: bytes, virtual time,
    wall-clock time and memory. `ratings` are as `run` takes them."""
    source = _inputs.given(scenario, set, seed, data_dir, ratings=_ratings.given(ratings, scenario, set))
    told: Estimate = json.loads(_native.estimate(source, _inputs.threads_of(threads)))
    return told
