#!/usr/bin/env python3
"""Writes reports/privacy/sums.md: what can be learned from nothing but sums with noise.

    python3 studies/private-sums.py [OUT ...]
    python3 studies/private-sums.py --check

Each OUT is the folder of a run of `studies/private-sums.toml` with arms of one data set: all of them, or those without FedSpec,
FedGram and FedMF, which go to a folder of their own. Tables are copied without figures that no page shows, and the page is
written from the copies. With `--check` nothing is written, and the page must equal what would be written. An arm that is
missing, has not run with every seed, or has another epsilon than its name says is refused, and so are figures of which the
page's own sentences are not true.
"""

import collections
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
    "fcf": "FCF",
    "fedmf": "FedMF",
    "popularity": "popularity",
    "random": "random",
}
LEVELS = {"none": "no noise", "clip alone": "clip alone", "14.1": "epsilon 14.1", "4.7": "epsilon 4.7", "2.2": "epsilon 2.2"}
LEVELS_OF = {"random": ["none"], "fedspec with damping": ["4.7"], "fedspec with twice the steps": ["4.7"]}
OTHERS = {
    "pfedrec": "PFedRec",
    "colr": "CoLR",
    "fedrecon": "FedRecon",
    "fedncf": "FedNCF",
    "metamf": "MetaMF",
    "fedrap": "FedRAP",
}
RATINGS = {
    "fedrec-pmf": "FedRec, PMF",
    "fedrec-svdpp": "FedRec, SVD++",
    "fedpergnn": "FedPerGNN",
    "user-mean": "mean of the user",
}
LEVELS_OF_OTHERS = {"none": "no noise", "clip alone": "clip alone", "4.7": "noise as for 4.7"}
# A run whose arms have none of these is one of the other methods.
FIRST = {"fedspec", "fedgram", "fedmf"}
OTHERS_ON = "ml-100k"
# Its clients ask a third party.
WITHOUT_EPSILON = {"fedpergnn"}
UNTRAINED = {"popularity", "random", "user-mean"}
# Without noise, which keeps counts from being small, its settings with noise diverge.
DIVERGES = {("fedrec-pmf", "clip alone")}
SEEDS = 5
FIGURES = {"expected-ndcg@10": "NDCG@10", "expected-hr@10": "HR@10"}
AUDIT = {
    "audit_auc": "AUC, one upload",
    "audit_precision": "precision, one upload",
    "audit_linked_auc": "AUC, all uploads",
    "audit_linked_precision": "precision, all uploads",
}
KEPT = [*FIGURES, "rmse", "hr@10", "ndcg@10", "validation-expected-ndcg@10", "epsilon", *AUDIT, "up_bytes", "down_bytes"]
PICTURE = "accuracy-by-round.svg"

HEAD = """# What can be learned from sums with noise?

[Back to the page on privacy](README.md) · [the mechanisms](../../docs/reference/privacy.md) · [what holds](../../docs/findings/sums-with-noise.md)

Users trust the server, or each other's devices and a secure sum that adds the noise in its place, and nobody who sees the
model. What each of them contributes to a step is clipped, and the sum of everybody has Gaussian noise. Servers use nothing but
that sum: FedSpec, FedGram and FedRec send counts (`sends_counts`), and FedRecon, MetaMF and FedPerGNN no weight
(`equal_weights`). The exception is MetaMF's server, which makes a sum of gradients by itself, so that no secure sum can stand
in for it. Figures are expected ones under `not-in-train` after the last step, and where ratings are predicted those of part 0
of five. They are means over five seeds with the 95 % interval of Student's t. Epsilon is that of the whole run, at a delta of
1e-5, for a user with all ratings (`add-or-remove`), with everybody in every step.

What the figures do not show:

- **No epsilon here counts the choice of settings**, which looked at the ratings of the same users: the best of 300 tries for
  FedSpec and of 60 for FedMF on MovieLens 100K. Had the search been randomised so that an epsilon could count it, 4.7 would
  be 8.5 to 9.5.
- The searches are unequal, so that the tables do not rank methods.
- Intervals are over seeds, with the users fixed. Over users an absolute NDCG@10 has ±.020, and what is "above" or "below"
  here is so over seeds.
- Where items are ranked, each user's last rating is held out. About nine of ten come [within a day](../leave-one-out/README.md)
  of the user's rating before. FedSpec, FedGram and FCF have recency and the others do not, so that their lead may come from
  such sessions.
- "Popularity" counts all ratings. That of the last 30 days was not tried.

What they show, with these settings and in this split:

{bullets}

Settings with noise were chosen by the validation figure of seed 11 at 4.7 (FedRec's and FedPerGNN's by the error on part 4),
and no epsilon here includes that choice. On MovieLens 100K they are the best of 60 for FedMF, 300 for FedSpec, 440 for
FedGram and {fcf_100k} for FCF, and on 1M of 20, 45, 30 and {fcf_1m}: clip, steps and latent dimension; FedSpec's damping,
timeless share and weight of popularity; FedGram's regulariser, weights and initial length; FedMF's rates; FCF's recency,
confidence, rate, regulariser and initial length. Those of FCF and of the methods at the end are [in a table](sums-tried.csv);
lists of the others were not kept. The column "clip alone" has these settings with next to no noise. The column "no noise" has
no clip either, and the settings of the [tables without noise](../leave-one-out/README.md), which judge by the best validation
round where this page takes the last one. FCF has 32 dimensions, 40 rounds and our recency there, which were not searched for.
The row "popularity" is with noise the popularity that FedGram counts, with one clip that every contribution exceeds. Each of
a user's items counts about one over the root of their number there, and one without noise.
"""

TAIL = """
```sh
for data in {datas}; do fedrecsim study studies/private-sums.toml --arms data=$data --out out/$data; done
python3 studies/private-sums.py {outs}
```
"""


def rows(file):
    """Returns the rows of a summary by arm and figure."""
    with open(file, newline="") as lines:
        return {(row["arm"], row["figure"]): row for row in csv.DictReader(lines)}


def mean(row):
    """Returns the mean of a row; None if there is no row or no value in it."""
    return float(row["mean"]) if row and row["mean"] else None


def arm_of(data, method, level):
    """Returns the name of an arm."""
    return f"data={data}, method={method}, epsilon={level}"


def checked(found, arm, figure):
    """Returns the row of an arm, which must have a value and have run with every seed."""
    row = found.get((arm, figure))
    if mean(row) is None:
        sys.exit(f"{arm} has no {figure}")
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
    """Returns the epsilon of an arm, which must be that of its name, or none where the method has none."""
    if level == "none" or any(f"method={method}," in arm for method in WITHOUT_EPSILON):
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
    """Returns the table of what uploads tell, one row for each arm that sends some; each must tell nearly all."""
    page = ["| what uploads tell the server | epsilon | " + " | ".join(AUDIT.values()) + " |"]
    page.append("|---|" + "---:|" * (1 + len(AUDIT)))
    for method, name in METHODS.items():
        for level, title in LEVELS.items():
            arm = arm_of(data, method, level)
            sends = method not in UNTRAINED or (method == "popularity" and level != "none")
            if level not in LEVELS_OF.get(method, LEVELS) or not sends:
                continue
            figures = [mean(checked(found, arm, figure)) for figure in AUDIT]
            if figures[0] < 0.9 or figures[2] < 0.98:
                sys.exit(f"{arm}: uploads tell less than the page says")
            cells = [epsilon(found, arm, level), *(f"{figure:.3f}" for figure in figures)]
            page.append("| " + " | ".join([f"{name}, {title}", *cells]) + " |")
    return page


def others(data, found):
    """Returns the tables of the other methods: accuracy or error by level, and what uploads tell in each arm that sends some."""
    page = []
    for names, figure, title in ((OTHERS, "expected-ndcg@10", "NDCG@10"), (RATINGS, "rmse", "RMSE")):
        page.append("| " + " | ".join(["", title, "epsilon", *AUDIT.values()]) + " |")
        page.append("|---|" + "---:|" * (2 + len(AUDIT)))
        for method, name in names.items():
            for level, words in LEVELS_OF_OTHERS.items():
                arm = arm_of(data, method, level)
                if method in UNTRAINED and level != "none":
                    continue
                if (method, level) in DIVERGES:
                    if (arm, figure) in found:
                        sys.exit(f"{arm} has run, and the page says that it cannot")
                    continue
                own = level == "none" and method in WITHOUT_EPSILON
                words = "its own noise alone" if own else words
                cells = [accuracy(checked(found, arm, figure)), epsilon(found, arm, level)]
                cells += ["-" if method in UNTRAINED else f"{mean(checked(found, arm, key)):.3f}" for key in AUDIT]
                page.append("| " + " | ".join([f"{name}, {words}", *cells]) + " |")
        page.append("")
    return page


def section(data, found):
    """Returns the part of the page on a data set with these rows."""
    links = [f"[All tables](sums-{data}/study.md) · [course](sums-{data}/{PICTURE})"]
    if len(folders_of(data)) > 1:
        links.append(f"[tables of the methods that were run later](sums-{data}-others/study.md)")
        links.append(f"[their course](sums-{data}-others/{PICTURE})")
    page = [f"\n## {TITLES[data]}\n", " · ".join(links) + "\n"]
    page += accuracies(data, found)
    page.append(BETWEEN)
    page += audits(data, found)
    if data == OTHERS_ON:
        page += [BEFORE_OTHERS, *others(data, found)[:-1]]
    return page


def take(data, methods, folder):
    """Copies the tables of a study to the folder of its data set and methods. A run of all methods replaces both folders."""
    target = HERE / (f"sums-{data}" if methods & FIRST else f"sums-{data}-others")
    if methods >= FIRST | {"fcf"}:
        shutil.rmtree(HERE / f"sums-{data}-others", ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / PICTURE, target / PICTURE)
    (target / "study.md").write_text(with_one_picture((folder / "study.md").read_text(), PICTURE))
    with open(folder / "summary.csv", newline="") as lines, open(target / "summary.csv", "w", newline="") as out:
        reader = csv.DictReader(lines)
        writer = csv.DictWriter(out, reader.fieldnames, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in reader if row["figure"] in KEPT and row["mean"])


BETWEEN = """Epsilon is towards those who see the model, and the other columns are what the server itself can read: the chance
that a rated item is ranked above another one (.5 is a guess) and the share of rated items among as many guesses. The higher
they are, the more uploads tell.
"""

BEFORE_OTHERS = """
Every other federated method. Without noise it has the settings of its own scenario (FedRec in batches of all users, PFedRec and
FedRec 60 rounds, MetaMF and FedPerGNN with cohorts of 32 users). FedRec and FedPerGNN predict ratings and have an error instead.
Where there is noise, FedPerGNN's own is off; no epsilon holds for it, since its clients ask a third party. FedRec with PMF has
one dimension and a rate that falls slowly where there is noise, which keeps the counts that it divides by from being small.
Without noise it diverges so, and has no row of the clip alone (`run scenarios/ml100k-fedrec-pmf.toml --set
method.fedrec-pmf.latent_dimension=1 --set method.fedrec-pmf.learning_rate_decay=0.97`).
"""

AFTER = """
So the noise hides nothing from the server: one upload of the methods of the first tables tells it what was rated with an AUC of
.9 or more, and all uploads of a user with .98 or more, whatever the noise. A secure sum hides single uploads from it, at the
[bytes](../leave-one-out/README.md) of the dense sums, and leaves it the sum of all, which the secure sum must add the noise
to if the server is not trusted. Nothing here measures what can be read out of a model that noise protects, which epsilon
bounds.
"""


def arms_of(folder):
    """Returns the data set and the methods of the arms that a study has run, which must be one data set that the page has."""
    arms = [arm.split(", ") for arm, _ in rows(folder / "summary.csv")]
    data = {arm[0].removeprefix("data=") for arm in arms}
    if len(data) != 1 or not data <= set(TITLES):
        sys.exit(f"{folder} has arms of {', '.join(sorted(data))} instead of one data set of {', '.join(TITLES)}")
    return data.pop(), {arm[1].removeprefix("method=") for arm in arms}


def folders_of(data):
    """Returns the folders that have tables of a data set."""
    both = (HERE / f"sums-{data}", HERE / f"sums-{data}-others")
    found = [folder for folder in both if (folder / "summary.csv").exists()]
    if not found:
        sys.exit(f"there is no {both[0]}, which comes from a run of studies/private-sums.toml with --arms data={data}")
    return found


def rows_of(data):
    """Returns the rows of all runs on a data set. An arm that is in two must have the same figures."""
    found = {}
    for folder in folders_of(data):
        for key, row in rows(folder / "summary.csv").items():
            if key in found and found[key]["mean"] != row["mean"]:
                sys.exit(f"{key[0]} has two values of {key[1]}")
            found[key] = row
    return found


def relation(found, arms, figure):
    """Returns whether the interval of the first arm is above, below or across that of the second one."""
    (low, high), (other_low, other_high) = (
        (float(row["interval_low"]), float(row["interval_high"])) for row in (checked(found, arm, figure) for arm in arms)
    )
    return "above" if low > other_high else "below" if high < other_low else "across"


# Method, level and method of a comparison on a data set, with how the intervals of NDCG@10 and of HR@10 lie to each other.
SAID = {
    "ml-1m": [
        ("fcf", "4.7", "fedspec", ("above", "above")),
        ("fcf", "2.2", "fedspec", ("above", "above")),
        ("fcf", "4.7", "fedgram", ("above", "above")),
        ("fcf", "2.2", "fedgram", ("above", "above")),
        ("fcf", "14.1", "fedspec", ("below", "above")),
        ("fedspec", "2.2", "popularity", ("above", "above")),
        ("fedgram", "2.2", "popularity", ("above", "above")),
        ("fedmf", "4.7", "popularity", ("above", "above")),
        ("fedspec", "none", "fcf", ("above", "above")),
    ],
    "ml-100k": [
        ("fcf", "14.1", "fedspec", ("across", "across")),
        ("fcf", "4.7", "fedspec", ("across", "across")),
        ("fcf", "4.7", "fedgram", ("across", "across")),
        ("fcf", "4.7", "popularity", ("above", "above")),
        ("fcf", "2.2", "popularity", ("above", "across")),
        ("fedspec", "2.2", "popularity", ("across", "across")),
        ("fedgram", "2.2", "popularity", ("across", "below")),
        ("fedmf", "4.7", "popularity", ("below", "below")),
        ("fedspec", "none", "fcf", ("above", "above")),
    ],
}
BULLETS = """- **On MovieLens 1M FCF has the highest figures at 4.7 and 2.2**: a published method whose devices send one table of gradients
  and whose server steps by Adam, here with our recency on the device. At 14.1 there is no order: FedSpec has {at_14} more
  NDCG@10, and FCF the higher HR@10. FedSpec, FedGram and FCF are above popularity at every epsilon.
- On MovieLens 100K the intervals of FCF, FedSpec and FedGram overlap at 4.7, above popularity. At 2.2 only FCF is above it, by
  {at_2} of NDCG@10 and not by HR@10. That is less than the ±.020 that an absolute figure has over users.
- Of the methods that average what devices have trained, none is above popularity at 4.7 on MovieLens 100K. On 1M FedMF is, the
  only one of them that was run there.
- FedRec with PMF has an error at 4.7 that is {difference} from that of the mean of the user ({low} to {high}); that of the
  other methods that predict ratings is larger."""


def of_two(found, data, level, method, other):
    """Returns by how much a method has more NDCG@10 than another one, both at the same level."""
    one, two = (mean(checked(found, arm_of(data, name, level), "expected-ndcg@10")) for name in (method, other))
    return f"{one - two:.3f}"


def bullets(of_data):
    """Returns what the page says first, of rows by data set, after checking that they say so."""
    for data, comparisons in SAID.items():
        for method, level, other, expected in comparisons:
            arms = [arm_of(data, name, level) for name in (method, other)]
            is_so = tuple(relation(of_data[data], arms, figure) for figure in FIGURES)
            if is_so != expected:
                sys.exit(f"{arms[0]} is {is_so} {arms[1]}, and the page says {expected}")
    found = of_data[OTHERS_ON]
    for method in OTHERS:
        arms = [arm_of(OTHERS_ON, name, "4.7") for name in (method, "popularity")]
        if relation(found, arms, "expected-ndcg@10") == "above":
            sys.exit(f"{arms[0]} is above popularity, and the page says that none is")
    trained = [method for method in RATINGS if method not in UNTRAINED]
    errors = {method: mean(checked(found, arm_of(OTHERS_ON, method, "4.7"), "rmse")) for method in trained}
    if min(errors, key=errors.get) != "fedrec-pmf":
        sys.exit("another method than FedRec with PMF has the smallest error at 4.7")
    row = checked(found, arm_of(OTHERS_ON, "fedrec-pmf", "4.7"), "rmse")
    difference, low, high = (f"{float(row[key]):+.3f}" for key in ("difference", "difference_low", "difference_high"))
    at_14 = of_two(of_data["ml-1m"], "ml-1m", "14.1", "fedspec", "fcf")
    at_2 = of_two(found, OTHERS_ON, "2.2", "fcf", "popularity")
    return BULLETS.format(difference=difference, low=low, high=high, at_14=at_14, at_2=at_2)


def tried():
    """Returns how many settings of each data set and method were tried, of the methods that have a table of them."""
    with open(HERE / "sums-tried.csv", newline="") as lines:
        return collections.Counter((row["data"], row["method"]) for row in csv.DictReader(lines))


def main():
    """Copies what is named, and writes or checks the page."""
    arguments = sys.argv[1:]
    check = arguments == ["--check"]
    if not check and any(argument.startswith("-") for argument in arguments):
        sys.exit(__doc__)
    for folder in [] if check else map(Path, arguments):
        take(*arms_of(folder), folder)
    settings = tried()
    of_data = {data: rows_of(data) for data in TITLES}
    counts = {"fcf_100k": settings["ml-100k", "fcf"], "fcf_1m": settings["ml-1m", "fcf"]}
    page = [HEAD.format(bullets=bullets(of_data), **counts).rstrip("\n")]
    for data in TITLES:
        page += section(data, of_data[data])
    page.append(AFTER.rstrip("\n"))
    page.append(TAIL.format(datas=" ".join(TITLES), outs=" ".join(f"out/{data}" for data in TITLES)))
    text, path = "\n".join(page), HERE / "sums.md"
    if not check:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit(f"{path} is not what {sys.argv[0]} writes")


if __name__ == "__main__":
    main()
