"""Tables of a run, which data frame libraries read without a copy."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Iterator, Union

from . import _native
from ._arrays import Numbers

if TYPE_CHECKING:
    import numpy as np
    import pandas
    import polars
    import pyarrow


#: A cell of a table; `None` stands for what is not there.
Cell = Union[str, int, float, None]


class Table:
    """A table that any library with Arrow support reads without a copy: `polars.DataFrame(table)`, `pyarrow.table(table)`.

    `table["loss"]` is a column as an array of NumPy, with NaN for what is not there. A column of texts is a list.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.columns

    def __getitem__(self, column: str) -> Numbers | list[str]:
        return self._native.column(column)

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def keys(self) -> list[str]:
        """Returns the names of the columns, so that `dict(table)` works."""
        return self.columns

    def to_dicts(self) -> list[dict[str, Cell]]:
        """Returns the rows as dictionaries, with `None` for what is not there."""
        columns = {name: self[name] for name in self.columns}
        whole = {name for name, kind in zip(self.columns, self._native.types) if kind == "UInt64"}

        def cell(name: str, value: Cell) -> Cell:
            if value is None or value != value:
                return None
            return value if isinstance(value, str) else int(value) if name in whole else float(value)

        return [{name: cell(name, column[row]) for name, column in columns.items()} for row in range(len(self))]

    def to_pyarrow(self) -> pyarrow.Table:
        """Returns the table for pyarrow, which shares its memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """Returns the table for polars, which shares its memory."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the table as a data frame of pandas, which shares its memory: what is not there is missing, and
        counts stay integers. Needs pyarrow, through which pandas reads Arrow."""
        import pandas

        table = self.to_pyarrow()
        return table.to_pandas(types_mapper=pandas.ArrowDtype)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns[:6])}{', ...' if len(self.columns) > 6 else ''})"

    def _repr_html_(self) -> str:
        rows, columns = min(len(self), 20), self.columns[:20]
        values = {name: self[name] for name in columns}

        def cell(name: str, row: int) -> str:
            value = values[name][row]
            return "" if value is None or value != value else f"{value:.6g}" if isinstance(value, float) else str(value)

        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell(name, row))}</td>" for name in columns) + "</tr>"
            for row in range(rows)
        )
        size = f"{len(self)} rows, {len(self.columns)} columns"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{size}</p>"

    def __reduce__(self) -> tuple[type[Table], tuple[_native.Table]]:
        return (Table, (self._native,))
