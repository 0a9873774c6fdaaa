"""The command `fedrecsim`, with the methods of the simulator."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Carries out the command line of this process, and returns the exit code."""
    itself = [sys.executable, "-m", "fedrecsim"]
    # The command listens to Ctrl-C itself: it gives up the round and reports those before. Python's own way would raise
    # KeyboardInterrupt when it returns.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["fedrecsim", *sys.argv[1:]], itself, [])


if __name__ == "__main__":
    sys.exit(main())
