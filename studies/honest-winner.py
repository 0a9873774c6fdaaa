#!/usr/bin/env python3
"""Writes reports/honest-winner/README.md from the files beside it: what was searched, and what the study found.

    python3 studies/honest-winner.py                            writes the page
    python3 studies/honest-winner.py --check                    fails if the page is another one, and writes nothing
    python3 studies/honest-winner.py --searches OUT [OUT ...]   first takes the logs of these searches, and what they chose
    python3 studies/honest-winner.py --at CUT --searches OUT [OUT ...]   the same of searches at a later cut
    python3 studies/honest-winner.py --studies OUT [OUT ...]    first takes the tables of these studies
"""

import csv
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
REPORTS = HERE.parent / "reports" / "honest-winner"
SETTINGS = REPORTS / "settings.toml"
DATA = {
    "amazon": "Amazon Instant Video",
    "movietweetings": "MovieTweetings",
    "ml-1m": "MovieLens 1M",
    "ml-100k": "MovieLens 100K",
    "ml-latest-small": "MovieLens latest small",
}
# What a row of a log has. All further columns of a search are settings, which go into one.
LOGGED = ["arm", "trial", "state", "validation", "up_bytes", "down_bytes", "settings", "reason"]
LEFT_OUT = ["seed", "metric", "rounds", "selected_round", "virtual_time_s", "report"]
# The columns of a study's tables that the page shows.
KEPT = ["arm", "figure", "runs", "mean", "users_low", "users_high", "difference", "difference_users_low"]
KEPT += ["difference_users_high", "difference_p_holm", "difference_shown"]
HEADLINE = "ndcg@10"


def parts(arm):
    """Returns data set, method and cut of an arm's name; the cut is empty for all cuts together."""
    data, rest = arm.removeprefix("data=").split(", method=", 1)
    method, _, cut = rest.partition(", cut=")
    return data, method, cut


def short(key):
    """Returns a key without the name of the method that it belongs to."""
    return key.split(".", 2)[2] if key.startswith("method.") else key


def read(path):
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


def write(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as lines:
        writer = csv.DictWriter(lines, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def take_searches(folders, cut):
    """Puts the trials of searches into the logs, in place of earlier ones of the same arms, and the chosen settings.
    A search at a later cut is for that cut alone."""
    logs, chosen = {}, {}
    for folder in map(Path, folders):
        for row in read(folder / "search.csv"):
            row["arm"] += cut
            if row["state"] != "not run":
                settings = [f"{short(key)} = {value}" for key, value in row.items() if value and key not in LOGGED + LEFT_OUT]
                row["settings"] = "; ".join(settings)
                logs.setdefault(parts(row["arm"])[0], {}).setdefault(row["arm"], []).append(row)
        if (folder / "chosen.toml").exists():
            found = tables((folder / "chosen.toml").read_text())
            chosen |= {arm + cut: table.replace(arm, arm + cut) for arm, table in found.items()}
    new = {data: set(arms) for data, arms in logs.items()}
    for data, arms in logs.items():
        path = REPORTS / f"search-{data}.csv"
        for row in read(path) if path.exists() else []:
            if row["arm"] not in new[data]:
                arms.setdefault(row["arm"], []).append(row)
        order = names()
        rows = [row for arm in sorted(arms, key=lambda arm: (order.index(parts(arm)[1]), arm)) for row in arms[arm]]
        write(path, LOGGED, rows)
    known = tables(SETTINGS.read_text()) if SETTINGS.exists() else {}
    text = "# What `fedrecsim search studies/honest-winner.toml` has chosen, by validation alone. The logs are beside this file.\n"
    SETTINGS.write_text(text + "".join(f"\n{table}" for _, table in sorted((known | chosen).items())))


def tables(text):
    """Returns the tables of chosen settings, each as its text, by arm."""
    found = {}
    for part in text.split("\n[arms.")[1:]:
        arm = part.split('"')[1]
        found[arm] = found.get(arm, "") + "[arms." + part.rstrip() + "\n\n"
    return {arm: table.rstrip() + "\n" for arm, table in found.items()}


def take_studies(folders):
    """Takes the columns that the page shows of the tables of studies, each with the arms of one data set."""
    for folder in map(Path, folders):
        for name in ("pooled.csv", "summary.csv"):
            rows = [row for row in read(folder / name) if row["runs"] != "0"]
            if rows:
                write(REPORTS / parts(rows[0]["arm"])[0] / name, KEPT, rows)


def names():
    """Returns the methods in the order of the study."""
    axes = tomllib.loads((HERE / "honest-winner.toml").read_text())["axes"]
    return [value["name"] for axis in axes if axis["name"] == "method" for value in axis["values"]]


def number(text, sign=""):
    """Returns a figure with three digits behind the point and no zero before it."""
    return format(float(text), f"{sign}.3f").replace("0.", ".") if text else "-"


def searched():
    """Returns the table of the best validation figures."""
    logs = {data: read(REPORTS / f"search-{data}.csv") for data in DATA if (REPORTS / f"search-{data}.csv").exists()}
    page = ["| method | " + " | ".join(f"[{DATA[data]}](search-{data}.csv)" for data in logs) + " |"]
    page.append("|---|" + "---:|" * len(logs))
    for method in names():
        cells = []
        for data, rows in logs.items():
            own = [row for row in rows if parts(row["arm"])[1:] == (method, "")]
            done = [float(row["validation"]) for row in own if row["validation"]]
            failed = sum(row["state"] == "failed" for row in own)
            cells.append((number(max(done)) if done else "-") + (f" ({failed} diverged)" if failed else ""))
        if any(cell != "-" for cell in cells):
            page.append(f"| {method} | " + " | ".join(cells) + " |")
    return page


def found(data):
    """Returns the tables of one data set: all cuts together, and each cut."""
    pooled = {(row["arm"], row["figure"]): row for row in read(REPORTS / data / "pooled.csv")}
    single = {(row["arm"], row["figure"]): row for row in read(REPORTS / data / "summary.csv")}
    cuts = sorted({parts(arm)[2] for arm, _ in single})
    page = [f"\n### {DATA[data]}\n"]
    page.append("| method | NDCG@10 | over users | minus decayed popularity | over users | p (Holm) | HR@10 | NDCG@10 at " + " | at ".join(cuts) + " |")
    page.append("|---|" + "---:|" * (6 + len(cuts)))
    for method in names():
        arm = f"data={data}, method={method}"
        row = pooled.get((arm, HEADLINE))
        if not row:
            continue
        low, high = (number(row[f"users_{end}"]) for end in ("low", "high"))
        away = "-"
        if row["difference"]:
            away = f"{number(row['difference_users_low'], '+')} to {number(row['difference_users_high'], '+')}"
        at = [number(single.get((f"{arm}, cut={cut}", HEADLINE), {}).get("mean", "")) for cut in cuts]
        difference = number(row["difference"], "+")
        if row["difference_shown"] in ("ahead", "behind"):
            difference = f"**{difference}**"
        hits = number(pooled.get((arm, "hr@10"), {}).get("mean", ""))
        cells = [number(row["mean"]), f"{low} to {high}", difference, away, number(row["difference_p_holm"]), hits, *at]
        page.append(f"| {method} | " + " | ".join(cells) + " |")
    return page


def page():
    """Returns the page: the text, with the tables in their places."""
    text = (REPORTS / "text.md").read_text()
    studied = [data for data in DATA if (REPORTS / data / "pooled.csv").exists()]
    results = [line for data in studied for line in found(data)]
    return text.replace("{searched}", "\n".join(searched())).replace("{found}", "\n".join(results).strip())


def main():
    arguments = sys.argv[1:]
    cut = ""
    if arguments[:1] == ["--at"]:
        cut, arguments = f", cut={arguments[1]}", arguments[2:]
    if arguments[:1] == ["--searches"]:
        take_searches(arguments[1:], cut)
    elif arguments[:1] == ["--studies"]:
        take_studies(arguments[1:])
    target = REPORTS / "README.md"
    if arguments == ["--check"]:
        if target.read_text() != page():
            sys.exit(f"{target} is not what {Path(__file__).name} writes")
        return
    target.write_text(page())


if __name__ == "__main__":
    main()
