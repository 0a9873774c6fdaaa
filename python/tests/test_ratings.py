"""Ratings in memory: the same results as a file of them, and clear faults."""

from __future__ import annotations

import gc
import pickle
import uuid
from pathlib import Path
from typing import Any, Callable

import fedrecsim
import numpy as np
import pytest

#: A scenario without a data set, whose method reads ratings and whose split goes by time.
BASE: dict[str, Any] = {
    "seed": 3,
    "method": {"fcf": {"latent_dimension": 4}},
    "dataset": {"name": "generated", "generator": {"users": 60, "items": 300}, "minimum_interactions": 3},
    "training": {"rounds": 2},
    "evaluation": {"ranking": "full-catalogue"},
}


def rows(users: int = 30, items: int = 50) -> dict[str, np.ndarray]:
    """Returns about 300 ratings without repeated pairs, in no order of time."""
    rng = np.random.default_rng(5)
    pairs = rng.permutation(users * items)[: users * 10]
    return {
        "userId": pairs // items + 100,
        "movie_id": pairs % items,
        "Rating": rng.integers(1, 11, len(pairs)) / 2,
        "timestamp": 1_300_000_000 + rng.permutation(len(pairs)) * 1000,
    }


def of_file(path: Path, columns: dict[str, np.ndarray] | None = None, **named: str) -> fedrecsim.Run:
    """Runs the scenario on a file of these rows."""
    columns = columns or rows()
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*(list(c) for c in columns.values())))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = named or {"user": "userId", "item": "movie_id", "rating": "Rating", "timestamp": "timestamp"}
    dataset = {"name": "delimited", "path": str(path), "columns": names, "minimum_interactions": 3}
    return fedrecsim.run(BASE | {"dataset": dataset}, progress=False)


def in_memory(ratings: Any, **keywords: Any) -> fedrecsim.Run:
    return fedrecsim.run(BASE, ratings, progress=False, **keywords)


def pandas_frame() -> Any:
    return pytest.importorskip("pandas").DataFrame(rows())


def pandas_indexed() -> Any:
    return pandas_frame().set_index("userId")


def polars_frame() -> Any:
    return pytest.importorskip("polars").DataFrame(rows())


def polars_chunks() -> Any:
    polars = pytest.importorskip("polars")
    frame = polars_frame()
    return polars.concat([frame[:7], frame[7:7], frame[7:]], rechunk=False)


def arrow_table() -> Any:
    return pytest.importorskip("pyarrow").table(rows())


FORMS: dict[str, Callable[[], Any]] = {
    "pandas": pandas_frame,
    "pandas, users as index": pandas_indexed,
    "polars": polars_frame,
    "polars in chunks": polars_chunks,
    "pyarrow": arrow_table,
    "columns": rows,
    "lists": lambda: {name: column.tolist() for name, column in rows().items()},
    "arrays": lambda: tuple(rows().values()),
    "one array": lambda: np.stack(list(rows().values()), axis=1),
    "a structured array": lambda: np.rec.fromarrays(list(rows().values()), names=list(rows())),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_on_rows_in_memory_has_the_digest_of_their_file(form: str, tmp_path: Path) -> None:
    """If this fails, a data frame gives other results than the same rows in a file."""
    ratings = FORMS[form]()
    assert in_memory(ratings).digest == of_file(tmp_path / "rows.csv").digest


def test_a_sparse_matrix_is_its_stored_values_row_by_row(tmp_path: Path) -> None:
    """If this fails, a matrix of SciPy gives other results than its triples."""
    sparse = pytest.importorskip("scipy.sparse")
    users, items, ratings, _ = rows().values()
    matrix = sparse.csr_matrix((ratings, (users - 100, items)), shape=(30, 50))
    stored = matrix.tocoo()
    columns = {"user": stored.row, "item": stored.col, "rating": stored.data}
    expected = of_file(tmp_path / "rows.csv", columns, user="user", item="item", rating="rating").digest
    for form in (matrix, sparse.csr_array(matrix), matrix.tocoo(), matrix.tocsc()):
        assert in_memory(form).digest == expected
    without = of_file(tmp_path / "pairs.csv", columns, user="user", item="item").digest
    assert in_memory(matrix.astype(bool)).digest == without


def test_times_of_any_kind_are_those_of_a_file_of_dates(tmp_path: Path) -> None:
    """If this fails, a split by time goes by other instants than the frame has."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = rows()
    dates = columns["timestamp"].astype("datetime64[s]")
    named = {"user": "userId", "item": "movie_id", "timestamp": "timestamp"}
    chosen = {name: columns[name] for name in ("userId", "movie_id")}
    expected = of_file(tmp_path / "rows.csv", chosen | {"timestamp": dates}, **named).digest
    frame = pandas.DataFrame(chosen | {"timestamp": dates})
    forms = [frame, chosen | {"timestamp": dates}, polars.from_pandas(frame)]
    for unit in ("ms", "us", "ns"):
        forms.append(frame.assign(timestamp=frame["timestamp"].astype(f"datetime64[{unit}]")))
    forms.append(frame.assign(timestamp=frame["timestamp"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")))
    forms.append(chosen | {"timestamp": columns["timestamp"]})
    assert {in_memory(form).digest for form in forms} == {expected}
    split = {"dataset.split": {"global-time": {"cut": 0.8}}}
    cut = [in_memory(form, set=split | {"dataset.on_unusable_user": "leave-out"}).digest for form in forms]
    assert len(set(cut)) == 1


@pytest.mark.filterwarnings("ignore:rows that repeat|.*users whose names")
@pytest.mark.parametrize("kind", ["int32", "float64", "text", "uuid", "category", "object"])
def test_names_of_any_type_are_kept(kind: str) -> None:
    """If this fails, who is user 0 cannot be told from the frame."""
    pandas = pytest.importorskip("pandas")
    columns = rows()
    texts = [f"user {user}, \"x\"" for user in columns["userId"]]
    ids = [uuid.uuid5(uuid.NAMESPACE_DNS, text) for text in texts]
    users = {
        "int32": columns["userId"].astype("int32"),
        "float64": columns["userId"].astype("float64"),
        "text": texts,
        "uuid": ids,
        "category": pandas.Categorical(texts),
        "object": pandas.Series([text if place % 2 else hash(text) % 7 for place, text in enumerate(texts)], dtype=object),
    }[kind]
    run = in_memory(pandas.DataFrame(columns).assign(userId=users))
    assert run.users is not None
    expected = list(dict.fromkeys(map(str, list(users))))
    assert list(run.users["name"]) == expected if kind != "object" else set(run.users["name"]) <= set(expected)
    with pytest.warns(UserWarning, match="trained once more"):
        assert len(run.recommend(expected[0], 3)) == 3


def test_columns_are_found_by_usual_names_or_named_by_the_scenario() -> None:
    """If this fails, a column is guessed although it is named, or needs a name although it is usual."""
    columns = rows()
    digest = in_memory(columns).digest
    odd = dict(zip(("who", "what", "grade", "when"), columns.values()))
    keys = dict(zip(("user", "item", "rating", "timestamp"), odd))
    assert in_memory(odd, set={f"dataset.columns.{key}": name for key, name in keys.items()}).digest == digest
    assert in_memory(odd, set={"dataset.columns": keys}).digest == digest
    whole = {"name": "delimited", "path": "elsewhere.csv", "minimum_interactions": 3, "columns": keys}
    assert in_memory(odd, set={"dataset": whole}).digest == digest
    own = {"name": "delimited", "path": "elsewhere.csv", "minimum_interactions": 3, "columns": keys}
    assert fedrecsim.run(BASE | {"dataset": own}, odd, progress=False).digest == digest
    own["columns"] = {"user": 1, "item": 2, "rating": 3, "timestamp": 4}
    assert fedrecsim.run(BASE | {"dataset": own}, odd, progress=False).digest == digest
    # One name is enough if the others are usual.
    half = dict(zip(("who", "movie_id", "Rating", "timestamp"), columns.values()))
    assert in_memory(half, set={"dataset.columns.user": "who"}).digest == digest
    # Who names users and items names all columns.
    pair = in_memory(columns, set={"dataset.columns": {"user": "userId", "item": "movie_id"}})
    assert set(pair.record["scenario"]["dataset"]["columns"]) == {"user", "item"}


def without(name: str) -> dict[str, np.ndarray]:
    return {key: column for key, column in rows().items() if key != name}


def changed(name: str, place: int, value: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {key: column.tolist() for key, column in rows().items()}
    columns[name][place] = value
    return columns


FAULTS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "no user": (lambda: without("userId"), ["column of the users", "'movie_id'", "dataset.columns.user"]),
    "a near name": (lambda: without("userId") | {"usr_id": rows()["userId"]}, ["did you mean 'usr_id'"]),
    "two users": (lambda: rows() | {"user": rows()["userId"]}, ["'userId', 'user'", "dataset.columns.user"]),
    "lengths": (lambda: rows() | {"Rating": [1.0]}, ["different lengths", "`Rating` 1", "`userId` 300"]),
    "empty": (lambda: {name: column[:0] for name, column in rows().items()}, ["no rows"]),
    "a missing user": (lambda: changed("userId", 4, None), ["row 4", 'user under "userId"', "on_incomplete"]),
    "a missing item": (lambda: changed("movie_id", 2, float("nan")), ["row 2", 'item under "movie_id"']),
    "no rating": (lambda: changed("Rating", 5, float("nan")), ["row 5", 'under "Rating"', "found nothing"]),
    "a text as rating": (lambda: changed("Rating", 0, "good"), ["row 0", "a finite rating", '"good"']),
    "no time": (lambda: changed("timestamp", 9, float("nan")), ["row 9", "timestamp", "on_incomplete"]),
    "infinite": (lambda: changed("Rating", 1, float("inf")), ["row 1", "a finite rating", "inf"]),
    "complex": (lambda: rows() | {"Rating": rows()["Rating"] * 1j}, ["`Rating`", "complex128"]),
    "two dimensions": (lambda: rows() | {"Rating": np.ones((300, 2))}, ["`Rating`", "(300, 2)"]),
    "a matrix": (lambda: np.ones((30, 50)), ["csr_matrix"]),
    "rows": (lambda: [(1, 2), (3, 4)], ["DataFrame"]),
    "times as ratings": (lambda: tuple(rows()[name] for name in ("userId", "movie_id", "timestamp")), ['"time": times']),
    "no columns": (lambda: {}, ["no columns"]),
    "one column": (lambda: pytest.importorskip("polars").Series([1, 2]), ["Series", "give a table"]),
    "a path": (lambda: "ratings.csv", ["dataset.path"]),
    "a number": (lambda: 3, ["must be a table", "int"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_ratings_has_cause_place_and_remedy(fault: str) -> None:
    """If this fails, a mistake in a frame is found in a traceback, or not at all."""
    make, parts = FAULTS[fault]
    with pytest.raises(fedrecsim.ScenarioError) as raised:
        in_memory(make())
    assert all(part in str(raised.value) for part in parts), raised.value


def test_faults_of_data_frames_are_told_likewise() -> None:
    """If this fails, frames with nulls, lists or lazy frames end in an error of another library."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(rows())
    nulls = frame.assign(Rating=frame["Rating"].where(frame.index != 6))
    lists = polars.DataFrame(rows()).with_columns(polars.concat_list("movie_id").alias("movie_id"))
    dates = frame.assign(timestamp=pandas.to_datetime(frame["timestamp"], unit="s").where(frame.index != 3))
    twice = pandas.concat([frame, frame[["userId"]]], axis=1)
    for wrong, parts in [
        (nulls, ["row 6", "Rating"]),
        (polars.from_pandas(nulls), ["row 6", "Rating"]),
        (dates, ["row 3", "timestamp"]),
        (lists, ["`movie_id`", "List", "explode"]),
        (polars.DataFrame(rows()).lazy(), ["collect"]),
        (twice, ["'userId', 'userId'"]),
        (frame[:0], ["no rows"]),
    ]:
        with pytest.raises(fedrecsim.ScenarioError) as raised:
            in_memory(wrong)
        assert all(part in str(raised.value) for part in parts), raised.value
    for mistake in ("usrId", "userid"):
        with pytest.raises(fedrecsim.ScenarioError, match="did you mean 'userId'"):
            in_memory(frame, set={"dataset.columns.user": mistake})
    with pytest.warns(UserWarning, match="the first in row 6"):
        in_memory(nulls, set={"dataset.columns.on_incomplete": "skip"})


def test_columns_that_nobody_asks_for_are_not_read() -> None:
    """If this fails, a frame with a column that Arrow does not know cannot be run."""
    frame = pytest.importorskip("pandas").DataFrame(rows())
    assert in_memory(frame.assign(tags=[{"a"}] * len(frame))).digest == in_memory(frame).digest


def test_simulations_and_studies_take_ratings_as_runs_do(tmp_path: Path) -> None:
    """If this fails, one of them needs a file, or does something else with a frame."""
    columns = rows()
    expected = in_memory(columns)
    simulation = fedrecsim.Simulation(BASE, columns)
    simulation.step()
    saved = simulation.save()
    assert fedrecsim.Simulation.restore(BASE, saved, ratings=columns).finish().record["rounds"] == 1
    other = columns | {"Rating": columns["Rating"][::-1]}
    with pytest.raises(fedrecsim.FedrecsimError, match="other rows"):
        fedrecsim.Simulation.restore(BASE, saved, ratings=other)
    assert [len(simulation.step_until(round=2)), simulation.finish().digest] == [1, expected.digest]
    assert fedrecsim.estimate(BASE, columns)["rounds"] == 2
    study = {"base": BASE, "seeds": [3], "axes": [{"name": "width", "key": "method.fcf.latent_dimension", "values": [4, 5]}]}
    done = fedrecsim.study(study, columns, out=tmp_path, progress=False)
    assert not done.failures and expected.digest in done.digests.values()
    with pytest.raises(fedrecsim.ScenarioError, match="other processes.*dataset.path"):
        fedrecsim.study(study, columns, executor="ray", out=tmp_path / "ray", progress=False)


def test_a_report_says_honestly_that_no_file_has_the_ratings() -> None:
    """If this fails, a reader of a report takes ratings in memory for a file that others have."""
    columns = rows()
    run = in_memory(columns)
    path = run.record["scenario"]["dataset"]["path"]
    assert path.startswith("memory:") and "ratings in memory, which no file has" in run._report.files()["summary.md"].decode()
    # The name is that of the rows, whatever holds them and as whatever integers.
    smaller = columns | {"userId": columns["userId"].astype("int16")}
    assert in_memory(smaller).record["scenario"]["dataset"]["path"] == path
    # Given again, they run again.
    assert run.scenario is not None and len(run.events) > 0
    assert fedrecsim.run(run.scenario, columns, progress=False).digest == run.digest


def left_behind() -> tuple[str, bytes]:
    """Returns the scenario of a run on ratings in memory, and the pickled run, when both are gone."""
    run = in_memory(rows())
    return run.scenario or "", pickle.dumps(run)


def test_a_scenario_of_ratings_that_are_gone_asks_for_them() -> None:
    """If this fails, it runs on other ratings, or ends in an error that does not say what to do."""
    scenario, packed = left_behind()
    gc.collect()
    for again in (lambda: fedrecsim.run(scenario, progress=False), lambda: pickle.loads(packed).events):
        with pytest.raises(fedrecsim.ScenarioError, match="memory of the process.*`ratings=`"):
            again()


def parted(planted: bool = False) -> dict[str, np.ndarray]:
    """Returns the ratings with a column of parts; of every ten rows one validates and two test. Among those to test is one
    more, of an item that its user has nowhere else, if it is `planted`."""
    columns: dict[str, np.ndarray] = {name: values for name, values in rows().items() if name != "timestamp"}
    place = np.arange(300) % 10
    columns["split"] = np.where(place == 3, "validation", np.where(place > 7, "test", "train"))
    if planted:
        own = set(columns["movie_id"][columns["userId"] == 100].tolist())
        known = columns["movie_id"][columns["split"] == "train"].tolist()
        more = {"userId": 100, "movie_id": next(item for item in known if item not in own), "Rating": 0.5, "split": "test"}
        columns = {name: np.append(values, np.array([more[name]], values.dtype)) for name, values in columns.items()}
    return columns


PARTS: dict[str, Any] = {"dataset.columns.part": "split"}


def test_a_column_of_parts_is_the_split_of_a_file_of_the_same_rows(tmp_path: Path) -> None:
    """If this fails, a published split in a data frame gives other results than in a file."""
    pandas = pytest.importorskip("pandas")
    named = {"user": "userId", "item": "movie_id", "rating": "Rating", "part": "split"}
    expected = of_file(tmp_path / "rows.csv", parted(), **named).digest
    for form in (parted(), pandas.DataFrame(parted()), pandas.DataFrame(parted()).astype({"split": "category"})):
        run = in_memory(form, set=PARTS)
        assert run.digest == expected
        assert run.record["scenario"]["dataset"]["split"] == {"by-column": {"holds_out": "items"}}


def test_a_run_trains_on_no_row_that_its_column_of_parts_holds_out() -> None:
    """If this fails, a run on a published split trains on its test part, or tests other rows."""
    columns = parted()
    simulation = fedrecsim.Simulation(BASE, columns, set=PARTS)
    simulation.step()
    for user in (100, 117):
        shown = simulation.recommend(user, 50)
        parts = {part: (columns["split"] == part) & (columns["userId"] == user) for part in ("train", "validation", "test")}
        items = {part: set(map(str, columns["movie_id"][rows_of].tolist())) for part, rows_of in parts.items()}
        assert {row["item"] for row in shown if row["held_out"]} == items["test"]
        assert not (items["train"] | items["validation"]) & {row["item"] for row in shown}
    more = fedrecsim.Simulation(BASE, parted(planted=True), set=PARTS)
    more.step()
    tested = [sum(row["held_out"] for row in run.recommend(100, 50)) for run in (simulation, more)]
    assert tested[1] == tested[0] + 1
    assert simulation.model.keys() == more.model.keys()
    for name, block in simulation.model.items():
        np.testing.assert_array_equal(block, more.model[name])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"dataset.columns.part": "Rating"}, "`train`, `validation` or `test`"),
        ({"dataset.split": "leave-one-out"}, "leave one of them out"),
        ({"dataset.split": {"by-column": {"holds_out": "ratings"}}}, "ranks items and predicts no ratings"),
    ],
)
def test_a_fault_of_a_column_of_parts_is_told(change: dict[str, Any], message: str) -> None:
    """If this fails, a split is another one than was meant, without a word."""
    base = {key: value for key, value in BASE.items() if key != "evaluation"}
    with pytest.raises(fedrecsim.ScenarioError, match=message):
        fedrecsim.run(base, parted(), set=PARTS | change, progress=False)


def test_what_would_be_read_as_something_else_is_refused() -> None:
    """If this fails, rows are taken for columns, or rounding makes one user of several, without a word."""
    with pytest.raises(TypeError, match="table of rows"):
        in_memory([[1, 10, 5], [2, 11, 3], [3, 12, 4]])
    users = np.array([76561198000000001, 76561198000000003], dtype=float)
    with pytest.raises(ValueError, match="rounds"):
        in_memory({"user": users, "item": np.array([1, 2])})


def test_a_pair_that_a_matrix_has_twice_is_two_rows() -> None:
    """If this fails, two ratings of a pair are added up, and `repeated_pairs` never sees them."""
    sparse = pytest.importorskip("scipy.sparse")
    names = ("userId", "movie_id", "Rating")
    users, items, values = (np.append(rows()[name], rows()[name][0]) for name in names)
    twice = in_memory(sparse.coo_matrix((values, (users, items))))
    order = np.argsort(users, kind="stable")
    assert twice.digest == in_memory((users[order], items[order], values[order])).digest
    assert twice.digest != in_memory(sparse.coo_matrix((values, (users, items))).tocsr()).digest
