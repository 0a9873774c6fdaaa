"""Turns what users give for a scenario into what the native module reads."""

from __future__ import annotations

import json
import operator
import os
from pathlib import Path
from typing import Mapping, Protocol, Sequence, SupportsIndex, TypedDict, Union, cast

from . import _native, method
from ._errors import ScenarioError, WrongTypeError

#: A scenario: the path of a file, TOML text, or a dictionary.
Scenario = Union[str, "os.PathLike[str]", Mapping[str, object]]

#: What a run starts from: a report folder, a checkpoint, what `Simulation.save` returns, or a run.
Start = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "HasParameters"]

#: Ratings in memory, and the overrides that name them.
Given = tuple[_native.Ratings, list[tuple[str, str]]]


class Source(TypedDict, total=False):
    """A scenario as the native module reads it. A run that was saved and read has a part of it."""

    path: str
    text: str | None
    set: list[tuple[str, str]]
    data_dir: Path | None
    methods: list[_native.MethodEntry]
    ratings: _native.Ratings | None
    #: Parameters in memory from which the run starts.
    start: _native.Start | None
    #: The folder in which the run has kept its parameters.
    kept_in: str
    #: Whether the model was set by hand, so that the scenario does not say what has happened.
    by_hand: bool


class HasParameters(Protocol):
    """A run, which may have kept its parameters."""

    def parameters(self) -> bytes | str:
        """Returns the parameters of its end, or the path where they are."""


def plain(value: object) -> object:
    """Returns a value that JSON has no word for as one that it has: numbers of NumPy, paths, and methods by their
    names."""
    if isinstance(value, type) and issubclass(value, method.Method):
        return value.name
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    for convert in ("tolist", "item"):
        if hasattr(value, convert):
            converted: object = getattr(value, convert)()
            return converted
    raise ScenarioError(f"{value!r} is no value of a scenario")


def json_of(value: object) -> str:
    """Returns a value as JSON."""
    try:
        return json.dumps(value, default=plain, allow_nan=False)
    except (TypeError, ValueError) as reason:
        raise ScenarioError(f"{value!r} is no value of a scenario: {reason}") from None


def is_path(text: str) -> bool:
    """Returns whether a text is the path of a file rather than the file's content."""
    if "\n" in text:
        return False
    try:
        return text.endswith(".toml") or "=" not in text or os.path.isfile(text)
    except ValueError:
        return False


def overrides(changes: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Returns overrides as the native module reads them."""
    if changes is None:
        return []
    if not isinstance(changes, Mapping):
        raise WrongTypeError(f"`set` must be a dictionary from keys like training.rounds to values, not {changes!r}")
    return [(str(key), json_of(value)) for key, value in changes.items()]


def given(
    scenario: Scenario,
    changes: Mapping[str, object] | None = None,
    seed: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    name: str | None = None,
    ratings: Given | None = None,
    start: Start | None = None,
) -> Source:
    """Returns a scenario with its overrides, and with ratings and parameters in memory if there are some."""
    path, text = f"{name or 'scenario'}.toml", None
    if isinstance(scenario, Mapping):
        text = _native.toml_of_json(json_of(dict(scenario)))
    elif isinstance(scenario, str) and not is_path(scenario):
        text = scenario
    elif isinstance(scenario, (str, os.PathLike)) and isinstance(os.fspath(scenario), str):
        path = os.fspath(scenario)
        if not path:
            raise ScenarioError("the path of the scenario is empty")
    else:
        kind = type(scenario).__name__
        raise WrongTypeError(f"a scenario must be a path, TOML text or a dictionary, not {kind}: {scenario!r:.80}")
    chosen = overrides(changes)
    if seed is not None:
        chosen.append(("seed", json_of(seed_of(seed))))
    kept, named = ratings or (None, [])
    chosen += named
    started, of_start = _of_start(start)
    chosen += of_start
    return {
        "path": path,
        "text": text,
        "set": chosen,
        "data_dir": None if data_dir is None else Path(data_dir),
        "methods": method.entries(),
        "ratings": kept,
        "start": started,
    }


def _of_start(start: Start | None) -> tuple[_native.Start | None, list[tuple[str, str]]]:
    """Returns parameters in memory, and the overrides that name them or their file."""
    found = start
    if start is not None and hasattr(start, "parameters"):
        found = start.parameters()
    held = None
    if isinstance(found, (bytes, bytearray, memoryview)):
        held = _native.Start(bytes(found))
        found = held.path
    if found is None:
        return None, []
    if not isinstance(found, (str, os.PathLike)):
        kind = type(start).__name__
        raise WrongTypeError(
            f"a start must be a run, a report folder, a checkpoint or what `Simulation.save` returns, not {kind}: "
            f"{start!r:.80}"
        )
    return held, [("training.start", json_of(os.fspath(found)))]


def folder_of(
    out: str | os.PathLike[str] | None, checkpoint_every: int | None, keep_checkpoint: bool, resume: bool = False
) -> _native.Folder | None:
    """Returns what the native module does in the folder of a run; `None` if it leaves no checkpoints there."""
    count_of("checkpoint_every", checkpoint_every)
    wanted = {"checkpoint_every": checkpoint_every is not None, "resume": resume}
    if out is None:
        for name in (name for name, is_wanted in wanted.items() if is_wanted):
            raise ScenarioError(f"`{name}` needs a folder for the checkpoints: name one with `out`")
        return None
    if not any(wanted.values()) and not keep_checkpoint:
        return None
    return Path(out), checkpoint_every, bool(keep_checkpoint), bool(resume)


def users_of(users: Sequence[str | int] | str | None) -> list[str] | None:
    """Returns the names of users whose vectors are saved; none of them stands for all."""
    if users is None or users == "all":
        return None if users is None else []
    if isinstance(users, (str, int)):
        users = [users]
    names = [str(user) for user in users]
    if not names:
        raise ScenarioError('`save_users` names nobody; "all" stands for all users')
    return names


def count_of(name: str, number: int | None) -> None:
    """Refuses what is no number from 1 to 1,000,000 and not left out."""
    if number is not None and not _is_whole(number, 1, 10**6):
        raise _wrong(number)(f"`{name}` must be a whole number from 1 to 1000000, not {number!r}")


def seed_of(seed: object) -> int:
    """Returns a seed that the native module takes."""
    try:
        number = operator.index(cast(SupportsIndex, seed))
    except TypeError:
        number = -1
    if isinstance(seed, bool) or not 0 <= number < 2**63:
        raise _wrong(seed)(f"a seed must be a whole number from 0 to 2^63 - 1, not {seed!r}")
    return number


def threads_of(threads: int | None) -> int | None:
    """Returns a number of threads that the native module takes."""
    if threads is not None and not _is_whole(threads, 1, 1024):
        raise _wrong(threads)(f"`threads` must be a whole number from 1 to 1024, not {threads!r}")
    return threads


def _is_whole(number: object, least: int, most: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= most


def _wrong(number: object) -> type[ScenarioError]:
    """Returns the error of a number that cannot be used, which is also one of its type if it is no whole number."""
    is_whole = hasattr(number, "__index__") and not isinstance(number, bool)
    return ScenarioError if is_whole else WrongTypeError
