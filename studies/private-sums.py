#!/usr/bin/env python3
"""Writes reports/privacy/sums.md: what can be learned from nothing but sums with noise.

    python3 studies/private-sums.py [OUT ...]
    python3 studies/private-sums.py --check

Each OUT is the folder of a run of `studies/private-sums.toml` with the arms of one data set. Its tables are copied to a
folder of the data set, without quantities that no page shows, and the page is written from these folders. With `--check`
nothing is written, and the page must be what would be.
"""

import csv
import shutil
import sys
from pathlib import Path

from papers.report import with_one_picture

HERE = Path(__file__).resolve().parent.parent / "reports" / "privacy"
TITLES = {"ml-100k": "MovieLens 100K, 943 users", "ml-1m": "MovieLens 1M, 6,040 users"}
METHODS = {"fedspec": "FedSpec", "fedgram": "FedGram", "fedmf": "FedMF", "popularity": "popularity", "random": "random"}
LEVELS = ["none", "14.1", "4.7", "2.2"]
FIGURES = {"expected-ndcg@10": "NDCG@10", "expected-hr@10": "HR@10"}
AUDIT = ["audit_auc", "audit_precision", "audit_linked_auc", "audit_linked_precision"]
KEPT = [*FIGURES, "hr@10", "ndcg@10", "validation-expected-ndcg@10", "epsilon", *AUDIT, "up_bytes", "down_bytes"]
PICTURE = "accuracy-by-round.svg"

HEAD = """# What can be learned from nothing but sums with noise?

[Back to the page on privacy](README.md) · [the mechanisms](../../docs/privacy.md) · [what holds](../../docs/findings.md)

Users trust the server, or a secure sum in its place, and nobody who sees the model. What each of them contributes to a step
is clipped, and the sum of everybody has Gaussian noise. FedSpec and FedGram send counts (`sends_counts`), so that the sum is
all that their servers use. Expected figures under `not-in-train`, means over five seeds with the 95 % interval of Student's
t. Epsilon is that of the whole run, at a delta of 1e-5, for a user with all ratings (`add-or-remove`), with everybody in
every step. Clip, steps and latent dimension of each method were chosen by validation at 4.7 with another seed, which epsilon
does not count. "popularity" is the share of users who have an item, with noise where there is an epsilon.
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


def cell(row):
    """Returns the mean of a row with its interval."""
    if row is None:
        return "-"
    mean, low, high = (float(row[key]) for key in ("mean", "interval_low", "interval_high"))
    return f"{mean:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{mean:.3f} ({low:.3f} to {high:.3f})"


def section(data, found):
    """Returns the part of the page on a data set with these rows."""
    page = [f"\n## {TITLES[data]}\n", f"[All tables](sums-{data}/study.md) · [course](sums-{data}/{PICTURE})\n"]
    levels = ["no noise" if level == "none" else f"epsilon {level}" for level in LEVELS]
    for figure, title in FIGURES.items():
        page.append("| " + " | ".join([title, *levels]) + " |")
        page.append("|---|" + "---:|" * len(levels))
        for method, name in METHODS.items():
            arms = [f"data={data}, method={method}, epsilon={level}" for level in LEVELS]
            page.append("| " + " | ".join([name, *(cell(found.get((arm, figure))) for arm in arms)]) + " |")
        page.append("")
    audited = [row for (_, quantity), row in found.items() if quantity == "audit_linked_auc" and row["mean"]]
    if audited:
        least = min(float(row["mean"]) for row in audited)
        page.append(
            f"The server itself, if there is no secure sum, reads what was rated out of all uploads of a user with an AUC of "
            f"{least:.3f} or more, whatever the epsilon: it is trusted, and the noise is for others."
        )
    return page


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


def main():
    """Copies what is named, and writes or checks the page."""
    folders = [] if sys.argv[1:] == ["--check"] else [Path(out) for out in sys.argv[1:]]
    for folder in folders:
        arm = next(iter(rows(folder / "summary.csv")))[0]
        take(arm.split(", ", 1)[0].removeprefix("data="), folder)
    page = [HEAD.rstrip("\n")]
    for data in TITLES:
        page += section(data, rows(HERE / f"sums-{data}" / "summary.csv"))
    page.append(TAIL.format(datas=" ".join(TITLES), outs=" ".join(f"out/{data}" for data in TITLES)))
    text, path = "\n".join(page), HERE / "sums.md"
    if sys.argv[1:] != ["--check"]:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path} is not what {sys.argv[0]} writes")


if __name__ == "__main__":
    main()
