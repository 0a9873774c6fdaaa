"""The command `fedrecsim`, with the methods of the simulator. `run --track NAME` has a tracker follow the run."""

from __future__ import annotations

import signal
import sys

from . import _native, _track
from ._track import command

#: The exit code of a command that was refused.
REFUSED = 2


def main() -> int:
    """Carries out the command line of this process, and returns the exit code."""
    # The command listens to Ctrl-C itself: it gives up the round and reports those before. Python's own way would raise
    # KeyboardInterrupt when it returns.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        words, names = command.taken(sys.argv[1:])
        trackers = _track.chosen(names, lambda text: command.say("warning", text))
    except _native.ScenarioError as reason:
        command.say("error", str(reason))
        return REFUSED
    follower = command.Follower(trackers) if trackers else None
    code = _native.main(["fedrecsim", *words], [sys.executable, "-m", "fedrecsim"], [], follower)
    if follower is not None:
        follower.end()
    return code


if __name__ == "__main__":
    sys.exit(main())
