"""The option `--track` of the command `run`.

The command is carried out as without it, and tells of each round as it ends. What only the report has, such as the
energy of rounds, the trackers get from it at the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Sequence, TypedDict

from .. import _native
from ..records import Json, RoundRecord
from . import TRACKERS, Tracker, end, read, state_of
from .feed import Feeds
from .figures import WALL, Rows, named, parameters_of

#: What has the libraries say within half a minute that a server is not there. By themselves they try for some minutes,
#: and a run that has ended waits for that.
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
            "`--track` takes the accuracy and the files from the report, which `--no-report` leaves out; name a folder with "
            "--out"
        )
    return left, names


class Told(TypedDict, total=False):
    """What the command tells: name, scenario and folder of the report when a run begins, then record and time of each
    round."""

    name: str
    scenario: dict[str, Json]
    folder: str
    record: RoundRecord
    took_s: float


class Follower:
    """Hands a run of the command to trackers while it goes on. It is called with what the command tells."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._feeds = Feeds(trackers, self._warn)
        self._rows: Rows | None = None
        self._folder = Path()
        self._before: tuple[int, int] | None = None
        self._has_failed = False

    def __call__(self, text: str) -> None:
        """Takes the beginning of the run, and then each round."""
        try:
            self._take(json.loads(text))
        except Exception as fault:
            # The trackers get the round from the report.
            if not self._has_failed:
                self._warn(f"the trackers lack rounds of this run until it ends: {fault!r}")
            self._has_failed = True

    def _take(self, told: Told) -> None:
        if self._rows is None:
            scenario = told["scenario"]
            self._folder = Path(told["folder"])
            self._before = state_of(self._folder)
            self._rows = Rows(scenario)
            self._feeds.begin(told["name"], parameters_of(scenario))
        else:
            record = told["record"]
            self._feeds.round(record["round"], named(self._rows.of(record)) | {WALL: told["took_s"]})

    def end(self) -> None:
        """Hands over what the report adds to the rounds, and waits for the trackers. A run that has not begun has said
        why, and so has one without a report."""
        if self._rows is None:
            return
        # The command's own way with Ctrl-C is over.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if state_of(self._folder) in (None, self._before):
                self._feeds.end({}, None, "the run has left no report", {})
            else:
                end(self._feeds, *read(self._folder))
        except KeyboardInterrupt:
            self._warn("interrupted: the trackers lack a part of the run, and its report has everything")
        except (OSError, ValueError, KeyError) as reason:
            self._warn(f"the trackers lack the end of the run, as its report cannot be read: {reason!r}")

    def _warn(self, text: str) -> None:
        # The bar of the progress may stand on the line.
        say("\r\x1b[Kwarning" if sys.stderr.isatty() else "warning", text)
