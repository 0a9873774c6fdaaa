#!/usr/bin/env python3
"""Writes reports/privacy/sums.md: what can be learned from nothing but sums with noise.

    python3 studies/private-sums.py [OUT ...]
    python3 studies/private-sums.py --check

Each OUT is the folder of a run of `studies/private-sums.toml` with the arms of one data set. Its tables are copied to a
folder of the data set, without quantities that no page shows, and the page is written from these folders. With `--check`
nothing is written, and the page must be what would be. An arm whose epsilon is not the one that its name says is refused.
"""

import csv
import shutil
import sys
from pathlib import Path

from papers.report import with_one_picture

HERE = Path(__file__).resolve().parent.parent / "reports" / "privacy"
TITLES = {"ml-100k": "MovieLens 100K, 943 users", "ml-1m": "MovieLens 1M, 6,040 users"}
METHODS = {"fedspec": "FedSpec", "fedgram": "FedGram", "fedmf": "FedMF", "popularity": "popularity", "random": "random"}
LEVELS = ["none", "clip alone", "14.1", "4.7", "2.2"]
FIGURES = {"expected-ndcg@10": "NDCG@10", "expected-hr@10": "HR@10"}
AUDIT = {
    "audit_auc": "AUC, one upload",
    "audit_precision": "precision",
    "audit_linked_auc": "AUC, all uploads",
    "audit_linked_precision": "precision",
}
KEPT = [*FIGURES, "hr@10", "ndcg@10", "validation-expected-ndcg@10", "epsilon", *AUDIT, "up_bytes", "down_bytes"]
PICTURE = "accuracy-by-round.svg"

HEAD = """# What can be learned from nothing but sums with noise?

[Back to the page on privacy](README.md) · [the mechanisms](../../docs/privacy.md) · [what holds](../../docs/findings.md)

Users trust the server, or a secure sum and each other's devices in its place, and nobody who sees the model. What each of
them contributes to a step is clipped, and the sum of everybody has Gaussian noise. FedSpec and FedGram send counts
(`sends_counts`), so that the sum is all that their servers use. Expected figures under `not-in-train` after the last step,
means over five seeds with the 95 % interval of Student's t. Epsilon is that of the whole run, at a delta of 1e-5, for a user
with all ratings (`add-or-remove`), with everybody in every step.

How settings were chosen: clip, steps, dimensions, regulariser, damping and the weight of popularity by the validation figure
of seed 11 at 4.7, among up to two hundred for each method and data set. No epsilon counts that. "Clip alone" is these
settings with next to no noise. "No noise" has no clip either, and the settings of the [honest winner](../honest-winner/README.md),
which were chosen by validation without noise. "Popularity" with noise is the popularity that FedGram counts, in contributions
that are clipped: a user's list weighs about one over its length, which is why it can be ahead of the share of users who have
an item, its column without noise.
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


def accuracy(row):
    """Returns the mean of a row with its interval."""
    if mean(row) is None:
        return "-"
    middle, low, high = (f"{float(row[key]):.3f}" for key in ("mean", "interval_low", "interval_high"))
    return middle if low == high else f"{middle} ({low} to {high})"


def epsilon(found, arm, level):
    """Returns the epsilon of an arm, which must be that of its name."""
    value = mean(found.get((arm, "epsilon")))
    if level == "none":
        if value is not None:
            sys.exit(f"{arm} has an epsilon of {value}")
        return "-"
    if value is None:
        sys.exit(f"{arm} has no epsilon")
    if level == "clip alone":
        if value < 1e6:
            sys.exit(f"{arm} has an epsilon of {value}, and so more than next to no noise")
        return f"{value:,.0f}"
    if round(value, 1) != float(level):
        sys.exit(f"{arm} has an epsilon of {value}")
    return f"{value:.2f}"


def accuracies(data, found):
    """Returns the tables of both figures by method and level."""
    levels = {"none": "no noise", "clip alone": "clip alone"}
    page = []
    for figure, title in FIGURES.items():
        page.append("| " + " | ".join([title, *(levels.get(level, f"epsilon {level}") for level in LEVELS)]) + " |")
        page.append("|---|" + "---:|" * len(LEVELS))
        for method, name in METHODS.items():
            arms = [arm_of(data, method, level) for level in LEVELS]
            page.append("| " + " | ".join([name, *(accuracy(found.get((arm, figure))) for arm in arms)]) + " |")
        page.append("")
    return page


def audits(data, found):
    """Returns the table of what uploads tell, one row for each arm that sends some."""
    page = ["| what uploads tell the server | epsilon | " + " | ".join(AUDIT.values()) + " |"]
    page.append("|---|" + "---:|" * (1 + len(AUDIT)))
    for method, name in METHODS.items():
        for level in LEVELS:
            arm = arm_of(data, method, level)
            if mean(found.get((arm, "audit_auc"))) is None:
                continue
            what = "no noise" if level == "none" else "clip alone" if level == "clip alone" else f"epsilon {level}"
            figures = [f"{mean(found[arm, quantity]):.3f}" for quantity in AUDIT]
            page.append("| " + " | ".join([f"{name}, {what}", epsilon(found, arm, level), *figures]) + " |")
    return page


def section(data, found):
    """Returns the part of the page on a data set with these rows."""
    page = [f"\n## {TITLES[data]}\n", f"[All tables](sums-{data}/study.md) · [course](sums-{data}/{PICTURE})\n"]
    page += accuracies(data, found)
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


AFTER = """
The noise is for those who see the model, and hides nothing from the server: it reads what was rated out of the counts that
FedSpec and FedGram send, and nearly so out of FedMF's rows. A secure sum hides single uploads from it, at the
[bytes](../honest-winner/README.md) of the dense sums. Nothing here measures what can be read out of a model that noise
protects; that is what the epsilon bounds.
"""


def main():
    """Copies what is named, and writes or checks the page."""
    folders = [] if sys.argv[1:] == ["--check"] else [Path(out) for out in sys.argv[1:]]
    for folder in folders:
        arm = next(iter(rows(folder / "summary.csv")))[0]
        take(arm.split(", ", 1)[0].removeprefix("data="), folder)
    page = [HEAD.rstrip("\n")]
    for data in TITLES:
        page += section(data, rows(HERE / f"sums-{data}" / "summary.csv"))
    page.append(AFTER.rstrip("\n"))
    page.append(TAIL.format(datas=" ".join(TITLES), outs=" ".join(f"out/{data}" for data in TITLES)))
    text, path = "\n".join(page), HERE / "sums.md"
    if sys.argv[1:] != ["--check"]:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path} is not what {sys.argv[0]} writes")


if __name__ == "__main__":
    main()
