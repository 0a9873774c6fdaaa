#!/usr/bin/env python3
"""Writes reports/papers/README.md: the tables of the papers beside ours, from the results in its folders.

    python3 studies/papers/report.py            writes the page
    python3 studies/papers/report.py --check    fails if the page is another one, and writes nothing
    python3 studies/papers/report.py --take OUT [OUT ...]    first copies what the page needs of these folders of studies

Each section of `reports/papers/text.toml` is a table or figure of a paper. Its values of the paper are those of the study
files, and ours are those of `reports/papers/STUDY-POOL[-DATA]/summary.csv`. Wherever ours under the paper's own protocol
differs from the paper by more than two of its standard deviations (or by .03, where it has none),
`reports/papers/text.toml` must have an explanation; without one nothing is written.
"""

import csv
import re
import shutil
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
REPORTS = HERE.parent.parent / "reports" / "papers"
POOLS = ("unrated", "not-in-train")
FIGURES = (("hr@10", "HR@10"), ("ndcg@10", "NDCG@10"))
# The picture of a study that is kept, in which a value that ours passes on the way can be seen.
PICTURE = "accuracy-by-round.svg"
# How far a value may be from one that was published without a standard deviation.
TOLERANCE = 0.03
DATA = {
    "ml-100k": "MovieLens 100K",
    "ml-1m": "MovieLens 1M",
    "lastfm-2k": "LastFM-2K",
    "lastfm-2k-tags": "LastFM-2K, tags",
    "amazon-instant-video": "Amazon Instant Video",
    "qb-article": "QB-article",
    "ta-feng": "Ta Feng",
}


def published(table):
    """Returns the values of a published table with their standard deviations, by arm and figure."""
    for arm, values in table["arms"].items():
        for figure, value in zip(table["figures"], values if isinstance(values, list) else [values]):
            mean, _, deviation = str(value).partition(" ± ")
            if mean != "-":
                yield (arm, figure), (float(mean), float(deviation) if deviation else None)


class Unexplained(Exception):
    """Says which values differ from the paper's without an explanation."""


class Pool:
    """Holds a study with one pool of negatives: its arms, the published values, and the results that are there."""

    def __init__(self, study, pool):
        self.name = f"{study}-{pool}"
        # The study with the other pool includes that with the papers' own.
        file = tomllib.loads((HERE / f"{study}-unrated.toml").read_text())
        self.arms = [arm["name"] for arm in file["arms"]]
        self.published = dict(value for table in file.get("references", []) for value in published(table))
        self.folders = sorted(folder for folder in REPORTS.glob(f"{self.name}*") if (folder / "summary.csv").exists())
        self.values = {}
        self.has_failed = set()
        for folder in self.folders:
            self.read(folder)

    def read(self, folder):
        """Takes in the results of a folder. Refuses a figure that differs from that of the same arm in another one."""
        with (folder / "summary.csv").open() as lines:
            for row in csv.DictReader(lines):
                key = (row["arm"], row["figure"])
                if not row["mean"]:
                    continue
                value = float(row["mean"])
                if row["figure"] in dict(FIGURES) and self.values.get(key, value) != value:
                    raise SystemExit(f"{folder.name}: {key} is {value}, and {self.values[key]} in another folder")
                self.values[key] = value
        failed = (folder / "study.md").read_text().partition("## Runs that failed\n")[2].split("\n## ")[0]
        rows = (line.strip("| ").split(" | ") for line in failed.splitlines() if line.startswith("| "))
        self.has_failed |= {cells[0] for cells in rows} & set(self.arms)

    def spent(self, arm):
        """Returns the bytes up and down until 95 % of the arm's own best figure, or none."""
        up = self.values.get((arm, "up_bytes_to_95_percent_of_own_best"))
        both = self.values.get((arm, "bytes_to_95_percent_of_own_best"))
        return (None, None) if up is None or both is None else (up, both - up)


def data_of(arm):
    """Splits the name of an arm into its data set, which is empty where all arms share it, and the rest."""
    parts = [part.strip() for part in arm.split(",")]
    data = next((part.removeprefix("data=") for part in parts if part.startswith("data=")), "")
    rest = ", ".join(part.removeprefix("method=") for part in parts if not part.startswith("data="))
    return data, rest


def size(count):
    """Returns a number of bytes in words, with three digits."""
    if count is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.3g} {unit}" if count < 99.5 else f"{count:.0f} {unit}"
        count /= 1000
    raise AssertionError


def number(value):
    return "-" if value is None else f"{value:.3f}"


def is_far(ours, value, deviation):
    return abs(ours - value) > (TOLERANCE if deviation is None else 2 * deviation)


def figure_cells(pools, arm, figure, far):
    """Returns the paper's value, ours, the difference and ours under the honest protocol. Notes in `far` what is far."""
    leaking, honest = pools
    published = leaking.published.get((arm, figure))
    ours, other = (pool.values.get((arm, figure)) for pool in pools)
    cells = ["-" if published is None else number(published[0])]
    nothing = "not run"
    if arm in leaking.has_failed:
        nothing = "failed"
    elif data_of(arm)[0] and not has_data(pools, arm):
        nothing = "no data"
    cells.append(nothing if ours is None else number(ours))
    if published is None or ours is None:
        cells.append("-")
    else:
        mark = is_far(ours, *published)
        cells.append(f"{ours - published[0]:+.3f}{' *' if mark else ''}")
        if mark:
            far.append((arm, f"{figure} {ours:.3f} instead of {published[0]:.3f}"))
    missing = "failed" if arm in honest.has_failed else nothing
    return [*cells, missing if other is None else number(other)]


def has_data(pools, arm):
    """Returns whether something was run on the arm's data set."""
    data = data_of(arm)[0]
    return any(data_of(known)[0] == data for pool in pools for known, _ in pool.values)


def table(pools, data, far):
    """Returns the lines of the table of one data set."""
    header = ["paper", "ours", "difference", "ours, honest"]
    lines = [
        "| | " + " | ".join(f"{label}, {column}" for _, label in FIGURES for column in header) + " | up | down |",
        "|---|" + "---:|" * (len(FIGURES) * len(header) + 2),
    ]
    for arm in pools[0].arms:
        arm_data, label = data_of(arm)
        if arm_data != data:
            continue
        cells = [cell for figure, _ in FIGURES for cell in figure_cells(pools, arm, figure, far)]
        cells += map(size, pools[1].spent(arm))
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def explained(explanations, study, data, far, missing):
    """Returns the explanations of the values that are far from the paper's, and adds those without one to `missing`."""
    found = []
    for arm, what in far:
        label = data_of(arm)[1]
        fitting = [
            e
            for e in explanations
            if e["study"] == study and e.get("data", data) == data and label in e["arms"]
        ]
        if not fitting:
            missing.append(f"{study}: {arm}: {what}")
        found += [e for e in fitting if e not in found]
    return [f"- **{', '.join(e['arms'])}**: {e['text'].strip()}" for e in found]


def links(pools):
    """Returns links to everything in the folders of a section."""
    lines = []
    for pool in pools:
        for folder in pool.folders:
            files = sorted(file.name for file in folder.iterdir() if file.suffix in (".csv", ".svg"))
            parts = [f"[{folder.name}]({folder.name}/study.md)"] + [f"[{name}]({folder.name}/{name})" for name in files]
            lines.append("- " + ", ".join(parts))
    return lines


def section(entry, explanations):
    """Returns the lines of one table or figure of a paper. A section without a study is its text alone."""
    lines = [f"## {entry['title']}", "", entry["text"].strip(), ""]
    study = entry.get("study")
    if study is None:
        return lines
    pools = [Pool(study, pool) for pool in POOLS]
    data_sets = dict.fromkeys(data_of(arm)[0] for arm in pools[0].arms)
    missing = []
    for data in data_sets:
        far = []
        if data:
            lines += [f"**{DATA[data]}**", ""]
        lines += [*table(pools, data, far), ""]
        sentences = explained(explanations, study, data, far, missing)
        lines += [*sentences, ""] if sentences else []
    if missing:
        raise Unexplained("\n".join(missing))
    lines += [*links(pools), "", "```sh", f"fedrecsim study studies/papers/{study}-unrated.toml --seeds 1"]
    lines += [f"fedrecsim study studies/papers/{study}-not-in-train.toml --seeds 1", "```", ""]
    return lines


def page():
    content = tomllib.loads((REPORTS / "text.toml").read_text())
    lines = [content["head"].strip(), ""]
    explanations, faults = content["explanations"], []
    for entry in content["sections"]:
        try:
            lines += section(entry, explanations)
        except Unexplained as fault:
            faults.append(str(fault))
    if faults:
        raise Unexplained("\n".join(faults))
    return "\n".join(lines).rstrip() + "\n"


def with_one_picture(text, picture):
    """Returns the page of a study with this one of its pictures."""
    others = re.compile(rf"^!\[[^]]*\]\((?!{re.escape(picture)}).*\)\n\n?", re.MULTILINE)
    return others.sub("", text).rstrip() + "\n"


def take(folder):
    """Copies the tables of a study to the folder of its name, with the picture that the page links to and no other."""
    target = REPORTS / folder.name
    target.mkdir(exist_ok=True)
    for name in ("summary.csv", PICTURE):
        # A study of a single arm may have no picture.
        if (folder / name).exists():
            shutil.copy(folder / name, target / name)
    (target / "study.md").write_text(with_one_picture((folder / "study.md").read_text(), PICTURE))


def main():
    path = REPORTS / "README.md"
    if "--take" in sys.argv[1:]:
        for folder in sys.argv[sys.argv.index("--take") + 1 :]:
            take(Path(folder))
    try:
        text = page()
    except Unexplained as fault:
        sys.exit(f"these differ from the paper, and text.toml has no explanation:\n{fault}")
    if "--check" in sys.argv[1:]:
        if path.read_text() != text:
            sys.exit(f"{path} is not what its results and text.toml say; write it with {Path(__file__).name}")
        return
    path.write_text(text)


if __name__ == "__main__":
    main()
