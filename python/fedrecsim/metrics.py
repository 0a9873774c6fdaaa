"""Metrics of predictions of one's own, by the code that measures the simulator's methods.

Predictions are scores, an array with a row for each user and a column for each item, or lists of items for each user,
the best first. What is held out are the items that each user should be shown: a sequence for each user, or a sparse
matrix of SciPy or a boolean one of NumPy that says yes there.

>>> import numpy as np
>>> fedrecsim.metrics.hr(np.array([[0.9, 0.1, 0.5], [0.2, 0.3, 0.1]]), [[0], [2]], k=1)
0.5
"""

from __future__ import annotations

from typing import Sequence, Union, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Anything, Doubles
from ._errors import ScenarioError, WrongTypeError
from ._ratings import SparseMatrix, StoredMatrix

__all__ = ["hr", "map", "measure", "mrr", "ndcg", "per_user", "precision", "recall"]


#: Items of each user: a sequence of numbers for each, or a sparse or boolean matrix of users and items.
Items = Union[SparseMatrix, Anything, Sequence[npt.ArrayLike]]

#: Scores of all items for each user, or lists of items for each user, the best first.
Predictions = Union[Anything, Sequence[npt.ArrayLike]]


def measure(
    predictions: Predictions,
    held_out: Items,
    metrics: Sequence[str] = ("hr@10", "ndcg@10"),
    *,
    exclude: Items | None = None,
) -> dict[str, float]:
    """Returns metrics by their names, as means over the users who have something held out.

    `predictions` are scores, an array of floats of the shape (users, items), which are ranked in single precision. Or they
    are lists of item numbers for each user, the best first; an array of integers has a list in each row.
    `held_out` are the items of each user that count as hits, and `exclude` those that are not ranked, such as those that it
    was trained on; each is a sequence of item numbers for each user, or a sparse matrix of SciPy or a boolean
    one of NumPy, of the shape (users, items). Of equal scores, that of a held-out item comes last. Lists need no `exclude`.

    Metrics are `hr@K`, `ndcg@K`, `recall@K`, `precision@K`, `map@K` and `mrr`. One of nobody is NaN.

    Raises ScenarioError for shapes that do not fit, scores that are NaN, and items that are not there.
    """
    means, _ = _measured(predictions, held_out, metrics, exclude)
    return {name: means.get(name, float("nan")) for name in metrics}


def per_user(predictions: Predictions, held_out: Items, metric: str = "ndcg@10", *, exclude: Items | None = None) -> Doubles:
    """Returns a metric of every user, of the shape (users,), with NaN for users without anything held out. The arguments
    and errors are those of `measure`."""
    _, users = _measured(predictions, held_out, [metric], exclude)
    return np.array([np.nan if value is None else value for (value,) in users], dtype=float)


def hr(predictions: Predictions, held_out: Items, k: int = 10, *, exclude: Items | None = None) -> float:
    """Returns the share of users with a held-out item among the first `k`."""
    return _one(f"hr@{k}", predictions, held_out, exclude)


def ndcg(predictions: Predictions, held_out: Items, k: int = 10, *, exclude: Items | None = None) -> float:
    """Returns the mean discounted gain of the held-out items among the first `k`, by that of the ideal list."""
    return _one(f"ndcg@{k}", predictions, held_out, exclude)


def recall(predictions: Predictions, held_out: Items, k: int = 10, *, exclude: Items | None = None) -> float:
    """Returns the mean share of the held-out items that are among the first `k`."""
    return _one(f"recall@{k}", predictions, held_out, exclude)


def precision(predictions: Predictions, held_out: Items, k: int = 10, *, exclude: Items | None = None) -> float:
    """Returns the mean share of the first `k` that are held-out items."""
    return _one(f"precision@{k}", predictions, held_out, exclude)


def map(predictions: Predictions, held_out: Items, k: int = 10, *, exclude: Items | None = None) -> float:
    """Returns the mean average precision of the first `k`."""
    return _one(f"map@{k}", predictions, held_out, exclude)


def mrr(predictions: Predictions, held_out: Items, *, exclude: Items | None = None) -> float:
    """Returns the mean of one divided by the position of a user's first held-out item."""
    return _one("mrr", predictions, held_out, exclude)


def _one(name: str, predictions: Predictions, held_out: Items, exclude: Items | None) -> float:
    return measure(predictions, held_out, [name], exclude=exclude)[name]


def _measured(
    predictions: Predictions, held_out: Items, metrics: Sequence[str], exclude: Items | None
) -> tuple[dict[str, float], list[list[float | None]]]:
    """Returns the means and the values of users, after the shapes were checked."""
    if isinstance(metrics, str):
        raise WrongTypeError(f"`metrics` must be a list of names, as [{metrics!r}]")
    wanted = _items("held_out", held_out)
    array = predictions if isinstance(predictions, np.ndarray) else None
    if array is not None and array.ndim == 2 and array.dtype.kind == "f":
        scores = np.ascontiguousarray(array, dtype=np.float32)
        left_out = [[] for _ in wanted] if exclude is None else _items("exclude", exclude)
        _same_users(len(scores), held_out=wanted, exclude=left_out)
        for name, lists in (("held_out", wanted), ("exclude", left_out)):
            _check_items(name, lists, scores.shape[1])
        if both := [user for user, (own, out) in enumerate(zip(wanted, left_out)) if set(own) & set(out)]:
            raise ScenarioError(f"user {both[0]} has an item in `held_out` and in `exclude`: a hit must be ranked")
        return _native.means_of_scores(list(metrics), scores, wanted, left_out)
    if exclude is not None:
        raise ScenarioError("lists of items have been ranked already: leave the excluded items out of them")
    lists = _items("predictions", predictions)
    _same_users(len(lists), held_out=wanted)
    _check_items("predictions", lists, None)
    return _native.means_of_lists(list(metrics), lists, wanted)


def _items(name: str, value: Items) -> list[list[int]]:
    """Returns items for each user: those of a matrix that are not zero, or sequences as they are."""
    if hasattr(value, "tocsr"):
        rows = cast(StoredMatrix, cast(SparseMatrix, value).tocsr()).astype(bool)
        rows.eliminate_zeros()
        return [rows.indices[start:end].tolist() for start, end in zip(rows.indptr, rows.indptr[1:])]
    if isinstance(value, np.ndarray) and value.dtype == bool and value.ndim == 2:
        return [np.flatnonzero(row).tolist() for row in value]
    lists = []
    for user, items in enumerate(value):
        array = np.asarray(items)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise WrongTypeError(
                f"`{name}` of user {user} must be a list of item numbers, not {items!r:.80}; scores are an array of floats"
            )
        lists.append([int(item) for item in array.tolist()])
    return lists


def _same_users(users: int, **lists: Sequence[object]) -> None:
    for name, value in lists.items():
        if len(value) != users:
            raise ScenarioError(f"there are predictions for {users} users, and `{name}` has {len(value)}")


def _check_items(name: str, lists: Sequence[Sequence[int]], items: int | None) -> None:
    """Refuses numbers of no item, and an item that stands twice."""
    for user, own in enumerate(lists):
        if own and (min(own) < 0 or max(own) >= (items or 2**32)):
            raise ScenarioError(f"`{name}` of user {user} has the item {min(own) if min(own) < 0 else max(own)}, and there are {items} items")
        if len(set(own)) != len(own):
            raise ScenarioError(f"`{name}` of user {user} has an item twice: {list(own)[:20]}")
