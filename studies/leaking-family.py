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
# Methods whose own server takes the mean of what devices send.
TAKES_THE_MEAN = {"feddad"}
POOLS, SERVERS = ("unrated", "symmetric", "not-in-train"), ("its own", "none", "mean")
PLAIN_MEAN = "fedca, own_share=0, negatives=not-in-train, server=mean"
FIGURES, COLUMNS = ("hr@10", "ndcg@10"), ("arm", "figure", "runs", "mean", "interval_low", "interval_high")
# Below this difference two figures of HR@10 count as level: about what 943 users can show.
EQUAL = 0.03


def rows_of(path):
    """Returns the rows of figures in a file, by arm and figure."""
    with open(path, newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["figure"] in FIGURES and row["mean"]]
    return {(row["arm"], row["figure"]): row for row in rows}


def take(folder):
    """Writes the figures of a run of the study to figures.csv. Arms that it has not run keep theirs."""
    rows = rows_of(CSV) | rows_of(folder / "summary.csv")
    with open(CSV, "w", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows.values())


def arm(method, negatives, server="its own"):
    return f"method={method}, negatives={negatives}, server={server}"


def short(value):
    return f"{value:.3f}".removeprefix("0")


def against(value, other, name):
    """Says how a figure stands to another one. Both are rounded, so that differences are those of the page."""
    if abs(value - other) < EQUAL:
        return f"level with {name} ({short(other)})"
    return f"{short(abs(value - other))} {'more' if value > other else 'less'} than {name} ({short(other)})"


def wrapped(text):
    return textwrap.wrap(text, 120, subsequent_indent="  ")


def not_run(hr):
    """Says which combinations of the study have no figure."""
    told = []
    for negatives in POOLS:
        for server in SERVERS:
            lacking = [name for method, name in METHODS.items() if arm(method, negatives, server) not in hr]
            if lacking:
                who = "all" if len(lacking) == len(METHODS) else " and ".join(lacking)
                told.append(f"`{negatives}` with the server *{server}* ({who})")
    return f"Not run, though the study has it: {', '.join(told)}." if told else ""


def compared(method, hr):
    """Returns what stands beside a method without the leak, with the name of each."""
    beside = [(hr["popularity"], "popularity"), (hr[arm(method, "not-in-train", "none")], "nothing shared")]
    if method not in TAKES_THE_MEAN:
        beside.append((hr[arm(method, "not-in-train", "mean")], "a server that takes the mean"))
    return beside


def verdict(method, hr):
    """Says how a method stands with the leak and without it."""
    leak, alone, honest = (hr[arm(method, *of)] for of in (("unrated",), ("unrated", "none"), ("not-in-train",)))
    beside = ", ".join(against(honest, *other) for other in compared(method, hr))
    return (
        f"- **{METHODS[method]}**: {short(leak)} with the leak, and {short(alone)} on devices that share nothing. "
        f"Without it {short(honest)}: {beside}."
    )


def page_part():
    """Returns what stands between the two marks."""
    hr = {name: round(float(row["mean"]), 3) for (name, figure), row in rows_of(CSV).items() if figure == "hr@10"}

    def cell(name):
        return short(hr[name]) if name in hr else "-"

    lines = [
        "| HR@10 | its protocol | nothing shared | symmetric | on a device | and nothing shared | and the mean |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    pools = [("unrated",), ("unrated", "none"), ("symmetric",)]
    pools += [("not-in-train",), ("not-in-train", "none"), ("not-in-train", "mean")]
    for method in METHODS:
        arms = [arm(method, *pool) for pool in pools]
        cells = [cell(name) for name in arms[:-1]] + ["-" if method in TAKES_THE_MEAN else cell(arms[-1])]
        lines.append(f"| {METHODS[method]} | {' | '.join(cells)} |")
    for name in ("fedmf, negatives=not-in-train", "popularity"):
        title = name.split(",")[0].replace("fedmf", "FedMF")
        lines.append(f"| {title} | - | - | - | {cell(name)} | - | - |")
    lines.append("")
    for method in METHODS:
        lines += wrapped(verdict(method, hr))
    by_itself = "FedCA whose devices go on from the mean itself (`own_share = 0`)"
    lines += ["", f"{by_itself}: {short(hr[PLAIN_MEAN])}." if PLAIN_MEAN in hr else f"{by_itself} was not run yet."]
    lines += ["", *textwrap.wrap(not_run(hr), 120), ""]
    ahead = [m for m in METHODS if all(hr[arm(m, "not-in-train")] - other >= EQUAL for other, _ in compared(m, hr))]
    count = f"{len(ahead) or 'none'} of {len(METHODS)} methods {'is' if len(ahead) < 2 else 'are'}"
    lines.append(f"**Without the leak, {count} ahead of popularity and of every control beside it.**")
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
