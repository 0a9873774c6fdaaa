#!/usr/bin/env python3
"""Writes reports/leave-one-out/one-method.md from one-method.csv and the text of one-method.toml beside it.

    python3 studies/one-method.py           writes the page
    python3 studies/one-method.py OUT       first takes the figures from this folder of a run of studies/one-method.toml
    python3 studies/one-method.py --check   fails if the page is another one, and writes nothing
"""

import csv
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "reports" / "leave-one-out"
PAGE, CSV = HERE / "one-method.md", HERE / "one-method.csv"
DATA = {
    "ml-100k": "MovieLens 100K",
    "ml-1m": "MovieLens 1M",
    "lastfm-2k": "LastFM-2K",
    "sparse": "sparse, generated",
}
VALIDATION, TEST = "validation-expected-ndcg@10", "expected-ndcg@10"
FIGURES = (VALIDATION, TEST, "expected-hr@10")
BASELINES = ("popularity", "ials")


def take(folder):
    """Writes the figures of a run of the study to one-method.csv."""
    with open(folder / "summary.csv", newline="") as lines, open(CSV, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["method", "data", "figure", "value"])
        for row in csv.DictReader(lines):
            if row["figure"] in FIGURES:
                data, method = row["arm"].split(", ", 1)
                figure = row["figure"], float(row["mean"])
                writer.writerow([method.removeprefix("method="), data.removeprefix("data="), *figure])


def read():
    """Returns the figures of one-method.csv by method, data set and figure."""
    with open(CSV, newline="") as lines:
        return {(row["method"], row["data"], row["figure"]): float(row["value"]) for row in csv.DictReader(lines)}


def table(figures, methods):
    """Returns the table of these methods, with the smallest share of the best validation figure of a federated one."""
    federated = [method for method in methods if method not in BASELINES]
    best = {data: max(figures[method, data, VALIDATION] for method in federated) for data in DATA}
    yield "| method and settings | " + " | ".join(DATA.values()) + " | smallest share |"
    yield "|---|" + "---:|" * (len(DATA) + 1)
    for method in methods:
        cells = [f"{figures[method, data, VALIDATION]:.3f} / {figures[method, data, TEST]:.3f}" for data in DATA]
        share = min(figures[method, data, VALIDATION] / best[data] for data in DATA)
        yield f"| {method} | " + " | ".join(cells) + f" | {share:.3f} |"


def page():
    """Returns the page."""
    figures = read()
    methods = list(dict.fromkeys(method for method, _, _ in figures))
    plain = [method for method in methods if "times" not in method and "10 %" not in method]
    rest = [method for method in methods if method not in plain]
    in_full = [method for method in methods if method in rest or any(other.startswith(f"{method},") for other in rest)]
    text = tomllib.loads((HERE / "one-method.toml").read_text())
    parts = [text["head"], *table(figures, plain), "", text["middle"], *table(figures, in_full), "", text["tail"].rstrip()]
    return "\n".join(parts) + "\n"


def main():
    match sys.argv[1:]:
        case ["--check"]:
            if PAGE.read_text() != page():
                sys.exit(f"{PAGE} is not what one-method.csv and one-method.toml say; write it with {Path(__file__).name}")
            return
        case [] | [_] as folders:
            for folder in folders:
                take(Path(folder))
            PAGE.write_text(page())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
