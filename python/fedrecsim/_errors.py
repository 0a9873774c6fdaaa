"""What fedrecsim raises. Each error is also the usual one of its kind, so that `except ValueError` finds it."""

from __future__ import annotations


class FedrecsimError(Exception):
    """What keeps fedrecsim from doing what it was asked for. The message is that of the command."""


class ScenarioError(FedrecsimError, ValueError):
    """A scenario, a study or a value that cannot be used, with the place of every fault."""


class MissingFileError(ScenarioError, FileNotFoundError):
    """A file that is not there, with the places where it was looked for."""


class WrongTypeError(ScenarioError, TypeError):
    """A value of a type that cannot be used."""


for _error in (FedrecsimError, ScenarioError, MissingFileError, WrongTypeError):
    _error.__module__ = "fedrecsim"
