#!/usr/bin/env python3
"""Writes reports/honest-winner/README.md from the files beside it: what was searched, and what the study found.

    python3 studies/honest-winner.py                            writes the pages
    python3 studies/honest-winner.py --check                    fails if a page is another one, or if README or findings have
                                                                other tables or sentences, and writes nothing
    python3 studies/honest-winner.py --searches OUT [OUT ...]   first takes the logs of these searches, and what they chose
    python3 studies/honest-winner.py --at CUT --searches OUT [OUT ...]   the same of searches at a later cut
    python3 studies/honest-winner.py --studies OUT [OUT ...]    first takes the tables of these studies, each of one data
                                                                set and with `--compare-to` method=fedtide and method=fedmf
    python3 studies/honest-winner.py --more OUT [OUT ...]       the same of studies with some of the arms, in place of what is
                                                                known of these
    python3 studies/honest-winner.py --codec NAME OUT [OUT ...]  first takes what studies at the first cut with seed 1 and
                                                                another codec have sent
    python3 studies/honest-winner.py --private --searches OUT [OUT ...], --private --studies OUT [OUT ...]   the same of
                                                                honest-winner-private.toml
    python3 studies/honest-winner.py --exchange                 first gives every data set of honest-winner-private.toml what
                                                                was chosen on another one
    python3 studies/honest-winner.py --elsewhere OUT [OUT ...]  first takes the tables of studies with these settings
    python3 studies/honest-winner.py --track NAME OUT [OUT ...]  first takes what studies with the same settings, at the first
                                                                cut, have found on another question, with differences of
                                                                studies with `--compare-to` method=fedtide
    python3 studies/honest-winner.py --without-cuts OUT [OUT ...]  first takes the tables of studies of data without cuts
    python3 studies/honest-winner.py --costly OUT [OUT ...]     first takes the figures of studies with honest-winner-costly.toml
    python3 studies/honest-winner.py --ours OUT [OUT ...]       first takes what studies of FedTide, its counts, the counts of
                                                                a server and our older methods have found, each of one data
                                                                set and with `--compare-to` both of OTHERS
"""

import csv
import json
import re
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
REPORTS = HERE.parent / "reports" / "honest-winner"
PRIVATE = REPORTS / "private"
CHOSEN = HERE / "chosen"
# Where a data set's settings come from if they are to cost its own users nothing.
ELSEWHERE = {"amazon": "movietweetings", "movietweetings": "ml-1m", "ml-1m": "amazon"}
# Studies of data sets that no instant divides.
WITHOUT_CUTS = {"ml-latest-small": "honest-winner-latest-small.toml", "lastfm-2k": "honest-winner-lastfm-2k.toml"}
DATA = {
    "amazon": "Amazon Instant Video",
    "movietweetings": "MovieTweetings",
    "ml-1m": "MovieLens 1M",
    "ml-100k": "MovieLens 100K",
    "ml-latest-small": "MovieLens latest small",
    "lastfm-2k": "LastFM-2K",
}
# What a row of a log has. All further columns of a search are settings, which go into one.
LOGGED = ["arm", "trial", "state", "validation", "up_bytes", "down_bytes", "settings", "reason"]
LEFT_OUT = ["seed", "metric", "rounds", "selected_round", "virtual_time_s", "report"]
# The tables of a study, their columns and the figures that the page shows.
TABLES = ["pooled.csv", "summary.csv", "pooled-against-method=fedtide.csv", "pooled-against-method=fedmf.csv"]
KEPT = ["arm", "figure", "runs", "mean", "users_low", "users_high", "difference", "difference_users_low"]
KEPT += ["difference_users_high", "difference_shown"]
HEADLINE = "ndcg@10"
SENT = [HEADLINE, "up_bytes", "down_bytes"]
# Methods with one round, whose one download is that of the model to score with.
SENT_ONCE = ["fedcia-gsp"]
FIGURES = [*SENT, "hr@10"]
FOUND = ["runs", "mean", "users_low", "users_high"]
TO_FEDTIDE = ["difference", "difference_users_low", "difference_users_high", "difference_shown"]
COUNTS_ALONE = "counts of fedtide"
# What further arms are compared with; their figures stay those of the whole study.
REFERENCES = ["popularity with decay", "fedtide", "fedmf"]
# What our own methods are compared with beside the rest, by a part of the methods: the name, as files of a study have it.
OTHERS = {COUNTS_ALONE: "counts-of-fedtide", "fedmf, softmax, times": "fedmf,softmax,times"}
COSTLY = "honest-winner-costly.toml"
TRACKS = {"all": "all items behind the first cut", "leave-one-out": "leave-one-out", "sessions": "leave-one-out by sessions"}
EPSILONS = ["epsilon 8", "epsilon 2"]
CODECS = {"f32": "f32", "int8": "8 bits", "dead-zone": "dead zone", "secure": "secure sum"}
# The kinds of methods. What none of them names is federated and published, with or without our weights of time.
COUNTS = ["popularity", "popularity of a window", "popularity with decay", "popularity of returning users"]
KINDS = {"count": "best count", "published": "best published federated method", "central": "best central method"}
OURS = ["fedspec", "fedspec, times", "fedgram", "fedgram, times", "fedgram, trained by time", COUNTS_ALONE, "fedtide"]
# The data sets and the rows of the table in README.
DATA_IN_README = ["movietweetings", "ml-1m", "amazon"]
IN_README = ["popularity", "popularity with decay: a count of what was taken lately"]
IN_README += ["the best of at least {} published federated methods, some with our weights of time", "FedTide, ours"]
# A figure in a text.
PLACE = r"\{([a-z0-9/-]+): ([^{}]+)\}"
# How findings call methods.
NAMES = {"privirec": "PriviRec", "ials": "iALS", "ease": "EASE", "fedmf": "FedMF", "fcf": "FCF", "fedtide": "FedTide"}
NAMES |= {"fedspec": "FedSpec", "fedgram": "FedGram", "counts of fedtide": "counts of FedTide"}


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


def take_searches(folders, cut, home=REPORTS):
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
        path = home / f"search-{data}.csv"
        for row in read(path) if path.exists() else []:
            if row["arm"] not in new[data]:
                arms.setdefault(row["arm"], []).append(row)
        order = names(home)
        rows = [row for arm in sorted(arms, key=lambda arm: (order.index(parts(arm)[1]), arm)) for row in arms[arm]]
        write(path, LOGGED, rows)
    by_study = {}
    for arm, table in chosen.items():
        study = study_of(home) if home != REPORTS else WITHOUT_CUTS.get(parts(arm)[0], study_of(home))
        by_study.setdefault(study, {})[arm] = table
    for study, found in by_study.items():
        settings = CHOSEN / study.replace(".toml", "-settings.toml")
        known = tables(settings.read_text()) if settings.exists() else {}
        search = f"fedrecsim search studies/{study}"
        text = f"# What `{search}` has chosen,\n# by validation alone. The logs are in reports/honest-winner.\n"
        settings.write_text(text + "".join(f"\n{table}" for _, table in sorted((known | found).items())))


def tables(text):
    """Returns the tables of chosen settings, each as its text, by arm."""
    found = {}
    for part in text.split("\n[arms.")[1:]:
        arm = part.split('"')[1]
        found[arm] = found.get(arm, "") + "[arms." + part.rstrip() + "\n\n"
    return {arm: table.rstrip() + "\n" for arm, table in found.items()}


def take_studies(folders):
    """Takes what the page shows of studies, each with the arms of one data set: of their tables, and of the splits."""
    for folder in map(Path, folders):
        for name in TABLES:
            rows = [row for row in read(folder / name) if row["runs"] != "0" and row["figure"] in FIGURES]
            data = parts(rows[0]["arm"])[0]
            write(REPORTS / data / name, KEPT, rows)
        runs = sorted(folder.glob("runs/*method=popularity,*/1/run.json"))
        splits = [split(json.loads(run.read_text())) for run in runs]
        write(REPORTS / data / "splits.csv", list(splits[0]), splits)


def take_without_cuts(folders):
    """Takes what the page shows of studies of data without cuts, each of one data set, with the differences to the arms
    that they were compared to."""
    for folder in map(Path, folders):
        for path in [folder / "pooled.csv", *folder.glob("pooled-against-*.csv")]:
            rows = [row for row in read(path) if row["runs"] != "0" and row["figure"] in (HEADLINE, "hr@10")]
            name = path.name.replace("pooled", "without-cuts")
            write(REPORTS / parts(rows[0]["arm"])[0] / name, KEPT, rows)


def take_more(folders):
    """Puts what the page shows of further arms into the tables. Their differences are corrected by the number of all
    methods (Bonferroni), since Holm's correction would need the figures of all studies at once."""
    for folder in map(Path, folders):
        for name in TABLES:
            rows = read(folder / name) if (folder / name).exists() else []
            new = {(row["arm"], row["figure"]): row for row in rows if row["runs"] != "0" and row["figure"] in FIGURES}
            data = next((parts(arm)[0] for arm, _ in new), None)
            if data:
                known = {(row["arm"], row["figure"]): row for row in read(REPORTS / data / name)}
                new = {key: row for key, row in new.items() if key not in known or parts(key[0])[1] not in REFERENCES}
                order = names()
                for row in new.values():
                    row["difference_shown"] = corrected(row, len(order) - 1)
                merged = (known | new).values()
                write(REPORTS / data / name, KEPT, sorted(merged, key=lambda row: order.index(parts(row["arm"])[1])))


def corrected(row, comparisons):
    """Returns the verdict on a difference after Bonferroni's correction for this number of comparisons."""
    is_lost = row["difference_p"] and float(row["difference_p"]) * comparisons > 0.05
    return "none shown" if is_lost else row["difference_shown"]


def take_private(folders, name="pooled.csv"):
    """Puts what the page shows of studies of sums with noise into the tables, each with arms of one data set. What the others
    differ from may be another figure now, so that their differences are left out."""
    for folder in map(Path, folders):
        rows = [row for row in read(folder / "pooled.csv") if row["runs"] != "0" and row["figure"] == HEADLINE]
        path = PRIVATE / parts(rows[0]["arm"])[0] / name
        differences = dict.fromkeys((column for column in KEPT if column.startswith("difference")), "")
        known = {row["arm"]: row | differences for row in (read(path) if path.exists() else [])}
        order = names(PRIVATE)
        merged = (known | {row["arm"]: row for row in rows}).values()
        write(path, KEPT, sorted(merged, key=lambda row: order.index(parts(row["arm"])[1])))


def exchange():
    """Writes the settings of ELSEWHERE."""
    found = tables((CHOSEN / "honest-winner-private-settings.toml").read_text())
    text = "# What `python3 studies/honest-winner.py --exchange` has made of honest-winner-private-settings.toml.\n"
    for data, other in ELSEWHERE.items():
        for arm, table in found.items():
            if parts(arm)[0] == other:
                text += "\n" + table.replace(f"data={other},", f"data={data},")
    (CHOSEN / "honest-winner-elsewhere-settings.toml").write_text(text)


def take_costly(folders):
    """Puts what the page shows of costly methods into the tables, each study with the arms of one data set. Their differences
    are corrected by the number of all of these methods (Bonferroni), as in `take_more`."""
    order = names(study=COSTLY)
    for folder in map(Path, folders):
        rows = [row for row in read(folder / "summary.csv") if row["runs"] != "0" and row["figure"] in (HEADLINE, "hr@10")]
        for row in rows:
            row["difference_shown"] = corrected(row, len(order) - 1)
        path = REPORTS / parts(rows[0]["arm"])[0] / "costly.csv"
        known = {(row["arm"], row["figure"]): row for row in (read(path) if path.exists() else [])}
        known |= {(row["arm"], row["figure"]): row for row in rows}
        write(path, KEPT, sorted(known.values(), key=lambda row: (order.index(parts(row["arm"])[1]), row["figure"])))


def take_ours(folders):
    """Takes how far our methods and the counts of a server are ahead of OTHERS, from studies of one data set each."""
    for folder in map(Path, folders):
        for other in OTHERS:
            found = next(folder.glob(against(other).replace(".csv", "*.csv")))
            rows = [row for row in read(found) if row["runs"] != "0" and row["figure"] == HEADLINE]
            write(REPORTS / parts(rows[0]["arm"])[0] / against(other), KEPT, rows)


def against(other):
    """Returns the name of the table with the differences to a method."""
    return f"pooled-against-method={OTHERS.get(other, other)}.csv"


def take_codec(codec, folders):
    """Takes accuracy and bytes at the first cut with seed 1, in place of earlier ones of the same method and codec."""
    new = {}
    for folder in map(Path, folders):
        for row in read(folder / "study.csv"):
            data, method, cut = parts(row["arm"])
            if (cut, row["seed"], row["state"]) != ("0.6", "1", "done") or kind(method) not in ("published", "ours"):
                continue
            figures = new.setdefault(data, {}).setdefault((method, codec), {})
            if row["figure"] in SENT:
                figures[row["figure"]] = row["value"]
            if row["figure"] == "inference_bytes" and method in SENT_ONCE:
                # Those who are tested have it; so would all others.
                size = json.loads((folder / row["report"] / "run.json").read_text())["size"]
                figures["down_bytes"] = round(float(row["value"]) / size["evaluated_users"] * size["users"])
    for data, rows in new.items():
        merge(data, "codec", rows, SENT)


def take_track(track, folders):
    """Takes accuracy of the arms of the first cut, in place of earlier ones of the same method and track."""
    for folder in map(Path, folders):
        to_fedtide = folder / "summary-against-method=fedtide.csv"
        rows = read(to_fedtide if to_fedtide.exists() else folder / "summary.csv")
        rows = [row for row in rows if row["figure"] == HEADLINE and row["runs"] != "0"]
        if not to_fedtide.exists():
            rows = [row | dict.fromkeys(TO_FEDTIDE, "") for row in rows]
        new = {(parts(row["arm"])[1], track): row for row in rows if parts(row["arm"])[2] == "0.6"}
        merge(parts(rows[0]["arm"])[0], "track", new, FOUND + TO_FEDTIDE)


def merge(data, of, new, columns):
    """Puts rows by method and codec or track into the table of a data set, in place of earlier ones."""
    path = REPORTS / data / f"{of}s.csv"
    known = {(row["method"], row[of]): row for row in read(path)} if path.exists() else {}
    known |= {key: {"method": key[0], of: key[1], **row} for key, row in new.items()}
    order = names()
    rows = sorted(known.values(), key=lambda row: (order.index(row["method"]), row[of]))
    write(path, ["method", of, *columns], rows)


def split(run):
    """Returns what a run says of its split."""
    size, kept = run["size"], run["size"]["split"]
    row = {"cut": run["scenario"]["dataset"]["split"]["global-time"]["cut"], "training_ends": size["training_ends"]}
    row |= {key: size[key] for key in ("training_ratings", "users", "items", "evaluated_users")}
    return row | {key: kept[key] for key in ("unrated_test_items", "test_items_within_a_day", "users_without_history")}


def study_of(home):
    """Returns the study file whose figures a folder has."""
    return "honest-winner-private.toml" if home == PRIVATE else "honest-winner.toml"


def names(home=REPORTS, study=None):
    """Returns the methods in the order of a study; if none is named, of that whose figures a folder has."""
    axes = tomllib.loads((HERE / (study or study_of(home))).read_text())["axes"]
    methods = next(axis["values"] for axis in axes if axis["name"] == "method")
    return [method if isinstance(method, str) else method["name"] for method in methods]


SIGNS = {"users": "", "difference_users": "+"}


def number(text, sign=""):
    """Returns a figure with three digits behind the point and no zero before it."""
    return format(float(text), f"{sign}.3f").replace("0.", ".") if text != "" else "-"


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


def kind(method):
    """Returns the kind that a method belongs to."""
    if method.endswith("(central)") or "(central)," in method:
        return "central"
    return "count" if method in COUNTS else "ours" if method in OURS else "published"


def published_methods(rows):
    """Returns the published federated methods of a table, each with the rows of its arms: with and without our additions."""
    arms = {}
    for (method, _, figure), row in rows.items():
        if figure == HEADLINE and kind(method) == "published":
            arms.setdefault(method.partition(",")[0], []).append(row)
    return arms


def in_words(count):
    """Returns a number as a text has it."""
    words = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()
    return words[count - 13] if 13 <= count <= 20 else str(count)


def table(data, name, home=REPORTS):
    """Returns the rows of a table of one data set by method, cut and figure."""
    return {(*parts(row["arm"])[1:], row["figure"]): row for row in read(home / data / name)}


def interval(row, of):
    """Returns the ends of an interval over users."""
    return f"{number(row[f'{of}_low'], SIGNS[of])} to {number(row[f'{of}_high'], SIGNS[of])}"


def difference(row, sign=1):
    """Returns a difference with its interval, bold if it is shown; "-" for an arm that is compared to none. With the sign
    -1 it is how far the other arm is ahead."""
    if not row["difference"]:
        return "-"
    text = number(sign * float(row["difference"]), "+")
    text = f"**{text}**" if row["difference_shown"] in ("ahead", "behind") else text
    low, high = sorted(sign * float(row[f"difference_users_{end}"]) for end in ("low", "high"))
    return f"{text} ({number(low, '+')} to {number(high, '+')})"


def best_of_kinds(data):
    """Returns FedTide's row of a data set, and those of the best method of each kind, compared to it."""
    rows = {method: row for (method, _, figure), row in table(data, TABLES[2]).items() if figure == HEADLINE}
    of_kind = [[method for method in rows if kind(method) == of] for of in KINDS]
    best = [max(methods, key=lambda method: float(rows[method]["mean"])) for methods in of_kind]
    return rows["fedtide"], {method: rows[method] for method in best}


def marked(data, method):
    """Returns the name of a method, with a mark if it was searched again at later cuts."""
    again = {parts(row["arm"])[1] for row in read(REPORTS / f"search-{data}.csv") if parts(row["arm"])[2]}
    return method + " †" if method in again else method


def winners(studied):
    """Returns the table of the best method of each kind by data set, and how far FedTide is ahead of it."""
    page = ["| data set | FedTide | " + " | ".join(f"{title} | FedTide minus it" for title in KINDS.values()) + " |"]
    page.append("|---|---:|" + "---|---:|" * len(KINDS))
    for data in studied:
        own, best = best_of_kinds(data)
        cells = [f"{marked(data, method)}, {number(row['mean'])} | {difference(row, -1)}" for method, row in best.items()]
        page.append(f"| {DATA[data]} | {of_users(own)} | " + " | ".join(cells) + " |")
    return page


def splits(studied):
    """Returns the table of who is tested behind each cut."""
    page = ["| data set | cut | training ends | ratings before it | items | users tested | first items that nobody had rated | "]
    page[0] += "within a day of training | users without history, left out |"
    page.append("|---|---:|---|" + "---:|" * 6)
    for data in studied:
        for row in read(REPORTS / data / "splits.csv"):
            tested = int(row["evaluated_users"])
            share = [f"{100 * int(row[key]) / tested:.0f} %" for key in ("unrated_test_items", "test_items_within_a_day")]
            counts = [f"{int(row[key]):,}" for key in ("training_ratings", "items", "evaluated_users")]
            day = row["training_ends"].split(" ")[0]
            page.append(f"| {DATA[data]} | {row['cut']} | {day} | " + " | ".join(counts + share) + f" | {row['users_without_history']} |")
    return page


def found(data):
    """Returns the table of one data set: all cuts together, and each cut."""
    pooled, single, to_fedtide = (table(data, name) for name in TABLES[:3])
    cuts = sorted({cut for _, cut, _ in single})
    page = [f"\n### {DATA[data]}\n"]
    page.append("| method | NDCG@10 | minus decayed popularity | FedTide minus it | HR@10 | NDCG@10 at " + " | at ".join(cuts) + " |")
    page.append("|---|" + "---:|" * (4 + len(cuts)))
    for method in names():
        row = pooled.get((method, "", HEADLINE))
        if not row:
            continue
        at = [number(single.get((method, cut, HEADLINE), {}).get("mean", "")) for cut in cuts]
        hits = number(pooled.get((method, "", "hr@10"), {}).get("mean", ""))
        own = of_users(row)
        own += "" if row["runs"] == "2" else "; of one seed, as a run diverged"
        cells = [own, difference(row), difference(to_fedtide[(method, "", HEADLINE)], -1), hits, *at]
        page.append(f"| {marked(data, method)} | " + " | ".join(cells) + " |")
    return page


def without_cuts():
    """Returns the tables of data sets without cuts, the method with the highest figure first."""
    page = []
    for data in WITHOUT_CUTS:
        if not (REPORTS / data / "without-cuts.csv").exists():
            continue
        rows = table(data, "without-cuts.csv")
        of_methods = {method: row for (method, _, figure), row in rows.items() if figure == HEADLINE}
        page += [f"\n### {DATA[data]}\n", "| method | NDCG@10 | minus popularity | HR@10 |", "|---|---:|---:|---:|"]
        for method, row in sorted(of_methods.items(), key=lambda item: -float(item[1]["mean"])):
            own = of_users(row) + ("" if row["runs"] == "2" else f"; {row['runs']} of 2 seeds")
            page.append(f"| {method} | {own} | {difference(row)} | {number(rows[(method, '', 'hr@10')]['mean'])} |")
    return page


def costly():
    """Returns the table of the costly methods: NDCG@10 of the users with the most ratings, and minus that of popularity."""
    found = {data: table(data, "costly.csv") for data in DATA if (REPORTS / data / "costly.csv").exists()}
    titles = [f"{DATA[data]} | minus popularity" for data in found]
    page = ["| NDCG@10 | " + " | ".join(titles) + " |", "|---|" + "---:|" * (2 * len(found))]
    for method in names(study=COSTLY):
        rows = [of.get((method, "", HEADLINE)) for of in found.values()]
        cells = [f"{of_users(row)} | {difference(row)}" if row else "- | -" for row in rows]
        page.append(f"| {method} | " + " | ".join(cells) + " |")
    return page


def claims(studied, other):
    """Returns the table of how far our methods are ahead of another one."""
    tables = [table(data, against(other)) for data in studied]
    page = ["| | " + " | ".join(DATA[data] for data in studied) + " |", "|---|" + "---:|" * len(studied)]
    for method in OURS:
        if all((method, "", HEADLINE) in rows for rows in tables):
            cells = [difference(rows[(method, "", HEADLINE)]) for rows in tables]
            page.append(f"| {method} | " + " | ".join(cells) + " |")
    return page


def counts_alone(studied):
    """Returns the table of FedTide beside its counts alone, and these beside the best count of a server."""
    page = ["| data set | FedTide | its counts alone | FedTide minus them | best count of a server | the counts alone minus it |"]
    page.append("|---|---:|---:|---:|---|---:|")
    for data in studied:
        rows = {method: row for (method, _, _), row in table(data, against(COUNTS_ALONE)).items()}
        best = max((method for method in rows if kind(method) == "count"), key=lambda method: float(rows[method]["mean"]))
        cells = [of_users(rows["fedtide"]), of_users(rows[COUNTS_ALONE]), difference(rows["fedtide"])]
        cells += [f"{best}, {number(rows[best]['mean'])}", difference(rows[best], -1)]
        page.append(f"| {DATA[data]} | " + " | ".join(cells) + " |")
    return page


def paired(studied):
    """Returns the table of how far FedTide is ahead of the best method of each kind on other questions."""
    page = ["| question | data set | FedTide | its counts alone | " + " | ".join(f"{title} | FedTide minus it" for title in KINDS.values()) + " |"]
    page.append("|---|---|---:|---:|" + "---|---:|" * len(KINDS))
    for track, title in TRACKS.items():
        for data in studied:
            rows = {row["method"]: row for row in read(REPORTS / data / "tracks.csv") if row["track"] == track}
            cells = [of_users(rows[method]) if method in rows else "-" for method in ("fedtide", COUNTS_ALONE)]
            for of in KINDS:
                best = max((method for method in rows if kind(method) == of), key=lambda method: float(rows[method]["mean"]))
                cells.append(f"{best}, {number(rows[best]['mean'])} | {difference(rows[best], -1)}")
            page.append(f"| {title} | {DATA[data]} | " + " | ".join(cells) + " |")
    return page


def lead(place):
    """Returns the cells of a lead in its table: settings, and the best one's differences on first and on all items."""
    rows = [row for row in read(REPORTS / "leads.csv") if (row["lead"], row["data"]) == (place[1], "mean")]
    best = max(rows, key=lambda row: float(row["d_first"]))
    first, low, high, every = (f"{float(best[key]):+.4f}".replace("0.", ".") for key in ("d_first", "low", "high", "d_all"))
    return f"{len(rows)} | {first} ({low} to {high}) | {every}"


def beside(of, titles, cell):
    """Returns the tables of every data set by method and by codec or track, each with what `cell` says of a row."""
    page = []
    for data in DATA:
        path = REPORTS / data / f"{of}s.csv"
        if not path.exists():
            continue
        rows = {(row["method"], row[of]): row for row in read(path)}
        page += [f"\n### {DATA[data]}\n", "| method | " + " | ".join(titles.values()) + " |", "|---|" + "---:|" * len(titles)]
        for method in names():
            cells = [cell(rows[(method, column)]) if (method, column) in rows else "-" for column in titles]
            if any(text != "-" for text in cells):
                page.append(f"| {method} | " + " | ".join(cells) + " |")
    return page


def fronts():
    """Returns the table of the methods and codecs that nothing beats with fewer bytes in both directions together, by data
    set and by rising bytes. A secure sum is a track of its own."""
    page = ["| data set | method | codec | NDCG@10 | all users send up / receive |", "|---|---|---|---:|---:|"]
    for data in DATA:
        path = REPORTS / data / "codecs.csv"
        rows = [row for row in read(path) if row["codec"] != "secure"] if path.exists() else []
        best = 0.0
        for row in sorted(rows, key=lambda row: float(row["up_bytes"]) + float(row["down_bytes"])):
            if float(row[HEADLINE]) > best:
                best = float(row[HEADLINE])
                bytes_ = " / ".join(size(float(row[way])) for way in ("up_bytes", "down_bytes"))
                page.append(f"| {DATA[data]} | {row['method']} | {CODECS[row['codec']]} | {number(best)} | {bytes_} |")
    return page


def private(name="pooled.csv"):
    """Returns the table of what is left of sums with noise, by method, data set and epsilon."""
    found = {data: table(data, name, PRIVATE) for data in DATA if (PRIVATE / data / name).exists()}
    cells = [f"{DATA[data]}, {epsilon}" for data in found for epsilon in EPSILONS]
    page = ["| method | " + " | ".join(cells) + " |", "|---|" + "---:|" * len(cells)]
    for method in dict.fromkeys(name.rpartition(", ")[0] for name in names(PRIVATE)):
        rows = [of.get((f"{method}, {epsilon}", "", HEADLINE)) for of in found.values() for epsilon in EPSILONS]
        if any(rows):
            page.append(f"| {method} | " + " | ".join(of_users(row) if row else "-" for row in rows) + " |")
    return page


def sent(row):
    """Returns the accuracy and the bytes up and down of a run, of all users together."""
    return f"{number(row[HEADLINE])}, {size(float(row['up_bytes']))} / {size(float(row['down_bytes']))}"


def of_users(row):
    """Returns an accuracy with its interval over users."""
    return f"{number(row['mean'])} ({interval(row, 'users')})"


def size(count):
    """Returns a number of bytes with three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5:
            return f"{count:.3g} {unit}" if count < 100 else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.0f} PB"


def figure(place):
    """Returns the figure of all cuts that a place in the text names: {DATA: METHOD}, {private/DATA: METHOD, EPSILON} with
    noise, {elsewhere/DATA: METHOD, EPSILON} with settings of other users, {TRACK/DATA: METHOD} of another question,
    {uncut/DATA: METHOD} of data without cuts, {costly/DATA: METHOD} of a costly method, {DATA: METHOD - OTHER} for a
    difference to FedTide, FedMF or decayed popularity (decay), or {DATA: published methods behind decay} for their number."""
    data, method = place.groups()
    of, _, data = data.rpartition("/")
    if of == "costly":
        return number(table(data, "costly.csv")[(method, "", HEADLINE)]["mean"])
    if of == "uncut":
        return number(table(data, "without-cuts.csv")[(method, "", HEADLINE)]["mean"])
    if of == "elsewhere":
        return number(table(data, "elsewhere.csv", PRIVATE)[(method, "", HEADLINE)]["mean"])
    if of == "private":
        return of_users(table(data, "pooled.csv", PRIVATE)[(method, "", HEADLINE)])
    if of:
        rows = {(row["method"], row["track"]): row for row in read(REPORTS / data / "tracks.csv")}
        return number(rows[(method, of)]["mean"])
    if method == "published methods behind decay":
        arms = published_methods(table(data, TABLES[0])).values()
        behind = sum(all(row["difference_shown"] == "behind" for row in rows) for rows in arms)
        return in_words(behind) if behind == len(arms) else f"{behind} of {len(arms)}"
    method, _, other = method.partition(" - ")
    name = against(other) if other not in ("", "decay") else TABLES[0]
    name = against(COUNTS_ALONE) if method == COUNTS_ALONE else name
    row = table(data, name)[(method, "", HEADLINE)]
    return difference(row) if other else number(row["mean"])


def pages():
    """Returns the page by its path: the report's text with the tables in their places."""
    text = (REPORTS / "text.md").read_text()
    studied = [data for data in DATA if (REPORTS / data / "pooled.csv").exists()]
    parts_of_page = {
        "winners": winners(studied),
        "splits": splits(studied),
        "claims": claims(studied, "fedmf"),
        "claims-softmax": claims(studied, "fedmf, softmax, times"),
        "counts-alone": counts_alone(studied),
        "paired": paired(studied),
        "found": [line for data in studied for line in found(data)],
        "sent": beside("codec", CODECS, sent),
        "fronts": fronts(),
        "private": private(),
        "elsewhere": private("elsewhere.csv"),
        "tracks": beside("track", TRACKS, of_users),
        "without-cuts": without_cuts(),
        "costly": costly(),
        "searched": searched(),
    }
    for name, lines in parts_of_page.items():
        text = text.replace(f"{{{name}}}", "\n".join(lines).strip())
    text = re.sub(r"\{lead: ([^{}]+)\}", lead, text)
    text = re.sub(PLACE, figure, text)
    return {REPORTS / "README.md": text}


def said(method):
    """Returns the name of a method as findings have it."""
    name, comma, rest = method.partition(",")
    name = name.removesuffix(" (central)").removeprefix("popularity ")
    return NAMES.get(name, name) + comma + rest


def findings(studied):
    """Returns the rows of tables that pages of findings have to have, by page."""
    own, leads, counts = [], [], {}
    for data in studied:
        decay = {method: row for (method, _, figure), row in table(data, TABLES[0]).items() if figure == HEADLINE}
        fedtide, best = best_of_kinds(data)
        count, published, central = best
        counts[data] = [number(decay[method]["mean"]) for method in ("popularity", "popularity with decay")]
        counts[data] += [number(best[published]["mean"]), number(fedtide["mean"])]
        named = [f"{said(method)}, {number(best[method]['mean'])}" for method in (count, published, central)]
        own.append(f"| {DATA[data]} | {' | '.join([*counts[data][:2], *named, counts[data][3]])} |")
        leads.append(f"| {DATA[data]} | {difference(decay[published])} | {difference(best[count], -1)} |")
    least = min(len(published_methods(table(data, TABLES[0]))) for data in DATA_IN_README)
    titles = [title.format(in_words(least)) for title in IN_README]
    figures = zip(*(counts[data] for data in DATA_IN_README))
    in_readme = [f"| {title} | {' | '.join(of_title)} |" for title, of_title in zip(titles, figures)]
    return {"docs/findings/own-methods.md": own + leads, "docs/findings/sums-with-noise.md": noise(), "README.md": in_readme}


def noise():
    """Returns the rows of the tables of what noise leaves, of two data sets and of a third."""
    rows = []
    for group in (["amazon", "movietweetings"], ["ml-1m"]):
        for method in dict.fromkeys(name.rpartition(", ")[0] for name in names(PRIVATE)):
            cells = []
            for data in group:
                without = table(data, against(COUNTS_ALONE) if method == COUNTS_ALONE else TABLES[0])
                private = table(data, "pooled.csv", PRIVATE)
                cells.append(number(without[(method, "", HEADLINE)]["mean"]))
                cells += [of_users(private[(f"{method}, {epsilon}", "", HEADLINE)]) for epsilon in EPSILONS]
            rows.append(f"| {said(method)} | {' | '.join(cells)} |")
    return rows


def sentences():
    """Returns what pages of findings have to say, with the figures, by page."""
    text = re.sub(PLACE, figure, (REPORTS / "sentences.md").read_text())
    by_page = (part.split("\n", 1) for part in text.split("\n## ")[1:])
    return {page: re.findall(r"^- (.+?)(?=\n- |\n*\Z)", lines, re.MULTILINE | re.DOTALL) for page, lines in by_page}


def check_findings():
    """Fails if a page of findings lacks a row of a table or a sentence with these figures."""
    wanted = findings([data for data in DATA if (REPORTS / data / "pooled.csv").exists()])
    for name, told in sentences().items():
        wanted.setdefault(name, []).extend(told)
    for name, all_wanted in wanted.items():
        page = " ".join((HERE.parent / name).read_text().split())
        lacking = [text for text in all_wanted if " ".join(text.split()) not in page]
        if lacking:
            sys.exit(f"{name} has other words than {REPORTS} and sentences.md there; it lacks\n" + "\n".join(lacking))


def main():
    arguments = sys.argv[1:]
    cut, home = "", REPORTS
    if arguments[:1] == ["--at"]:
        cut, arguments = f", cut={arguments[1]}", arguments[2:]
    if arguments[:1] == ["--private"]:
        home, arguments = PRIVATE, arguments[1:]
    if arguments[:1] == ["--searches"]:
        take_searches(arguments[1:], cut, home)
    elif arguments[:1] == ["--studies"] and home == PRIVATE:
        take_private(arguments[1:])
    elif arguments[:1] == ["--studies"]:
        take_studies(arguments[1:])
        take_codec("f32", arguments[1:])
    elif arguments[:1] == ["--exchange"]:
        exchange()
    elif arguments[:1] == ["--elsewhere"]:
        take_private(arguments[1:], "elsewhere.csv")
    elif arguments[:1] == ["--more"]:
        take_more(arguments[1:])
        take_codec("f32", arguments[1:])
    elif arguments[:1] == ["--costly"]:
        take_costly(arguments[1:])
    elif arguments[:1] == ["--ours"]:
        take_ours(arguments[1:])
    elif arguments[:1] == ["--codec"]:
        take_codec(arguments[1], arguments[2:])
    elif arguments[:1] == ["--without-cuts"]:
        take_without_cuts(arguments[1:])
    elif arguments[:1] == ["--track"]:
        take_track(arguments[1], arguments[2:])
    if arguments == ["--check"]:
        check_findings()
    for target, text in pages().items():
        if arguments != ["--check"]:
            target.write_text(text)
        elif target.read_text() != text:
            sys.exit(f"{target} is not what {Path(__file__).name} writes")


if __name__ == "__main__":
    main()
