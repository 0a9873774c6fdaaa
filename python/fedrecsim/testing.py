"""Checks of methods that are written in Python."""

from __future__ import annotations

from typing import Mapping

from . import _inputs, _native, method


def contract(checked: type[method.Method], parameters: Mapping[str, object] | None = None) -> None:
    """Checks that a method keeps what the simulator relies on, in small worlds.

    Its runs repeat their digest, also with several threads and from a checkpoint. No private number stands in a frame.
    A restored client trains on like the saved one. Scores do not depend on the other items. Runs come to their end with
    every network, codec and dropout. `parameters` replace the method's defaults.

    Raises FedrecsimError with the first clause that is broken, and with what was seen.
    """
    if not (isinstance(checked, type) and issubclass(checked, method.Method) and checked.name):
        raise _native.ScenarioError(f"the class of a method with a name can be checked, not {checked!r}")
    entry = next((entry for entry in method.entries() if entry.name == checked.name), None)
    if entry is None or checked not in method.classes():
        raise _native.ScenarioError(f"another class has the name `{checked.name}` by now")
    inline = None if parameters is None else _native.inline_of_json(_inputs.json_of(dict(parameters)))
    _native.contract(entry, inline)
