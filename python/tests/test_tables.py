"""Tables, as data frame libraries read them."""

from __future__ import annotations

import csv
import pickle

import fedrecsim
import numpy as np
import pytest


@pytest.fixture
def run(small) -> fedrecsim.Run:
    return fedrecsim.run(small, progress=False)


def test_tables_have_the_numbers_of_the_csv_files(run, tmp_path) -> None:
    """If this fails, a data frame has other numbers than the report."""
    run.write(tmp_path)
    for name, table in (("rounds", run.rounds), ("users", run.users)):
        with open(tmp_path / f"{name}.csv", newline="") as file:
            header, *rows = csv.reader(file)
        assert table.columns == header and len(table) == len(rows)
        for place, column in enumerate(header):
            written = [float(row[place]) if row[place] else float("nan") for row in rows]
            np.testing.assert_array_equal(np.asarray(table[column], dtype=float), written)


def test_pyarrow_reads_a_table_without_a_copy(run) -> None:
    """If this fails, every reader pays for a table twice."""
    pyarrow = pytest.importorskip("pyarrow")
    one, two = pyarrow.table(run.rounds), pyarrow.table(run.rounds)
    assert one.column_names == run.rounds.columns and one.num_rows == 4
    addresses = [table["loss"].chunk(0).buffers()[1].address for table in (one, two)]
    assert addresses[0] == addresses[1]
    assert one.schema.field("round").type == pyarrow.uint64()


def test_polars_and_pandas_share_the_memory_of_a_table(run) -> None:
    """If this fails, a data frame is a copy."""
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    pytest.importorskip("pandas")
    address = pyarrow.table(run.users)["invited"].chunk(0).buffers()[1].address
    assert polars.DataFrame(run.users)["invited"].to_arrow().buffers()[1].address == address
    in_pandas = run.users.to_pandas()["invited"].array.__arrow_array__()
    assert in_pandas.chunk(0).buffers()[1].address == address


def test_polars_and_pandas_read_tables(run) -> None:
    """If this fails, `polars.DataFrame(run.rounds)` or the way to pandas does not work."""
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(run.users)
    assert frame.shape == (60, len(run.users.columns)) and frame["invited"].sum() == 240
    pandas = pytest.importorskip("pandas")
    assert run.rounds.to_pandas()["round"].tolist() == [1, 2, 3, 4]
    events = run.events.to_pandas()
    # A count that is missing somewhere is a count elsewhere.
    assert pandas.api.types.is_integer_dtype(events["user"]) and events["user"].isna().any()
    assert int(events["bytes"][events["event"] == "upload-started"].sum()) == run.bytes["up"]["sent"]
    assert run.rounds.to_polars()["round"].to_list() == [1, 2, 3, 4]


def test_events_add_up_to_the_bytes_of_the_run(run) -> None:
    """If this fails, the events are those of another run."""
    events = run.events
    names = np.array(events["event"])
    sent = np.asarray(events["bytes"], dtype=float)
    assert sent[names == "upload-started"].sum() == run.bytes["up"]["sent"]
    assert sent[names == "download-started"].sum() == run.bytes["down"]["sent"]
    assert (names == "round-ended").sum() == 4
    assert (np.diff(np.asarray(events["time_ns"], dtype=float)) >= 0).all()
    first = run.events_of(2, 2)
    assert set(first["round"]) == {2}


def test_a_table_shows_itself_and_travels(run) -> None:
    """If this fails, a table cannot be looked at or sent to another process."""
    assert "round" in run.rounds._repr_html_() and "4 rows" in repr(run.rounds)
    again = pickle.loads(pickle.dumps(run.rounds))
    np.testing.assert_array_equal(again["virtual_time_s"], run.rounds["virtual_time_s"])
    with pytest.raises(KeyError):
        run.rounds["nothing"]
