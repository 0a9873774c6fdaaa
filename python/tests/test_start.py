"""Runs that start from the parameters of another."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import fedrecsim
import numpy as np
import pytest

#: Scores of all items decide, so that candidates, which differ with the seed, have no say.
WHOLE = {"evaluation.ranking": "full-catalogue"}


def first_of(scenario: dict, **options: object) -> fedrecsim.Run:
    return fedrecsim.run(scenario, set=WHOLE, progress=False, keep_checkpoint=True, **options)


def start_of(scenario: dict, start: object, **options: object) -> fedrecsim.Run:
    return fedrecsim.run(scenario, set=WHOLE, progress=False, start=start, **options)


@pytest.mark.parametrize("scenario", ["small", "in_python"])
def test_a_run_starts_as_the_other_ended(scenario: str, request, tmp_path: Path) -> None:
    """If this fails, pre-trained users lose what they have learned, or the digest does not say where a run began."""
    world = request.getfixturevalue(scenario)
    first = first_of(world)
    second = start_of(world, first)
    assert second.baselines["start"]["test"] == first.accuracy["test"]
    assert second.virtual_time_s < first.virtual_time_s * 1.5 and second.rounds["round"].tolist() == [1, 2, 3, 4]
    simulation = fedrecsim.Simulation(world, set=WHOLE, start=first)
    assert simulation.rounds == 0 and simulation.time_s == 0
    with warnings.catch_warnings():
        # It has its parameters, and is not trained once more.
        warnings.simplefilter("error")
        assert np.array_equal(simulation.scores(), first.scores())
    # The file, a folder, bytes and a pickled run say the same; two starts have one digest.
    first.write(tmp_path / "kept")
    folder = first_of(world, out=tmp_path / "folder")
    saved = tmp_path / "first.run"
    first.save(saved)
    starts: list[object] = [tmp_path / "kept", str(tmp_path / "folder"), tmp_path / "folder" / "checkpoint-end.bin"]
    starts += [folder, first.parameters(), pickle.loads(pickle.dumps(first)), fedrecsim.Run.load(saved)]
    assert {start_of(world, start).digest for start in starts} == {second.digest}
    assert second.digest != start_of(world, tmp_path / "folder" / "checkpoint-3.bin").digest
    assert second.digest != fedrecsim.run(world, set=WHOLE, progress=False).digest


def test_what_a_started_run_shows_is_its_own(small: dict) -> None:
    """If this fails, events or recommendations of a run that started from another are those of one that did not."""
    first = first_of(small)
    second = start_of(small, first, seed=3)
    assert "memory:" in (second.scenario or "")
    assert len(second.events) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(second.recommend(0, 3)) == 3
    simulation = fedrecsim.Simulation(small, set=WHOLE, seed=3, start=first)
    simulation.step()
    saved = simulation.save()
    restored = fedrecsim.Simulation.restore(small, saved, set=WHOLE, seed=3, start=first)
    assert restored.run().digest == second.digest
    with pytest.raises(fedrecsim.FedrecsimError, match="training.start|other parameters"):
        fedrecsim.Simulation.restore(small, saved, set=WHOLE, seed=3)


def test_ratings_in_memory_name_the_users(small: dict) -> None:
    """If this fails, users of two data frames are told apart by their places."""
    rng = np.random.default_rng(1)
    pairs = rng.permutation(40 * 30)[:600]
    users, items = pairs // 30, pairs % 30
    # The items are numbered alike, and the users in another order.
    front = np.arange(30)
    one = {"user": np.r_[np.full(15, 100), np.full(15, 101), users], "item": np.r_[front, items]}
    two = {"user": np.r_[np.full(15, 101), np.full(15, 100), users[::-1]], "item": np.r_[front, items[::-1]]}
    scenario = {key: value for key, value in small.items() if key != "dataset"}
    first = fedrecsim.run(scenario, one, set=WHOLE, progress=False, keep_checkpoint=True)
    second = fedrecsim.Simulation(scenario, two, set=WHOLE, start=first)
    assert np.array_equal(first.scores([7, 100, 12]), second.scores([7, 100, 12]))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"method.fedmf.latent_dimension": 4}, ["300 x 8 there and 300 x 4 here", "latent_dimension is 8 there"]),
        ({"method": "fedncf"}, ["`fedmf`", "`fedncf`"]),
        ({"dataset.generator.items": 310}, ["300 items and this run 310"]),
        ({"method": "popularity"}, ["trains nothing"]),
    ],
)
def test_what_does_not_fit_is_refused(small: dict, changes: dict, parts: list[str]) -> None:
    """If this fails, a run goes on from parameters that are not its own."""
    first = first_of(small)
    with pytest.raises(fedrecsim.ScenarioError) as raised:
        fedrecsim.run(small, set={**WHOLE, **changes}, progress=False, start=first)
    assert all(part in str(raised.value) for part in ["start", *parts]), raised.value


def test_a_run_that_kept_nothing_says_what_to_do(small: dict, tmp_path: Path) -> None:
    """If this fails, nobody knows how to get a run that another can start from."""
    bare = fedrecsim.run(small, progress=False, out=tmp_path / "bare")
    for start in (bare, tmp_path / "bare"):
        with pytest.raises(fedrecsim.ScenarioError, match="keep_checkpoint=True"):
            fedrecsim.run(small, progress=False, start=start)
    with pytest.raises(fedrecsim.WrongTypeError, match="a start must be a run"):
        fedrecsim.run(small, progress=False, start=3)  # type: ignore[arg-type]
    with pytest.raises(fedrecsim.ScenarioError, match="Simulation.save"):
        fedrecsim.run(small, progress=False, start=b"nothing")
    with pytest.raises(fedrecsim.MissingFileError, match="nowhere"):
        fedrecsim.run(small, progress=False, start=tmp_path / "nowhere")


def test_a_written_run_replaces_the_parameters_of_another(small: dict, tmp_path: Path) -> None:
    """If this fails, a folder has the report of one run and the parameters of another."""
    first_of(small, out=tmp_path / "one")
    other = fedrecsim.run(small, set=WHOLE, seed=2, progress=False)
    other.write(tmp_path / "one", overwrite=True)
    with pytest.raises(fedrecsim.ScenarioError, match="holds no checkpoint"):
        start_of(small, tmp_path / "one")
