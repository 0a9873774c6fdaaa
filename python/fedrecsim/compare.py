"""Tables of reports and studies."""

from __future__ import annotations

import csv
import html
import os
from pathlib import Path
from typing import Iterable, Sequence

from . import _native, method
from .run import Picture, Run
from .table import Cell, Table


#: The columns whose cells are names, also where they look like numbers.
_TEXTS = frozenset({"arm", "compared_to", "figure"})


def rows_of(path: Path) -> list[dict[str, Cell]]:
    """Returns the rows of a CSV file, with numbers as numbers and empty cells as `None`. Names of arms stay texts."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {key: value if key in _TEXTS else number(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def number(text: str | None) -> Cell:
    """Returns a cell of a CSV file as the number that it says; a text stays one."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def table_of(path: Path) -> Table:
    """Returns the table of a CSV file. A column has counts, numbers, or texts if one of its cells is a text."""
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)

    def column(name: str, cells: Sequence[str]) -> tuple[str, str, list[str | None]]:
        kinds = {type(number(cell)) for cell in cells if cell}
        is_count = kinds == {int} and not any(cell.startswith("-") for cell in cells)
        kind = "text" if str in kinds or name in _TEXTS else "count" if is_count else "number"
        return name, kind, [cell or None for cell in cells]

    columns = list(zip(*rows)) or [()] * len(names)
    return Table(_native.Table.of_cells([column(name, cells) for name, cells in zip(names, columns)]))


class Comparison:
    """The tables and pictures in a folder, which a study or a comparison has made.

    `runs` has a row for every run and figure, `summary` one for every arm and figure, with means over the seeds. Both are
    tables that pandas, polars and pyarrow read. In a notebook a comparison shows its tables and the first picture.
    """

    def __init__(self, folder: str | os.PathLike[str], markdown: str, name: str) -> None:
        self.folder = Path(folder)
        self.markdown = markdown
        self._name = name

    @property
    def runs(self) -> Table:
        """A row for every run and figure."""
        return table_of(self.folder / f"{self._name}.csv")

    @property
    def summary(self) -> Table:
        """A row for every arm and figure, with the mean over the seeds as `mean`."""
        return table_of(self.folder / "summary.csv")

    @property
    def pictures(self) -> list[str]:
        """The names of the pictures that `plot` shows."""
        return sorted(path.stem for path in self.folder.glob("*.svg"))

    def plot(self, picture: str = "accuracy-by-bytes") -> Picture:
        """Returns a picture of all arms for a notebook to show."""
        path = self.folder / f"{picture}.svg"
        if not path.is_file():
            there = ", ".join(self.pictures) or "none"
            raise _native.ScenarioError(f"there is no picture `{picture}`; there are {there}")
        return Picture(path.read_text(encoding="utf-8"))

    def _repr_html_(self) -> str:
        means: dict[str, dict[str, Cell]] = {}
        for row in self.summary.to_dicts():
            means.setdefault(str(row["arm"]), {})[str(row["figure"])] = row["mean"]
        figures = list(dict.fromkeys(figure for of_arm in means.values() for figure in of_arm))[:8]

        def cells(tag: str, texts: Iterable[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"

        def words(value: Cell) -> str:
            return f"{value:.4g}" if isinstance(value, (int, float)) else value or ""

        head = cells("th", ["arm", *figures])
        body = "".join(cells("td", [arm, *(words(row.get(name)) for name in figures)]) for arm, row in means.items())
        picture = "accuracy-by-bytes"
        shown = f"<div>{self.plot(picture).svg}</div>" if picture in self.pictures else ""
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{shown}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"


def compare(
    reports: Iterable[str | os.PathLike[str] | Run],
    *,
    out: str | os.PathLike[str],
    to: str | None = None,
    figures: Sequence[str] = (),
) -> Comparison:
    """Compares reports, which are folders or runs, as the command does, and returns the tables.

    Runs are written to folders below `out`. `to` is the arm that differences are paired with, by its name in the tables.
    """
    folder, folders = Path(out), []
    for place, report in enumerate(reports):
        if isinstance(report, Run):
            path = folder / "runs" / f"{place}-{report.name}-{report.seed}"
            report.write(path, overwrite=True)
            folders.append(os.fspath(path))
        else:
            folders.append(os.fspath(report))
    words = ["compare", *folders, "--out", os.fspath(folder), "--overwrite"]
    if to is not None:
        words += ["--to", to]
    if figures:
        words += ["--figures", ",".join(figures)]
    return Comparison(folder, _native.compare(words, method.entries()), "compare")
