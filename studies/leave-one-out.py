#!/usr/bin/env python3
"""Writes reports/leave-one-out/: methods under leave-one-out, with intervals against five others, and their bytes.

    python3 studies/leave-one-out.py OUT [OUT ...]

Each OUT is the folder of a run of `studies/leave-one-out.toml` with the arms of one data set and with `--compare-to` for
every method that `OTHERS` names. Its tables are copied to the folder of the data set, without figures that no page
shows.
"""

import csv
import shutil
import sys
from pathlib import Path

from papers.report import with_one_picture

HERE = Path(__file__).resolve().parent.parent / "reports" / "leave-one-out"
TITLES = {
    "ml-100k": "MovieLens 100K",
    "ml-1m": "MovieLens 1M",
    "sparse": "Generated: 8,000 users with 8 ratings of 12,000 items",
}
OTHERS = {
    "method=popularity": "popularity",
    "method=fedmf": "FedMF",
    "method=pfedrec": "PFedRec",
    "method=ials (central, no times)": "iALS at the server, no times",
    "method=ease (central, times)": "EASE at the server, times",
}
PICTURE = "pareto-bytes.svg"
FIGURES = {"expected-ndcg@10": "NDCG@10", "expected-hr@10": "HR@10"}
UP, DOWN = "up_bytes_to_selected_round", "down_bytes_to_selected_round_and_score"
KEPT = [*FIGURES, "hr@10", "ndcg@10", "validation-expected-ndcg@10", UP, DOWN, "inference_bytes", "virtual_time_s"]

HEAD = """# FedSpec and FedGram beside other methods, under leave-one-out

[Back to the README](../../README.md) · [what holds](../../docs/findings/withdrawn.md) ·
[one method for all data sets?](one-method.md)

**These tables do not show which method wins.** Earlier versions of this page said that FedSpec and FedGram do. An
independent recomputation from the specification agrees with the figures within the noise of seeds, and every interval
recomputes. [What they were said to show does not hold](../honest-winner/README.md#our-claims-the-old-and-the-new).

What the tables show: the figures that these settings have on these users, if the last rating of each is held out and ranked
among 99 candidates, and how far the seed moves them. On the generated set a seed also draws other users and items.

The baselines had less effort. The settings of FedSpec and FedGram were chosen by validation on each data set; EASE, iALS and
PFedRec keep those of MovieLens 100K on the other two. FedGram's lead over iALS there is one of settings: with iALS's own it
has iALS's figures, .410 on 1M and .387 on the generated set ([seed 11](one-method.md), 32 dimensions). FCF is not in this study.

Expected HR@10 and NDCG@10 under `not-in-train`, at the round of the best validation figure, with the differences to other
methods: means over five pairs of runs with the same seed, with the 95 % interval of Student's t over seeds. "Secure sum"
uploads whole tables in single precision and a count of each item, of which the server uses the sum alone. Bytes are those of
all users together until that round; those down hold what the users then download to score. FedMF and PFedRec send `rows-f32`
up and dense f32 down. The arms with 10 % a round have other codecs (FedGram sends single precision up, and downloads are not
differences), so that their bytes do not show the price of partial participation alone.
"""

TAIL = """
```sh
for data in {datas}; do
  fedrecsim study studies/leave-one-out.toml --arms data=$data --out out/$data
  for other in popularity fedmf pfedrec "ials (central, no times)" "ease (central, times)"; do    # the sparse set has no EASE
    fedrecsim study studies/leave-one-out.toml --arms data=$data --out out/$data --no-run --compare-to "method=$other"
  done
done
python3 studies/leave-one-out.py {outs}
```
"""


def rows(file):
    """Returns the rows of a summary by arm and figure."""
    with open(file, newline="") as lines:
        return {(row["arm"], row["figure"]): row for row in csv.DictReader(lines)}


def against(folder, other):
    """Returns the rows of the comparison to `other`, or nothing if the study has no such arm."""
    for file in sorted(folder.glob("summary-against-*.csv")):
        found = rows(file)
        if any(row["compared_to"].split(", ", 1)[-1] == other for row in found.values()):
            return found
    return {}


def size(value):
    """Returns a number of bytes with three digits and its unit."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.3g} {unit}"
        value /= 1000


def name_of(arm):
    """Returns the name of an arm without its data set."""
    return arm.split(", ", 1)[1].removeprefix("method=")


def difference(row):
    """Returns the difference of a row with its interval."""
    if not row or not row["difference"]:
        return "-"
    value, low, high = (float(row[key]) for key in ("difference", "difference_low", "difference_high"))
    return f"{value:+.3f} ({low:+.3f} to {high:+.3f})"


def times_less(row):
    """Returns how many times fewer the bytes are than FedMF's, or a dash."""
    if not row or not row["times_less"]:
        return "-"
    factor = float(row["times_less"])
    return f"{factor:,.0f}" if factor >= 999.5 else f"{factor:.3g}"


def section(data, folder):
    """Returns the part of the page on a data set, whose study is in `folder`."""
    own = rows(folder / "summary.csv")
    others = {name: found for part, name in OTHERS.items() if (found := against(folder, part))}
    arms = list(dict.fromkeys(arm for arm, _ in own))
    page = [f"\n## {TITLES[data]}\n", f"[All tables]({data}/study.md) · [picture]({data}/{PICTURE})\n"]
    for figure, title in FIGURES.items():
        page.append("| | " + " | ".join([title, *(f"minus {name}" for name in others)]) + " |")
        page.append("|---|" + "---:|" * (1 + len(others)))
        for arm in arms:
            cells = [difference(found.get((arm, figure))) for found in others.values()]
            page.append(f"| {name_of(arm)} | {float(own[arm, figure]['mean']):.3f} | " + " | ".join(cells) + " |")
        page.append("")
    page.append("| | up | down | times fewer up than FedMF | times fewer down than FedMF |")
    page.append("|---|---:|---:|---:|---:|")
    for arm in arms:
        up, down = (size(float(own[arm, figure]["mean"])) for figure in (UP, DOWN))
        fewer = [times_less(others["FedMF"].get((arm, figure))) for figure in (UP, DOWN)]
        page.append(f"| {name_of(arm)} | {up} | {down} | {fewer[0]} | {fewer[1]} |")
    return page


def take(data, folder):
    """Copies the tables of a study to the folder of its data set."""
    target = HERE / data
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / PICTURE, target / PICTURE)
    (target / "study.md").write_text(with_one_picture((folder / "study.md").read_text(), PICTURE))
    with open(folder / "summary.csv", newline="") as lines, open(target / "summary.csv", "w", newline="") as out:
        reader = csv.DictReader(lines)
        writer = csv.DictWriter(out, reader.fieldnames, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in reader if row["figure"] in KEPT)


def main():
    """Writes the page and the folders from the folders that are named."""
    folders = {}
    for out in map(Path, sys.argv[1:]):
        arm = next(iter(rows(out / "summary.csv")))[0]
        folders[arm.split(", ", 1)[0].removeprefix("data=")] = out
    if set(folders) != set(TITLES):
        sys.exit(f"the page has {', '.join(TITLES)}, each from a folder of its own\n{__doc__}")
    page = [HEAD.rstrip("\n")]
    for data in TITLES:
        take(data, folders[data])
        page += section(data, folders[data])
    page.append(TAIL.format(datas=" ".join(TITLES), outs=" ".join(f"out/{data}" for data in TITLES)))
    (HERE / "README.md").write_text("\n".join(page))


if __name__ == "__main__":
    main()
