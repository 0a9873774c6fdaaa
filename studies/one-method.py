#!/usr/bin/env python3
"""Writes reports/honest-winner/one-method.md and one-method.csv from the folder of a run of `studies/one-method.toml`.

    python3 studies/one-method.py OUT

The text around the tables is that of `reports/honest-winner/one-method.toml`.
"""

import csv
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "reports" / "honest-winner"
DATA = {
    "ml-100k": "MovieLens 100K",
    "ml-1m": "MovieLens 1M",
    "lastfm-2k": "LastFM-2K",
    "sparse": "sparse, generated",
}
VALIDATION, TEST = "validation-expected-ndcg@10", "expected-ndcg@10"
FIGURES = (VALIDATION, TEST, "expected-hr@10")
BASELINES = ("popularity", "ials")


def read(file):
    """Returns the figures of a summary by method, data set and quantity."""
    figures = {}
    with open(file, newline="") as lines:
        for row in csv.DictReader(lines):
            if row["quantity"] in FIGURES:
                data, method = row["arm"].split(", ", 1)
                key = (method.removeprefix("method="), data.removeprefix("data="), row["quantity"])
                figures[key] = float(row["mean"])
    return figures


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


def main():
    """Writes the page and the figures from the folder that is named."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    figures = read(Path(sys.argv[1]) / "summary.csv")
    methods = list(dict.fromkeys(method for method, _, _ in figures))
    plain = [method for method in methods if "times" not in method and "10 %" not in method]
    rest = [method for method in methods if method not in plain]
    in_full = [method for method in methods if method in rest or any(other.startswith(f"{method},") for other in rest)]
    text = tomllib.loads((HERE / "one-method.toml").read_text())
    page = [text["head"], *table(figures, plain), "", text["middle"], *table(figures, in_full), "", text["tail"].rstrip()]
    (HERE / "one-method.md").write_text("\n".join(page) + "\n")
    with open(HERE / "one-method.csv", "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["method", "data", "quantity", "value"])
        writer.writerows([*key, value] for key, value in figures.items())


if __name__ == "__main__":
    main()
