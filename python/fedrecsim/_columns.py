"""Finds the columns of ratings in memory: by the scenario's `dataset.columns`, and else by usual names."""

from __future__ import annotations

import difflib
import os
import re
import sys
from typing import Iterable, Mapping, Sequence

from . import _inputs
from ._errors import ScenarioError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The names that columns usually have, without capitals and what is no letter or digit.
_USUAL = {
    "user": (
        "user", "userid", "uid", "u", "userindex", "useridx", "username", "customer", "customerid", "member", "memberid",
        "reviewerid", "visitorid", "accountid", "profileid",
    ),
    "item": (
        "item", "itemid", "iid", "i", "itemindex", "itemidx", "movie", "movieid", "product", "productid", "asin",
        "parentasin", "track", "trackid", "song", "songid", "artist", "artistid", "book", "bookid", "isbn", "business",
        "businessid", "article", "articleid", "newsid", "video", "videoid", "recipeid",
    ),
    "rating": ("rating", "ratings", "score", "stars", "overall", "preference"),
    "timestamp": (
        "timestamp", "timestamps", "time", "datetime", "date", "ts", "unixreviewtime", "createdat", "ratedat",
        "eventtime",
    ),
}  # fmt: skip

#: The columns of arrays without names.
POSITIONS = ("user", "item", "rating", "timestamp")

#: What `dataset.columns` names besides those.
_COLUMNS = (*POSITIONS, "label", "weight", "order", "part")


def named(scenario: object, changes: Mapping[str, object] | None) -> dict[str, object]:
    """Returns the columns that a scenario names, by their keys in `dataset.columns`. A scenario that cannot be read
    names none here, and is refused where it is read."""
    tree = scenario
    try:
        if isinstance(scenario, str) and not _inputs.is_path(scenario):
            tree = tomllib.loads(scenario)
        elif isinstance(scenario, (str, os.PathLike)):
            with open(scenario, "rb") as file:
                tree = tomllib.load(file)
    except (OSError, ValueError):
        tree = {}
    found = dict(at(tree, "dataset", "columns"))
    for key, value in changes.items() if isinstance(changes, Mapping) else ():
        for step in reversed(str(key).split(".")):
            value = {step.strip(): value}
        found |= at(value, "dataset", "columns")
    return {column: found[column] for column in _COLUMNS if column in found}


def at(tree: object, *path: str) -> Mapping[str, object]:
    """Returns the table at a path; an empty one if there is none."""
    for step in path:
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree if isinstance(tree, Mapping) else {}


def _plain(name: str) -> str:
    """Returns a name without capitals and signs, and without the type that RecBole writes behind it."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r":(token|float)(_seq)?$", "", name.lower()))


def chosen(names: list[str], named: Mapping[str, object]) -> dict[str, str]:
    """Returns the columns by their keys: those that the scenario names, and else those with usual names. Who names
    users and items names all columns."""
    if not names:
        raise ScenarioError("the ratings have no columns: they need one of users and one of items")
    found = {key: one(names, key, column) for key, column in named.items()}
    if len({"user", "item"} & set(named)) == 2:
        return found
    free = [name for name in names if name not in found.values()]
    for key, usual in _USUAL.items():
        alike = [name for name in free if _plain(name) in usual]
        if key in found or (not alike and key not in ("user", "item")):
            continue
        if len(alike) != 1:
            told = f"{_listed(alike)} may be" if alike else f"none of {_listed(names)} seems to be"
            raise ScenarioError(
                f"the ratings need a column of the {key}s, and {told} it: name it with "
                f'`set={{"dataset.columns.{key}": "NAME"}}`{_nearest(names, usual)}'
            )
        found[key] = alike[0]
    return found


def _nearest(names: Iterable[str], wanted: Sequence[str]) -> str:
    """Returns the column whose name is nearest to one that is wanted, as a question."""
    by_name = {_plain(name): name for name in names}
    near = [match for name in wanted for match in difflib.get_close_matches(_plain(name), by_name, 1, 0.7)]
    return f"; did you mean {by_name[near[0]]!r}?" if near else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")


def one(names: list[str], key: str, column: object) -> str:
    """Returns the name of a column that a scenario names, or counts from 1."""
    if isinstance(column, int) and not isinstance(column, bool) and 1 <= column <= len(names):
        column = names[column - 1]
    if not isinstance(column, str) or column not in names:
        raise ScenarioError(
            f"`dataset.columns.{key}` is {column!r}, and the ratings have the columns {_listed(names)}"
            f"{_nearest(names, [str(column)])}"
        )
    if names.count(column) > 1:
        raise ScenarioError(f"the ratings have several columns {column!r}: rename all but one")
    return column
