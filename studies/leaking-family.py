#!/usr/bin/env python3
"""Writes the tables and the verdicts of docs/findings/leaking-family.md from the figures in reports/leaking-family.

    python3 studies/leaking-family.py           writes them between the two marks of the page
    python3 studies/leaking-family.py OUT       first takes the figures from this folder of a run of a study
    python3 studies/leaking-family.py --check   fails if the page has others, and writes nothing
"""

import csv
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
PAGE, FIGURES_OF = HOME / "docs/findings/leaking-family.md", HOME / "reports/leaking-family"
BEGIN, END = "<!-- written by studies/leaking-family.py -->\n", "<!-- end -->\n"
# Methods whose own server takes the mean of what devices send.
TAKES_THE_MEAN = {"feddad"}
POOLS, SERVERS = ("unrated", "symmetric", "not-in-train"), ("its own", "none", "mean")
# What a verdict takes.
JUDGED = [("unrated",), ("unrated", "none"), ("not-in-train",), ("not-in-train", "none"), ("not-in-train", "mean")]
PLAIN_MEAN = "fedca, own_share=0, negatives=not-in-train, server=mean"
GRAPHS = {"": "graph of its code", "paper": "graph of its paper", "random": "random graph"}
BYTES = "bytes_to_95_percent_of_own_best"
FIGURES, COLUMNS = ("hr@10", "ndcg@10", BYTES), ("arm", "seed", "figure", "value")


@dataclass
class Study:
    """A study, what it runs, and the difference of HR@10 below which its users cannot tell two figures apart."""

    name: str
    title: str
    methods: dict
    level: float

    def csv(self):
        return FIGURES_OF / f"{self.name}.csv"

    def has(self, arm):
        """Returns whether an arm is of a method of this study."""
        return any(arm.startswith((f"method={method},", f"{method}, ")) for method in self.methods)

    def lead(self, own, other):
        """Returns how far the figures of an arm are ahead of another's, or 0 if no difference is shown: none as large
        as this many users can show, or not the same sign in every seed. Means are rounded, so that differences are
        those of the page."""
        lead = mean(own) - mean(other)
        is_same = all((own[seed] - other[seed]) * lead > 0 for seed in own)
        return lead if abs(lead) >= self.level and is_same else 0

    def against(self, own, other, name):
        """Says how the figures of an arm stand to another's."""
        other = of_seeds(other, own)
        lead = self.lead(own, other)
        if not lead:
            return f"level with {name} ({short(mean(other))})"
        return f"{short(abs(lead))} {'more' if lead > 0 else 'less'} than {name} ({short(mean(other))})"


STUDIES = [
    Study(
        "leaking-family",
        "All 943 users, 100 rounds",
        {"gpfedrec": "GPFedRec", "fedca": "FedCA", "fedem": "FedEM", "fedea": "FedEA", "feddad": "FedDAD"},
        0.03,
    ),
    Study(
        "leaking-clusters",
        "200 users, drawn at random, 50 rounds",
        {"cofedrec": "CoFedRec", "cgfedrec": "CGFedRec"},
        0.07,
    ),
]


def rows_of(path):
    """Returns the values in a file, by arm, figure and seed."""
    with open(path, newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["figure"] in FIGURES and row["value"]]
    return {(row["arm"], row["figure"], int(row["seed"])): row["value"] for row in rows}


def take(folder):
    """Writes the figures of a run of a study to the file of that study. What it has not run keeps its figures."""
    found = rows_of(folder / "study.csv")
    study = next((study for study in STUDIES if any(study.has(arm) for arm, _, _ in found)), None)
    if study is None:
        sys.exit(f"{folder} has no figure of a study of this page")
    rows = rows_of(study.csv()) | found if study.csv().exists() else found
    # The arms stay in their order, and the seeds of an arm stand together.
    order = list(dict.fromkeys((arm, figure) for arm, figure, _ in rows))
    with open(study.csv(), "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for arm, figure, seed in sorted(rows, key=lambda row: (order.index(row[:2]), row[2])):
            writer.writerow((arm, seed, figure, rows[arm, figure, seed]))


def mean(by_seed):
    """Returns the mean of an arm's figures, rounded as the page has it."""
    return round(sum(by_seed.values()) / len(by_seed), 3)


def of_seeds(by_seed, seeds):
    """Returns the figures of these seeds."""
    lacking = sorted(set(seeds) - by_seed.keys())
    if lacking:
        sys.exit(f"an arm that others are compared to lacks the seeds {lacking}; run it with them")
    return {seed: by_seed[seed] for seed in seeds}


def figures(study, figure):
    """Returns a figure of all arms of a study, by arm and seed."""
    found = {}
    for (arm, of, seed), value in rows_of(study.csv()).items():
        if of == figure:
            found.setdefault(arm, {})[seed] = float(value)
    return found


def arm(method, negatives, server="its own"):
    return f"method={method}, negatives={negatives}, server={server}"


def short(value):
    return f"{value:.3f}".removeprefix("0")


def wrapped(text):
    return textwrap.wrap(text, 120, subsequent_indent="  ")


def not_run(study, hr):
    """Says which combinations of the study have no figure."""
    told = []
    for negatives in POOLS:
        for server in SERVERS:
            methods = [m for m in study.methods if server != "mean" or m not in TAKES_THE_MEAN]
            lacking = [study.methods[m] for m in methods if arm(m, negatives, server) not in hr]
            if lacking:
                who = "all" if len(lacking) == len(methods) else joined(lacking)
                told.append(f"`{negatives}` with the server *{server}* ({who})")
    return f"Not run, though the study has it: {', '.join(told)}." if told else ""


def compared(method, hr):
    """Returns what stands beside a method without the leak, with the name of each."""
    beside = [(hr["popularity"], "popularity"), (hr[arm(method, "not-in-train", "none")], "nothing shared")]
    if method not in TAKES_THE_MEAN:
        beside.append((hr[arm(method, "not-in-train", "mean")], "a server that takes the mean"))
    return [*beside, (hr["fedmf, negatives=not-in-train"], "FedMF")]


def verdict(study, method, hr):
    """Says how a method stands with the leak and without it."""
    leak, alone, honest = (hr[arm(method, *of)] for of in (("unrated",), ("unrated", "none"), ("not-in-train",)))
    beside = ", ".join(study.against(honest, *other) for other in compared(method, hr))
    with_leak = f"{short(mean(leak))} with the leak, and {short(mean(alone))} on devices that share nothing"
    taken = hr.get(arm(method, "unrated", "mean"))
    if taken and method not in TAKES_THE_MEAN:
        of = "" if taken.keys() >= leak.keys() else f"seed {joined([str(seed) for seed in taken])}: "
        with_leak += f" ({of}{short(mean(taken))} by a server that takes the mean)"
    return f"- **{study.methods[method]}**: {with_leak}. Without it {short(mean(honest))}: {beside}."


def seeds_of(study, hr):
    """Says how many seeds the figures of each method have."""
    by_count = {}
    for method, name in study.methods.items():
        same = [arm(method, negatives, "mean") for negatives in POOLS if method in TAKES_THE_MEAN]
        own = [len(by_seed) for of, by_seed in hr.items() if of.startswith(f"method={method},") and of not in same]
        if not own:
            continue
        by_count.setdefault((min(own), max(own)), []).append(name)
    told = [f"{joined(names)} {least} to {most}" if least < most else f"{joined(names)} {least}"
            for (least, most), names in by_count.items()]
    return f"Seeds: {', '.join(told)}."


def joined(names):
    """Returns names in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def table(study, figure, spent):
    """Returns the lines of the table of a figure of a study, with the bytes that were spent, if any are given."""
    found = figures(study, figure)

    def cell(name):
        return short(mean(found[name])) if name in found else "-"

    def ending(name):
        return [f"{mean(spent[name]) / 1e9:.1f} GB" if name in spent else "-"] if spent else []

    columns = [title for pool in ("its protocol", "symmetric", "on a device") for title in (pool, "none", "mean")]
    columns += ["bytes to 95 % of its own best"] if spent else []
    lines = [f"| {figure.upper()} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for method, name in study.methods.items():
        servers = [server for server in SERVERS if server != "mean" or method not in TAKES_THE_MEAN]
        cells = [cell(arm(method, pool, server)) if server in servers else "-" for pool in POOLS for server in SERVERS]
        lines.append(f"| {name} | {' | '.join(cells + ending(arm(method, 'not-in-train')))} |")
    for name in ("fedmf, negatives=not-in-train", "popularity"):
        title = name.split(",")[0].replace("fedmf", "FedMF")
        cells = ["-"] * 6 + [cell(name), "-", "-"]
        lines.append(f"| {title} | {' | '.join(cells + ending(name if title == 'FedMF' else ''))} |")
    return lines


def part(study):
    """Returns what the page says of a study, and the methods that are ahead of all that stands beside them."""
    hr, spent = figures(study, "hr@10"), figures(study, BYTES)
    lines = [f"**{study.title}:**", "", *table(study, "hr@10", spent), "", *table(study, "ndcg@10", {}), ""]
    lines += [*textwrap.wrap(seeds_of(study, hr), 120), ""]
    arms = {method: [arm(method, *of) for of in JUDGED] for method in study.methods}
    judged = [method for method in study.methods if all(name in hr for name in arms[method])]
    for method in judged:
        lines += wrapped(verdict(study, method, hr))
    if "fedca" in study.methods:
        by_itself = "FedCA whose devices go on from the mean itself (`own_share = 0`)"
        plain = f"{by_itself}: {short(mean(hr[PLAIN_MEAN]))}." if PLAIN_MEAN in hr else f"{by_itself} was not run yet."
        lines += ["", plain]
    lines += graphs(hr)
    told = not_run(study, hr)
    lines += ["", *textwrap.wrap(told, 120), ""] if told else [""]
    return lines, [method for method in judged if least_lead(study, method, hr) > 0]


def graphs(hr):
    """Returns the table of what GPFedRec has with other graphs, of the one seed that all of them were run with."""
    lines = ["", "| HR@10 of GPFedRec, seed 1 | its protocol | on a device |", "|---|---:|---:|"]
    for graph, title in GRAPHS.items():
        pools = ("unrated", "not-in-train")
        arms = [f"gpfedrec, graph={graph}, negatives={pool}" if graph else arm("gpfedrec", pool) for pool in pools]
        if any(name not in hr for name in arms):
            return []
        lines.append(f"| {title} | {' | '.join(short(hr[name][1]) for name in arms)} |")
    return lines


def least_lead(study, method, hr):
    """Returns how far a method is ahead without the leak of what comes nearest to it."""
    own = hr[arm(method, "not-in-train")]
    return min(study.lead(own, of_seeds(other, own)) for other, _ in compared(method, hr))


def page_part():
    """Returns what stands between the two marks."""
    lines, ahead = [], []
    for study in STUDIES:
        of_study, leading = part(study)
        lines += of_study
        ahead += leading
    all_methods = sum(len(study.methods) for study in STUDIES)
    count = f"{len(ahead) or 'none'} of {all_methods} methods {'is' if len(ahead) < 2 else 'are'}"
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
                sys.exit(f"{PAGE} is not what the figures say; write it with {Path(__file__).name}")
            return
        case [] | [_] as folders:
            for folder in folders:
                take(Path(folder))
            PAGE.write_text(page())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
