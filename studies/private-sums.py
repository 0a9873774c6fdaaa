#!/usr/bin/env python3
"""Writes reports/privacy/sums.md: what can be learned from nothing but sums with noise.

    python3 studies/private-sums.py [OUT ...]
    python3 studies/private-sums.py --check

Each OUT is the folder of a run of `studies/private-sums.toml` with the arms of one data set. Its tables are copied to a
folder of the data set, without quantities that no page shows, and the page is written from these folders. With `--check`
nothing is written, and the page must be what would be. An arm that is missing, has not run with every seed, or has another
epsilon than its name says is refused.
"""

import csv
import math
import shutil
import sys
from pathlib import Path

from papers.report import with_one_picture

HERE = Path(__file__).resolve().parent.parent / "reports" / "privacy"
TITLES = {"ml-100k": "MovieLens 100K, 943 users", "ml-1m": "MovieLens 1M, 6,040 users"}
METHODS = {
    "fedspec": "FedSpec",
    "fedspec with damping": "FedSpec with its usual damping",
    "fedspec with twice the steps": "FedSpec with twice the steps",
    "fedgram": "FedGram",
    "fedmf": "FedMF",
    "popularity": "popularity",
    "random": "random",
}
LEVELS = {"none": "no noise", "clip alone": "clip alone", "14.1": "epsilon 14.1", "4.7": "epsilon 4.7", "2.2": "epsilon 2.2"}
LEVELS_OF = {"random": ["none"], "fedspec with damping": ["4.7"], "fedspec with twice the steps": ["4.7"]}
SEEDS = 5
FIGURES = {"expected-ndcg@10": "NDCG@10", "expected-hr@10": "HR@10"}
AUDIT = {
    "audit_auc": "AUC, one upload",
    "audit_precision": "precision, one upload",
    "audit_linked_auc": "AUC, all uploads",
    "audit_linked_precision": "precision, all uploads",
}
KEPT = [*FIGURES, "hr@10", "ndcg@10", "validation-expected-ndcg@10", "epsilon", *AUDIT, "up_bytes", "down_bytes"]
PICTURE = "accuracy-by-round.svg"

HEAD = """# What can be learned from nothing but sums with noise?

[Back to the page on privacy](README.md) · [the mechanisms](../../docs/privacy.md) · [what holds](../../docs/findings.md)

Users trust the server, or each other's devices and a secure sum that adds the noise in its place, and nobody who sees the
model. What each of them contributes to a step is clipped, and the sum of everybody has Gaussian noise. FedSpec and FedGram
send counts (`sends_counts`), so that the sum is all that their servers use. Figures are expected ones under `not-in-train`
after the last step, and means over five seeds with the 95 % interval of Student's t. Epsilon is that of the whole run, at a
delta of 1e-5, for a user with all ratings (`add-or-remove`), with everybody in every step.

Settings with noise were chosen by the validation figure of seed 11 at 4.7, and no epsilon here includes that choice. On
MovieLens 100K they are the best of 60 for FedMF, 300 for FedSpec and 440 for FedGram, and on 1M of 20, 45 and 30: clip, steps
and latent dimension; FedSpec's damping, timeless share and weight of popularity; FedGram's regulariser, weights and initial
length; FedMF's rates. The column "clip alone" has these settings with next to no noise. The column "no noise" has no clip
either, and the settings of the [honest winner](../honest-winner/README.md), which judges by the best validation round where
this page takes the last one. The row "popularity" is with noise the popularity that FedGram counts, with one clip that every
contribution exceeds. Each of a user's items counts about one over the root of their number there, and one without noise.
"""

TAIL = """
```sh
for data in {datas}; do fedrecsim study studies/private-sums.toml --arms data=$data --out out/$data; done
python3 studies/private-sums.py {outs}
```
"""


def rows(file):
    """Returns the rows of a summary by arm and quantity."""
    with open(file, newline="") as lines:
        return {(row["arm"], row["quantity"]): row for row in csv.DictReader(lines)}


def mean(row):
    """Returns the mean of a row; None if there is no row or no value in it."""
    return float(row["mean"]) if row and row["mean"] else None


def arm_of(data, method, level):
    """Returns the name of an arm."""
    return f"data={data}, method={method}, epsilon={level}"


def checked(found, arm, quantity):
    """Returns the row of an arm, which must have a value and have run with every seed."""
    row = found.get((arm, quantity))
    if mean(row) is None:
        sys.exit(f"{arm} has no {quantity}")
    if int(row["runs"]) != SEEDS:
        sys.exit(f"{arm} has run with {row['runs']} seeds instead of {SEEDS}")
    return row


def accuracy(row):
    """Returns the mean of a row with its interval, whose ends are rounded away from the mean."""
    middle, low, high = (float(row[key]) for key in ("mean", "interval_low", "interval_high"))
    if low == high:
        return f"{middle:.3f}"
    return f"{middle:.3f} ({math.floor(low * 1000) / 1000:.3f} to {math.ceil(high * 1000) / 1000:.3f})"


def epsilon(found, arm, level):
    """Returns the epsilon of an arm, which must be that of its name."""
    if level == "none":
        if mean(found.get((arm, "epsilon"))) is not None:
            sys.exit(f"{arm} has an epsilon")
        return "-"
    value = mean(checked(found, arm, "epsilon"))
    if level == "clip alone":
        if value < 1e6:
            sys.exit(f"{arm} has an epsilon of {value}, and so more than next to no noise")
        return f"{value:,.0f}"
    if round(value, 1) != float(level):
        sys.exit(f"{arm} has an epsilon of {value}")
    return f"{value:.2f}"


def accuracies(data, found):
    """Returns the tables of both figures by method and level."""
    page = []
    for figure, title in FIGURES.items():
        page.append("| " + " | ".join([title, *LEVELS.values()]) + " |")
        page.append("|---|" + "---:|" * len(LEVELS))
        for method, name in METHODS.items():
            cells = []
            for level in LEVELS:
                arm = arm_of(data, method, level)
                if level not in LEVELS_OF.get(method, LEVELS):
                    cells.append("-")
                    continue
                epsilon(found, arm, level)
                cells.append(accuracy(checked(found, arm, figure)))
            page.append("| " + " | ".join([name, *cells]) + " |")
        page.append("")
    return page


def audits(data, found):
    """Returns the table of what uploads tell, one row for each arm that sends some, of which each must tell nearly all."""
    page = ["| what uploads tell the server | epsilon | " + " | ".join(AUDIT.values()) + " |"]
    page.append("|---|" + "---:|" * (1 + len(AUDIT)))
    for method, name in METHODS.items():
        for level, title in LEVELS.items():
            arm = arm_of(data, method, level)
            sends = method != "random" and (method, level) != ("popularity", "none")
            if level not in LEVELS_OF.get(method, LEVELS) or not sends:
                continue
            figures = [mean(checked(found, arm, quantity)) for quantity in AUDIT]
            if figures[0] < 0.9 or figures[2] < 0.99:
                sys.exit(f"{arm}: uploads tell less than the page says")
            cells = [epsilon(found, arm, level), *(f"{figure:.3f}" for figure in figures)]
            page.append("| " + " | ".join([f"{name}, {title}", *cells]) + " |")
    return page


def section(data, found):
    """Returns the part of the page on a data set with these rows."""
    page = [f"\n## {TITLES[data]}\n", f"[All tables](sums-{data}/study.md) · [course](sums-{data}/{PICTURE})\n"]
    page += accuracies(data, found)
    page.append(BETWEEN)
    return page + audits(data, found)


def take(data, folder):
    """Copies the tables of a study to the folder of its data set."""
    target = HERE / f"sums-{data}"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / PICTURE, target / PICTURE)
    (target / "study.md").write_text(with_one_picture((folder / "study.md").read_text(), PICTURE))
    with open(folder / "summary.csv", newline="") as lines, open(target / "summary.csv", "w", newline="") as out:
        reader = csv.DictReader(lines)
        writer = csv.DictWriter(out, reader.fieldnames, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in reader if row["quantity"] in KEPT)


BETWEEN = """Epsilon is towards those who see the model, and the other columns are what the server itself can read: the chance
that a rated item is ranked above another one (.5 is a guess) and the share of rated items among as many guesses. The higher
they are, the more uploads tell.
"""

AFTER = """
So the noise hides nothing from the server: one upload tells it what was rated with an AUC of .9 or more, and all uploads of a
user with .99 or more, whatever the noise. A secure sum hides single uploads from it, at the
[bytes](../honest-winner/README.md) of the dense sums, and leaves it the sum of all, which the secure sum must add the noise
to if the server is not trusted. Nothing here measures what can be read out of a model that noise protects, which epsilon
bounds.
"""


def data_of(folder):
    """Returns the data set of the arms that a study has run, which must be one that the page has."""
    found = {arm.split(", ", 1)[0].removeprefix("data=") for (arm, _), row in rows(folder / "summary.csv").items()}
    if len(found) != 1 or not found <= set(TITLES):
        sys.exit(f"{folder} has arms of {', '.join(sorted(found))} instead of one data set of {', '.join(TITLES)}")
    return found.pop()


def main():
    """Copies what is named, and writes or checks the page."""
    arguments = sys.argv[1:]
    check = arguments == ["--check"]
    if not check and any(argument.startswith("-") for argument in arguments):
        sys.exit(__doc__)
    for folder in [] if check else map(Path, arguments):
        take(data_of(folder), folder)
    page = [HEAD.rstrip("\n")]
    for data in TITLES:
        summary = HERE / f"sums-{data}" / "summary.csv"
        if not summary.exists():
            sys.exit(f"there is no {summary}, which comes from a run of studies/private-sums.toml with --arms data={data}")
        page += section(data, rows(summary))
    page.append(AFTER.rstrip("\n"))
    page.append(TAIL.format(datas=" ".join(TITLES), outs=" ".join(f"out/{data}" for data in TITLES)))
    text, path = "\n".join(page), HERE / "sums.md"
    if not check:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit(f"{path} is not what {sys.argv[0]} writes")


if __name__ == "__main__":
    main()
