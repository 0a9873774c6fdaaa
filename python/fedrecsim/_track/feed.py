"""Hands a run to trackers without waiting for them."""

from __future__ import annotations

import queue
import tempfile
import threading
from pathlib import Path
from typing import Callable, Mapping, Sequence, Union

from .figures import Value
from .trackers import TRACKERS, Ended, Round, Tracker

#: The seconds that the end of a run waits for a tracker that does nothing any more. One that goes on is waited for.
PATIENCE_S = 60.0


class Feed:
    """Hands a run to one tracker, on a thread of its own.

    A server that is slow, or not there, then takes no time of the run's, and no exception reaches it. `say` is called
    once if the tracker fails or is given up.
    """

    def __init__(self, tracker: Tracker, say: Callable[[str], None]) -> None:
        self.tracker, self._say = tracker, say
        self._queue: queue.SimpleQueue[Union[Round, Ended]] = queue.SimpleQueue()
        self._calls = 0
        #: Whether the tracker lacks a part of the run.
        self.has_failed = False
        self._thread: threading.Thread | None = None

    def begin(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Begins the run at the tracker."""
        # A tracker that hangs must not keep the interpreter from its end.
        self._thread = threading.Thread(target=self._work, args=(name, parameters), daemon=True)
        self._thread.start()

    def put(self, what: Round | Ended) -> None:
        """Hands over a round or the end."""
        if not self.has_failed:
            self._queue.put(what)

    def wait(self) -> None:
        """Waits until the tracker has taken the end, unless it has failed or does nothing any more."""
        while self._thread is not None and self._thread.is_alive():
            before = self._calls
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive() and self._calls == before:
                self._give_up(f"it has not answered for {PATIENCE_S:.0f} s")
                return

    def _work(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Calls the tracker until the end."""
        try:
            self.tracker.begin(name, parameters)
            while True:
                self._calls += 1
                waiting = [self._queue.get()]
                # A tracker that is slow takes all at once that has come in the meantime.
                while not self._queue.empty():
                    waiting.append(self._queue.get())
                if rounds := [what for what in waiting if isinstance(what, Round)]:
                    self.tracker.rounds(rounds)
                    self._calls += 1
                if isinstance(waiting[-1], Ended):
                    return self.tracker.end(waiting[-1])
        except Exception as reason:
            self._give_up(" ".join(f"{type(reason).__name__}: {reason}".split())[:300])

    def _give_up(self, reason: str) -> None:
        """Says that the tracker has not taken everything, once."""
        if not self.has_failed:
            self.has_failed = True
            names = {cls: name for name, cls in TRACKERS.items()}
            name = names.get(type(self.tracker), type(self.tracker).__name__)
            self._say(f"the tracker `{name}` lacks a part of this run, which itself loses nothing: {reason}")


class Feeds:
    """Hands a run to several trackers."""

    def __init__(self, trackers: Sequence[Tracker], say: Callable[[str], None]) -> None:
        self._feeds = [Feed(tracker, say) for tracker in trackers]
        self._told: set[str] = set()
        self._last = 0

    def begin(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Begins the run."""
        for feed in self._feeds:
            feed.begin(name, parameters)

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Hands over a round that has ended."""
        self._told |= figures.keys()
        self._last = number
        for feed in self._feeds:
            feed.put(Round(number, figures))

    def rest(self, number: int, figures: Mapping[str, float]) -> None:
        """Hands over a round that nobody was told of when it ended; of another one, those figures that no round has had
        then."""
        late = {name: value for name, value in figures.items() if number > self._last or name not in self._told}
        for feed in self._feeds if late else ():
            feed.put(Round(number, late))

    def end(
        self, figures: Mapping[str, float], digest: str | None, stopped_by: str | None, files: Mapping[str, bytes]
    ) -> list[Tracker]:
        """Hands over the end with the files of the report, and waits for the trackers. Returns those that have not
        failed."""
        with tempfile.TemporaryDirectory(prefix="fedrecsim-", ignore_cleanup_errors=True) as folder:
            for name, content in files.items():
                Path(folder, name).write_bytes(content)
            for feed in self._feeds:
                feed.put(Ended(figures, digest, stopped_by, Path(folder)))
            for feed in self._feeds:
                feed.wait()
        return [feed.tracker for feed in self._feeds if not feed.has_failed]
