"""Tables of reports and studies."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any, Iterable, Sequence

from . import _native, method
from .run import Picture, Run


#: The columns whose cells are names, also where they look like numbers.
_TEXTS = frozenset({"arm", "compared_to", "figure"})


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a CSV file, with numbers as numbers and empty cells as `None`. Names of arms stay texts."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {key: value if key in _TEXTS else number(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def number(text: str | None) -> Any:
    """Returns a cell of a CSV file as the number that it says; a text stays one."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Comparison:
    """The tables and pictures in a folder, which a study or a comparison has made.

    `runs` has a row for every run and figure, `summary` one for every arm and figure, with means over the seeds.
    """

    def __init__(self, folder: str | os.PathLike[str], markdown: str, name: str) -> None:
        self.folder = Path(folder)
        self.markdown = markdown
        self._name = name

    @property
    def runs(self) -> list[dict[str, Any]]:
        """A row for every run and figure."""
        return rows_of(self.folder / f"{self._name}.csv")

    @property
    def summary(self) -> list[dict[str, Any]]:
        """A row for every arm and figure."""
        return rows_of(self.folder / "summary.csv")

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

    def _repr_markdown_(self) -> str:
        return self.markdown

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
