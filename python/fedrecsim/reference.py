"""What may be written in a scenario, as data: methods with their parameters, and every other key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Mapping

from . import _native, method
from .records import Json


@dataclass(frozen=True)
class Key:
    """A key of a scenario, and what may be written there."""

    #: The path, such as `method.fedmf.latent_dimension`.
    path: str
    #: The type in words, with the range, such as "a number above 0".
    type: str
    #: The types of values in JSON's words, such as `number`.
    types: tuple[str, ...]
    #: The default; `None` if there is none, or if it depends on other keys.
    default: Json
    #: The least and the greatest number; `None` where there is no limit.
    minimum: float | None
    maximum: float | None
    #: The numbers that all others are above and below.
    above: float | None
    below: float | None
    #: The unit in words, if the name states one.
    unit: str | None
    #: What the key does.
    doc: str
    #: The names that may be written, with their meanings.
    choices: Mapping[str, str]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class MethodDescription:
    """A method that scenarios can name."""

    name: str
    summary: str
    #: The paper or the author.
    source: str
    #: The parameters by their names.
    parameters: Mapping[str, Key]


def _keys(asked: str | None) -> list[Key]:
    """Returns the keys that a name may mean; all without one."""
    return [
        Key(
            path=found["path"],
            type=found["kind"],
            types=tuple(found["types"]),
            default=found["default"],
            unit=found["unit"],
            doc=found["description"],
            choices={name.strip('"'): meaning for name, meaning in found["choices"]},
            **found["range"],
        )
        for found in json.loads(_native.explain(method.entries(), asked))
    ]


def explain(key: str | None = None) -> list[Key]:
    """Returns what may be written in a scenario: the key of this path with all below it, else those of this name
    wherever they are, and all keys without one.

    Raises ScenarioError for a key that is not there, with the nearest one that is.

    >>> [key] = fedrecsim.explain("training.rounds")
    >>> key.types, key.minimum, key.doc
    (('integer',), 1.0, 'Number of rounds.')
    """
    return _keys(key)


def methods() -> dict[str, MethodDescription]:
    """Returns the methods that scenarios can name, by their names, with their parameters."""
    keys = _keys(None)
    own = [(cls.name, cls.summary, cls.source) for cls in method.classes()]

    def parameters(name: str) -> dict[str, Key]:
        head = f"method.{name}."
        return {key.path.removeprefix(head): key for key in keys if key.path.startswith(head)}

    return {
        name: MethodDescription(name, summary, source, parameters(name))
        for name, summary, source in [*_native.builtin_methods(), *own]
    }
