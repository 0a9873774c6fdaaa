"""Shows how far a run is."""

from __future__ import annotations

import sys
from typing import Callable


def words(rounds: int, round_: int, virtual_time_s: float, sent: int, accuracy: tuple[str, float] | None) -> str:
    """Returns the state of a run on one line."""
    figure = f", {accuracy[0]} {accuracy[1]:.3f}" if accuracy else ""
    return f"round {round_}/{rounds}, {virtual_time_s:,.0f} s of virtual time, {sent / 1e6:,.1f} MB sent{figure}"


def shown() -> tuple[Callable[..., None], Callable[[], None]]:
    """Returns a function that shows a round, and one that ends the line. In a notebook and on a terminal the line is
    written over; elsewhere nothing is shown, so that logs stay readable."""
    latest: dict[str, tuple[str, float]] = {}
    length = 0

    def show(
        round_: int, rounds: int, virtual_time_s: float, sent: int, accuracy: tuple[str, float] | None
    ) -> None:
        """Writes the line of a round over that of the last one."""
        nonlocal length
        if accuracy:
            latest["accuracy"] = accuracy
        line = words(rounds, round_, virtual_time_s, sent, latest.get("accuracy"))
        sys.stderr.write("\r" + line.ljust(length))
        sys.stderr.flush()
        length = len(line)

    def end() -> None:
        """Removes the line."""
        if length:
            sys.stderr.write("\r" + " " * length + "\r")
            sys.stderr.flush()

    return show, end


def is_visible() -> bool:
    """Returns whether somebody is looking: a terminal, or a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if getattr(shell, "kernel", None) is not None:
        return True
    return bool(getattr(sys.stderr, "isatty", lambda: False)())
