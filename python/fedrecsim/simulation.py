"""Simulations that are driven step by step."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import weakref
from typing import TYPE_CHECKING, Iterator, Mapping, Sequence

from . import _inputs, _native, _ratings
from ._arrays import Matrix
from ._files import write_private
from .method import Array
from .records import Recommended, RoundRecord
from .run import Run, UserVectors, vectors_of
from .running import keep_rounds

if TYPE_CHECKING:
    import numpy as np


#: The simulations that are there. Their threads end before the interpreter does.
_alive: weakref.WeakSet[Simulation] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Ends all work of this process: its threads must not ask for an interpreter that is gone."""
    _native.end_all()
    for simulation in list(_alive):
        simulation._native.close()


class Simulation:
    """A simulated world that is under way, between two rounds or in the middle of one.

    It has threads of its own, and lets other threads of Python go on while it works, so that several can be at work at
    once. `ratings` and `start` are as `run` takes them. Ctrl-C ends a step: the simulation is then over, and `finish` returns the
    rounds before. Iterating over it steps to the end:

    >>> for round in fedrecsim.Simulation("quickstart.toml"):     # doctest: +SKIP
    ...     print(round["round"], round["virtual_time_s"])
    """

    def __init__(
        self,
        scenario: _inputs.Scenario,
        ratings: _ratings.Ratings | None = None,
        *,
        set: Mapping[str, object] | None = None,
        seed: int | None = None,
        threads: int | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        start: _inputs.Start | None = None,
    ) -> None:
        self._source = _inputs.given(
            scenario, set, seed, data_dir, ratings=_ratings.given(ratings, scenario, set), start=start
        )
        self._native = _native.Simulation(self._source, _inputs.threads_of(threads))
        _alive.add(self)

    @classmethod
    def restore(
        cls,
        scenario: _inputs.Scenario,
        saved: bytes | bytearray | memoryview | str | os.PathLike[str],
        *,
        set: Mapping[str, object] | None = None,
        seed: int | None = None,
        threads: int | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        ratings: _ratings.Ratings | None = None,
        start: _inputs.Start | None = None,
    ) -> Simulation:
        """Restores a simulation of the same scenario, from the bytes or the file that `save` has made. One of ratings in
        memory needs the same ratings again, and one that started from another run the same `start`."""
        if isinstance(saved, (str, os.PathLike)):
            with open(saved, "rb") as file:
                saved = file.read()
        source = _inputs.given(
            scenario, set, seed, data_dir, ratings=_ratings.given(ratings, scenario, set), start=start
        )
        return cls._of(source, _native.Simulation.restore(source, bytes(saved), _inputs.threads_of(threads)))

    @classmethod
    def _of(cls, source: _inputs.Source, native: _native.Simulation) -> Simulation:
        self = cls.__new__(cls)
        self._source = source
        self._native = native
        _alive.add(self)
        return self

    def step(self) -> RoundRecord | None:
        """Goes on to the end of a round, and returns its record; `None` if the simulation is over."""
        record = self._native.step()
        return None if record is None else json.loads(record)

    def step_until(self, *, round: int | None = None, time_s: float | None = None) -> list[RoundRecord]:
        """Goes on until a round is over, or until an instant of virtual time, at which a round may be open. Returns the
        records of the rounds that ended on the way."""
        return [json.loads(record) for record in self._native.step_until(round, time_s)]

    def __iter__(self) -> Iterator[RoundRecord]:
        while (record := self.step()) is not None:
            yield record

    def run(
        self,
        *,
        out: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        keep_checkpoint: bool = False,
    ) -> Run:
        """Goes on to the last round, and returns what remains. The report goes to the folder `out`, and so do checkpoints
        with `checkpoint_every` or `keep_checkpoint`, as those of `run`: `fedrecsim.run(..., out=out, resume=True)` goes on
        from them. Ctrl-C raises KeyboardInterrupt, with the finished rounds as `run` has them."""
        folder = _inputs.folder_of(out, checkpoint_every, keep_checkpoint)
        if folder is not None:
            self._native.keep(folder)
        try:
            while self._native.step() is not None:
                pass
        except BaseException as reason:
            with contextlib.suppress(_native.FedrecsimError):
                left = self._native.finish()
                if json.loads(left.json)["rounds"]:
                    reason.report = left  # type: ignore[attr-defined]
            keep_rounds(reason, self._source, None if folder else out)
            raise
        done = Run(self._native.finish(keep_checkpoint), self._source)
        if folder is not None and keep_checkpoint:
            self._source["kept_in"] = os.path.abspath(folder[0])
        if out is not None and folder is None:
            done.write(out)
        return done

    def save(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """Returns the state between two rounds, and writes it to a file if one is named."""
        saved = self._native.save()
        if path is not None:
            write_private(os.fspath(path), saved)
        return saved

    def recommend(self, user: str | int, top: int = 10) -> list[Recommended]:
        """Returns the `top` items that a user would be shown now, best first: `item`, `score`, whether it is
        `held_out` for the test, and `popular`, the item that popularity would show in its place. Items of its
        training and validation part are left out. Users and items have the names of the ratings file; generated
        ones are numbered from 0."""
        _inputs.count_of("top", top)
        shown = self._native.recommend(str(user), top)
        popular = self._native.recommend_popular(str(user), top)
        return [
            {"item": item, "score": score, "held_out": held_out, "popular": other}
            for (item, score, held_out), other in zip(shown, popular, strict=True)
        ]

    def scores(self, users: Sequence[str | int] | None = None) -> Matrix:
        """Returns the scores that all items have now for each of `users`, those included that a user has rated: an array
        of the shape (users, items) in single precision. Without `users` it is all of them, by their numbers. Raises
        ScenarioError for a user who is not there."""
        if isinstance(users, (str, int)):
            users = [users]
        names = self._native.names()[0] if users is None else [str(user) for user in users]
        return self._native.scores(names)

    def user_vectors(self, users: Sequence[str | int] | None = None) -> UserVectors:
        """Returns the vectors that these users have for themselves now, or all users by their numbers. Raises
        ScenarioError for a method whose users keep none, for a user who is not there, and for one in training."""
        if isinstance(users, (str, int)):
            users = [users]
        names = self._native.names()[0] if users is None else [str(user) for user in users]
        return vectors_of(self._native.method, names, self._native.vectors(names))

    @property
    def model(self) -> dict[str, Matrix]:
        """The blocks of the server's model by their names: arrays of the shape (rows, columns) in single precision, which
        cannot be written to. Setting it replaces the model, which the digest of the result shows."""
        return self._native.model

    @model.setter
    def model(self, model: Mapping[str, Array]) -> None:
        self._native.model = dict(model)
        self._source["by_hand"] = True

    @property
    def rounds(self) -> int:
        """The number of rounds that are over."""
        return self._native.rounds

    @property
    def time_s(self) -> float:
        """The virtual time in seconds."""
        return self._native.time_s

    @property
    def is_over(self) -> bool:
        """Whether the last round is over, or something has stopped the simulation."""
        return self._native.is_over

    @property
    def stopped_by(self) -> str | None:
        """Why the simulation has stopped before its last round, if it has."""
        return self._native.stopped_by

    def finish(self, *, keep_checkpoint: bool = False) -> Run:
        """Ends the simulation where it stands, and returns what remains. With `keep_checkpoint` it keeps the parameters,
        from which another run can start."""
        return Run(self._native.finish(keep_checkpoint), self._source)
