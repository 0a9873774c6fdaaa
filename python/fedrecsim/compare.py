"""Tables of reports and studies."""

from __future__ import annotations

import csv
import html
import json
import os
from pathlib import Path
from typing import Iterable, Mapping, Sequence, TypedDict

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


#: The figures that a notebook shows beside the metrics, if they are there.
_FIGURES = ("up_bytes", "down_bytes", "virtual_time_s")

#: The most arms that a notebook shows.
_MOST_ARMS = 30


class _Value(TypedDict, total=False):
    """A mean with its interval of 95 %, if there is one."""

    mean: float
    interval: tuple[float, float] | None


class _Arm(TypedDict, total=False):
    """An arm of the answer."""

    name: str
    more_than_popularity: _Value


class _Answer(TypedDict, total=False):
    """What a study or a comparison has found, and its arms with the best one first."""

    metric: str
    sentence: str
    more: list[str]
    arms: list[_Arm]


class _Results(TypedDict, total=False):
    """What is read of `results.json`."""

    metrics: list[str]
    answer: _Answer


def _results(path: Path) -> _Results:
    found: _Results = json.loads(path.read_text(encoding="utf-8"))
    return found


def _words(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if abs(value) >= 1e4 else f"{value:{sign}.3g}"


def _with_interval(mean: Cell, low: Cell, high: Cell, sign: str = "") -> str:
    """Returns a mean with its interval, if it has one that is no point; a text stays one."""
    if not isinstance(mean, (int, float)):
        return mean or ""
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or low == high:
        return _words(mean, sign)
    return f"{_words(mean, sign)} ({_words(low, sign)} to {_words(high, sign)})"


def _figure(row: Mapping[str, Cell]) -> str:
    """Returns a figure of an arm with its interval: over users too, where that is known."""
    over = "users" if row.get("users_low") is not None else "interval"
    return _with_interval(row.get("mean"), row.get(f"{over}_low"), row.get(f"{over}_high"))


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
        results = _results(self.folder / "results.json")
        answer: _Answer = results.get("answer") or {"sentence": "", "more": [], "arms": []}
        rows: dict[str, dict[str, Mapping[str, Cell]]] = {arm["name"]: {} for arm in answer["arms"]}
        for row in self.summary.to_dicts():
            rows.setdefault(str(row["arm"]), {})[str(row["figure"])] = row
        known = list(dict.fromkeys(figure for of_arm in rows.values() for figure in of_arm))
        figures = [name for name in [*results["metrics"], *_FIGURES] if name in known]
        gains = {arm["name"]: arm.get("more_than_popularity") for arm in answer["arms"]}

        def cells(tag: str, texts: Iterable[str]) -> str:
            # A long name of an arm goes on in the next line, and leaves the room to the figures.
            style = ' style="overflow-wrap: anywhere; min-width: 4em"'
            return "<tr>" + "".join(f"<{tag}{style}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"

        def row_of(arm: str, of_arm: Mapping[str, Mapping[str, Cell]]) -> list[str]:
            gain = gains[arm] if arm in gains else None
            low, high = gain.get("interval") or (None, None) if gain else (None, None)
            more = _with_interval(gain["mean"], low, high, "+") if gain else ""
            return [arm, more, *(_figure(of_arm.get(name, {})) for name in figures)]

        shown = list(rows.items())[:_MOST_ARMS]
        head = cells("th", ["arm", f"{answer.get('metric', '')}: more than popularity", *figures])
        body = "".join(cells("td", row_of(arm, of_arm)) for arm, of_arm in shown)
        counts = ((len(known) - len(figures), "figures"), (len(rows) - len(shown), "arms"))
        left = [f"{count} more {what}" for count, what in counts if count > 0]
        said = f"<p><b>{html.escape(answer['sentence'])}</b> {html.escape(' '.join(answer['more']))}</p>"
        below = f"<p>And {' and '.join(left)}, in <code>summary</code>.</p>" if left else ""
        picture = "accuracy-by-bytes"
        drawn = f"<div>{self.plot(picture).svg}</div>" if picture in self.pictures else ""
        table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        return said + table + below + drawn

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
