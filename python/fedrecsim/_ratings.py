"""Ratings in memory: data frames, Arrow tables, NumPy arrays and SciPy matrices."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Iterable, Mapping, NoReturn, Protocol, Sequence, TypeGuard, Union, cast

import numpy as np
import numpy.typing as npt

from . import _columns, _inputs, _native
from ._arrays import Anything
from ._errors import ScenarioError, WrongTypeError

if TYPE_CHECKING:
    import pandas


class ArrowTable(Protocol):
    """What hands out its columns through Arrow's interface: tables of pandas, polars, pyarrow, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns a stream of Arrow in a capsule."""


class SparseMatrix(Protocol):
    """A sparse matrix of SciPy with a row for each user and a column for each item."""

    def tocsr(self) -> object:
        """Returns the matrix row by row."""


class StoredMatrix(Protocol):
    """What such a matrix stores: by row and column (`coo`), or row by row."""

    format: str
    shape: tuple[int, int]
    row: npt.NDArray[np.integer]
    col: npt.NDArray[np.integer]
    data: Anything
    indices: npt.NDArray[np.integer]
    indptr: npt.NDArray[np.integer]

    def astype(self, kind: type) -> StoredMatrix:
        """Returns it with values of another type."""

    def eliminate_zeros(self) -> None:
        """Stores no zeros any more."""


#: Ratings in memory: a table, columns by their names, arrays `(user, item[, rating[, time]])`, or a sparse matrix.
Ratings = Union[ArrowTable, SparseMatrix, Mapping[str, object], Sequence[object], Anything]

#: Columns by their names.
Columns = dict[str, npt.ArrayLike]


def given(ratings: Ratings | None, scenario: object, changes: Mapping[str, object] | None) -> _inputs.Given | None:
    """Returns ratings as the native module reads them, with the overrides that name them in a scenario.

    Raises ScenarioError for what is no table of ratings, with the remedy.
    """
    if ratings is None:
        return None
    arrays = _without_names(ratings)
    if arrays is not None:
        chosen = {key: key for key in arrays}
        native = _of_arrays(arrays)
    else:
        table = _with_names(ratings)
        names = list(table) if isinstance(table, dict) else _names_of(table)
        chosen = _columns.chosen(names, _columns.named(scenario, changes))
        wanted = list(dict.fromkeys(chosen.values()))
        native = _of_arrays({name: table[name] for name in wanted}) if isinstance(table, dict) else _of_table(table, names, wanted)
    overrides: list[tuple[str, object]] = [("dataset.name", "delimited"), ("dataset.path", native.path)]
    overrides += [(f"dataset.columns.{key}", name) for key, name in chosen.items()]
    return native, [(key, _inputs.json_of(value)) for key, value in overrides]


def pairs(ratings: Ratings, columns: Mapping[str, object]) -> tuple[list[int | str], list[int | str]]:
    """Returns the user and the item of every row: integers where the column has them, else texts. `columns` are named as in
    `dataset.columns`.

    Raises ScenarioError as `given` does.
    """
    native, overrides = given(ratings, None, {"dataset.columns": columns}) or _nothing()
    names = {key.rpartition(".")[2]: json.loads(name) for key, name in overrides}
    places = list(dict.fromkeys(name for key, name in names.items() if key not in ("name", "path")))

    def column(key: str) -> list[int | str]:
        place = places.index(names[key])
        is_whole = native.is_whole(place)
        return [int(text) if text and is_whole else text for text in native.texts(place)]

    return column("user"), column("item")


def _nothing() -> NoReturn:
    raise WrongTypeError("ratings are needed, and not None")


def _with_names(ratings: Ratings) -> ArrowTable | Columns:
    """Returns ratings whose columns have names as a table of Arrow, or as a dictionary of columns."""
    if isinstance(ratings, Mapping):
        return {str(name): cast(npt.ArrayLike, values) for name, values in ratings.items()}
    if _is_pandas(ratings):
        # Users or items may be the frame's index.
        is_named = any(name is not None for name in ratings.index.names)
        frame: ArrowTable = ratings.reset_index() if is_named else ratings
        return frame
    if isinstance(ratings, np.ndarray) and ratings.dtype.names is not None:
        records = cast("npt.NDArray[np.void]", ratings)
        return {name: records[name] for name in ratings.dtype.names}
    if hasattr(ratings, "__arrow_c_stream__"):
        return cast(ArrowTable, ratings)
    kind = type(ratings).__name__
    raise WrongTypeError(
        "ratings must be a table of pandas, polars or pyarrow, a dictionary of columns, arrays (user, item, rating, "
        f"time), or a sparse matrix of SciPy, not {kind}{_advice(ratings)}"
    )


def _without_names(ratings: Ratings) -> Columns | None:
    """Returns ratings whose columns have no names, by what the columns are for; `None` for others."""
    if hasattr(ratings, "tocsr"):
        return _of_matrix(cast(SparseMatrix, ratings))
    if isinstance(ratings, np.ndarray) and ratings.dtype.names is None and ratings.ndim == 2:
        if not 2 <= ratings.shape[1] <= 4:
            raise ScenarioError(
                f"an array of ratings has two to four columns (user, item, rating, time), and not {ratings.shape[1]}; "
                "give a matrix of users and items as `scipy.sparse.csr_matrix(matrix)`"
            )
        return _by_places(ratings.T)
    if isinstance(ratings, (tuple, list)) and 2 <= len(ratings) <= 4 and all(map(_is_column, ratings)):
        if isinstance(ratings, list) and not all(hasattr(column, "dtype") for column in ratings):
            # A list of lists may have rows as well as columns.
            return None
        return _by_places(ratings)
    return None


def _by_places(columns: Iterable[npt.ArrayLike]) -> Columns:
    """Returns columns by what they are for. Three of them are often meant as (user, item, time)."""
    arrays = dict(zip(_columns.POSITIONS, columns))
    values = np.asarray(arrays.get("rating", []))
    if values.dtype.kind == "M" or (values.dtype.kind in "iuf" and values.size and np.nanmin(values) >= 1e8):
        raise ScenarioError(
            "the third column has the ratings, and seems to have times: name the columns, as in "
            '`{"user": users, "item": items, "time": times}`'
        )
    return arrays


def _advice(ratings: object) -> str:
    """Returns what to do with something that is almost a table."""
    if hasattr(ratings, "collect"):
        return ": collect it first, as with `ratings.collect()`"
    if isinstance(ratings, (str, os.PathLike)):
        return ": name a file with `dataset.path` in the scenario"
    if isinstance(ratings, (tuple, list)):
        return ": make a table of rows, as with `pandas.DataFrame(rows, columns=[\"user\", \"item\"])`"
    return ""


def _is_pandas(ratings: object) -> TypeGuard[pandas.DataFrame]:
    return type(ratings).__module__.partition(".")[0] == "pandas" and hasattr(ratings, "columns")


def _is_column(values: object) -> bool:
    return not isinstance(values, (str, bytes, Mapping, tuple)) and hasattr(values, "__len__")


def _of_matrix(matrix: SparseMatrix) -> Columns:
    """Returns what a sparse matrix stores, row by row. The numbers of rows and columns are the names of users and
    items."""
    stored = cast(StoredMatrix, matrix)
    if stored.format == "coo":
        # Conversion would add up the ratings of a pair that is there twice.
        order = np.argsort(stored.row, kind="stable")
        users, items, values = stored.row[order], stored.col[order], stored.data[order]
    else:
        rows = cast(StoredMatrix, matrix.tocsr())
        users, items, values = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices, rows.data
    columns: Columns = {"user": users, "item": items}
    # A matrix of yes and no has no ratings.
    return columns if values.dtype == bool else columns | {"rating": values}


def _names_of(table: object) -> list[str]:
    """Returns the names of a table's columns."""
    for name in ("columns", "column_names"):
        names = getattr(table, name, None)
        # Those of pyarrow are its columns themselves.
        if names is not None and all(isinstance(name, (str, int, np.integer)) for name in names):
            return [str(name) for name in names]
    names = getattr(getattr(table, "schema", None), "names", None)
    if names is None:
        raise WrongTypeError(
            f"{type(table).__name__} does not tell the names of its columns, and ratings need one of users and one of items: "
            "give a table"
        )
    return [str(name) for name in names]


def _of_table(table: ArrowTable, names: list[str], wanted: list[str]) -> _native.Ratings:
    """Hands the wanted columns of a table over."""
    for name in wanted:
        _columns.one(names, name, name)
    if _is_pandas(table):
        frame = table.iloc[:, [names.index(name) for name in wanted]].set_axis(wanted, axis=1)
        try:
            return _native.Ratings.of_stream(frame.reset_index(drop=True).__arrow_c_stream__(), wanted)
        except ScenarioError:
            raise
        except (AttributeError, ImportError, TypeError, ValueError):
            # Without pyarrow pandas hands nothing out, and with it no column of several types.
            return _of_arrays({name: frame[name].to_numpy() for name in wanted})
    return _native.Ratings.of_stream(table.__arrow_c_stream__(), wanted)


def _of_arrays(columns: Columns) -> _native.Ratings:
    """Hands arrays over."""
    arrays = {name: _array(name, values) for name, values in columns.items()}
    lengths = {name: len(values) for name, (values, _) in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        raise ScenarioError(f"the columns of the ratings have different lengths: {told}; a row needs a value in each")
    return _native.Ratings.of_arrays([(name, values, are_times) for name, (values, are_times) in arrays.items()])


def _array(name: str, values: npt.ArrayLike) -> tuple[Anything | list[str | None], bool]:
    """Returns a column as an array whose values stand in a row, or as texts with `None`, and whether it has times."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ScenarioError(f"the column `{name}` of the ratings must have one dimension, not the shape {array.shape}")
    kind = array.dtype.kind
    if kind == "M":
        return np.ascontiguousarray(array.astype("datetime64[ns]").view(np.int64)), True
    if kind == "f" and name in ("user", "item") and array.size and np.all(array == np.floor(array)):
        # Numbers of users beside ratings become floats in one array. Large ones are rounded there.
        if np.abs(array).max() >= 2.0 ** (24 if array.dtype.itemsize == 4 else 53):
            raise ScenarioError(
                f"the column `{name}` of the ratings has numbers that {array.dtype} rounds, so that several become one: "
                "give it as integers or texts"
            )
        return np.ascontiguousarray(array, dtype=np.int64), False
    if kind in "iufb":
        wide = {"i": np.int64, "u": np.uint64, "b": bool, "f": np.float32 if array.dtype.itemsize == 4 else np.float64}
        return np.ascontiguousarray(array, dtype=wide[kind]), False
    if kind not in "UO":
        raise WrongTypeError(
            f"the column `{name}` of the ratings has the type {array.dtype}, and must have numbers, texts or times"
        )
    return [None if _is_missing(value) else str(value) for value in array.tolist()], False


def _is_missing(value: object) -> bool:
    """Returns whether a value stands for none, as NaN does."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
