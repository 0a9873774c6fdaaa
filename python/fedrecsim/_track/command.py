"""The option `--track` of the command `run`.

The command is carried out as without it. It tells nobody of its rounds before it ends, so that the trackers get them
from the report then.
"""

from __future__ import annotations

import glob
import json
import os
import signal
import sys
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from .. import _native
from . import TRACKERS, Tracker, hand_over as _hand_over, state_of

#: What has the libraries say within half a minute that a server is not there. By themselves they try for some minutes,
#: and the command has somebody wait for that.
BRIEF = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "WANDB_INIT_TIMEOUT": "30"}


def say(kind: str, text: str) -> None:
    """Prints a message as the command does."""
    print(f"{kind}: {text}", file=sys.stderr, flush=True)


def taken(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Takes `--track NAME` out of the words of the command `run`, and returns what is left and the names.

    Raises ScenarioError if there is no name, or no report for a tracker to get the run from.
    """
    if not words or words[0] != "run":
        return list(words), []
    left, names = [], []
    coming = iter(words)
    for word in coming:
        if word == "--track":
            names += next(coming, "").split(",")
        elif word.startswith("--track="):
            names += word.removeprefix("--track=").split(",")
        else:
            left.append(word)
    for variable, value in BRIEF.items() if names else ():
        os.environ.setdefault(variable, value)
    if any(not name or name.startswith("-") for name in names):
        raise _native.ScenarioError(f"`--track` takes a tracker: {', '.join(TRACKERS)}, or several with commas")
    if names and "--no-report" in left:
        raise _native.ScenarioError(
            "`--track` takes the run from its report, which `--no-report` leaves out; name a folder with --out"
        )
    return left, names


def reports(words: Sequence[str]) -> dict[Path, tuple[int, int]]:
    """Returns the reports in the folders that the command may write to, with their states."""
    split = list(_split(words))
    outs = [split[place] for place in range(1, len(split)) if split[place - 1] == "--out"]
    states = {Path(folder): state_of(Path(folder)) for folder in outs or glob.glob("reports/*")}
    return {folder: state for folder, state in states.items() if state is not None}


def hand_over(words: Sequence[str], before: Mapping[Path, tuple[int, int]], trackers: Sequence[Tracker]) -> None:
    """Hands the run to the trackers from the report that the command has written. Reports that were as they are
    `before` it are not its own."""
    # The command's own way with Ctrl-C is over.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if folder := _written(words, before):
            _hand_over(folder, trackers, lambda text: say("warning", text))
        else:
            say("warning", "the run has left no report, so that the trackers get nothing")
    except KeyboardInterrupt:
        say("warning", "interrupted: the trackers lack a part of the run, and its report has everything")


def _written(words: Sequence[str], before: Mapping[Path, tuple[int, int]]) -> Path | None:
    """Returns the folder of the report that the command has written. Of runs that end at the same time, it is the one
    whose report names most of the command's words and no others."""
    split = set(_split(words))
    own: dict[Path, int] = {}
    for folder, state in reports(words).items():
        if before.get(folder) != state:
            command = json.loads((folder / "run.json").read_text(encoding="utf-8"))["command"][2:]
            if split.issuperset(command):
                own[folder] = len(command)
    return max(own, key=own.__getitem__, default=None)


def _split(words: Sequence[str]) -> Iterator[str]:
    """Yields words with `--key=value` as two."""
    for word in words:
        yield from word.split("=", 1) if word.startswith("--") else [word]
