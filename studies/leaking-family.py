#!/usr/bin/env python3
"""Writes the table and the verdicts of docs/findings/leaking-family.md from reports/leaking-family/figures.csv.

    python3 studies/leaking-family.py           writes them between the two marks of the page
    python3 studies/leaking-family.py OUT       first takes the figures from this folder of a run of the study
    python3 studies/leaking-family.py --check   fails if the page has others, and writes nothing
"""

import csv
import sys
import textwrap
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
PAGE, CSV = HOME / "docs/findings/leaking-family.md", HOME / "reports/leaking-family/figures.csv"
BEGIN, END = "<!-- written by studies/leaking-family.py -->\n", "<!-- end -->\n"
METHODS = {"gpfedrec": "GPFedRec", "fedca": "FedCA", "fedem": "FedEM", "fedea": "FedEA", "feddad": "FedDAD"}
FIGURES, COLUMNS = ("hr@10", "ndcg@10"), ("arm", "figure", "runs", "mean", "interval_low", "interval_high")
# Below this difference two figures of HR@10 count as level: about what 943 users can show.
EQUAL = 0.03


def take(folder):
    """Writes the figures of a run of the study to figures.csv."""
    with open(folder / "summary.csv", newline="") as lines, open(CSV, "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in csv.DictReader(lines) if row["figure"] in FIGURES and row["mean"])


def read():
    """Returns the figures by arm and figure."""
    with open(CSV, newline="") as lines:
        return {(row["arm"], row["figure"]): float(row["mean"]) for row in csv.DictReader(lines)}


def short(value):
    return f"{value:.3f}".removeprefix("0")


def against(value, other, name):
    """Says how a figure stands to another one."""
    if abs(value - other) < EQUAL:
        return f"level with {name} ({short(other)})"
    return f"{short(abs(value - other))} {'more' if value > other else 'less'} than {name} ({short(other)})"


def page_part():
    """Returns what stands between the two marks."""
    figures = read()

    def arm(method, negatives, server="its own"):
        return f"method={method}, negatives={negatives}, server={server}"

    def hr(*of):
        return figures[arm(*of), "hr@10"]

    def cell(name):
        value = figures.get((name, "hr@10"))
        return "-" if value is None else short(value)

    judged = [("unrated",), ("unrated", "none"), ("not-in-train",), ("not-in-train", "none"), ("not-in-train", "mean")]
    there = [method for method in METHODS if all((arm(method, *pool), "hr@10") in figures for pool in judged)]
    popularity = figures["popularity", "hr@10"]
    lines = [
        "| HR@10 | its protocol | nothing shared | symmetric | on a device | and nothing shared | and plain mean |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for method in there:
        pools = [("unrated",), ("unrated", "none"), ("symmetric",), ("not-in-train",)]
        pools += [("not-in-train", "none"), ("not-in-train", "mean")]
        cells = [cell(arm(method, *pool)) for pool in pools]
        lines.append(f"| {METHODS[method]} | {' | '.join(cells)} |")
    for name in ("fedmf, negatives=not-in-train", "popularity"):
        title = name.split(",")[0].replace("fedmf", "FedMF")
        lines.append(f"| {title} | - | - | - | {cell(name)} | - | - |")
    lines.append("")
    survive = 0
    for method in there:
        leak, alone = hr(method, "unrated"), hr(method, "unrated", "none")
        honest, mean = hr(method, "not-in-train"), hr(method, "not-in-train", "mean")
        none = hr(method, "not-in-train", "none")
        survive += honest - popularity >= EQUAL and honest - max(none, mean) >= EQUAL
        text = (
            f"- **{METHODS[method]}**: {short(leak)} with the leak, and {short(alone)} on devices that share nothing. Without it "
            f"{short(honest)}: {against(honest, popularity, 'popularity')}, {against(honest, none, 'nothing shared')}, "
            f"{against(honest, mean, 'the plain mean')}."
        )
        lines += textwrap.wrap(text, 120, subsequent_indent="  ")
    lines.append("")
    lines.append(
        f"**Of {len(there)} methods, {survive or 'none'} {'is' if survive == 1 else 'are'} ahead of popularity and of both "
        "controls without the leak.**"
    )
    return "\n".join(lines) + "\n"


def page():
    """Returns the page with what the figures say."""
    head, rest = PAGE.read_text().split(BEGIN)
    return head + BEGIN + page_part() + END + rest.split(END)[1]


def main():
    match sys.argv[1:]:
        case ["--check"]:
            if PAGE.read_text() != page():
                sys.exit(f"{PAGE} is not what {CSV.name} says; write it with {Path(__file__).name}")
            return
        case [] | [_] as folders:
            for folder in folders:
                take(Path(folder))
            PAGE.write_text(page())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
