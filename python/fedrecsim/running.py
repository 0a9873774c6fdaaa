"""Runs scenarios, and says what they take."""

from __future__ import annotations

import json
import os
import warnings
from typing import Callable, Mapping, Sequence

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
    start: _inputs.Start | None = None,
    checkpoint_every: int | None = None,
    keep_checkpoint: bool = False,
    resume: bool = False,
    save_users: Sequence[str | int] | str | None = None,
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

    `start` is the run whose parameters this one starts from: a `Run` with `keep_checkpoint=True`, the report folder of one,
    a checkpoint file, or what `Simulation.save` has returned. It is the key `training.start`. The model and the private
    parameters of users of the same names are those of that run's end. Rounds, virtual time, bytes and random draws
    begin anew.

    `checkpoint_every` leaves a checkpoint in `out` after every so many rounds, so that a process that is killed loses no
    more. The same call with `resume=True` goes on from the newest one; without a checkpoint in `out` it begins. The result
    is that of a run which was never stopped. `keep_checkpoint` keeps the parameters of the end for `start`: in `out`,
    with the checkpoint that `fedrecsim resume --rounds` adds rounds to, or without `out` in the `Run`.

    `save_users` are the names of users whose private vectors `Run.user_vectors` then has, or "all".

    Ctrl-C raises KeyboardInterrupt, and so does `on_round` with its exceptions. If a round was finished, the exception has
    the finished rounds as a `Run` in its attribute `run`, and they are written to `out` if there is one.

    Raises ScenarioError with the place of every fault of a scenario or of the ratings, for a start that does not fit, a
    checkpoint of another run or build, and a tracker that is not installed.
    """
    source = _inputs.given(scenario, set, seed, data_dir, ratings=_ratings.given(ratings, scenario, set), start=start)
    saved = _inputs.users_of(save_users)
    folder = _inputs.folder_of(out, checkpoint_every, keep_checkpoint, resume)
    show, end = _progress.shown() if progress and _progress.is_visible() else (None, None)
    with _track.Tracking(_track.chosen(track, _track.warn), on_round) as tracking:
        try:
            report = tracking.run(source, _inputs.threads_of(threads), show, (folder, keep_checkpoint, saved))
        except BaseException as reason:
            keep_rounds(reason, source, None if folder else out)
            raise
        finally:
            if end is not None:
                end()
        if folder is not None and keep_checkpoint:
            source["kept_in"] = os.path.abspath(folder[0])
        done = Run(report, source)
        for text in done.record.get("warnings", []):
            warnings.warn(text, UserWarning, stacklevel=2)
        if not done.complete:
            warnings.warn(f"stopped after round {done.record['rounds']}: {done.stopped_by}", RunStopped, stacklevel=2)
        if out is not None and folder is None:
            done.write(out)
    return done


def keep_rounds(reason: BaseException, source: _inputs.Source, out: str | os.PathLike[str] | None) -> None:
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
