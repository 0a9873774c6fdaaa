"""The vectors that users keep for themselves."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import fedrecsim
import numpy as np
import pytest

WHOLE = {"evaluation.ranking": "full-catalogue"}


@pytest.mark.parametrize("scenario", ["small", "in_python"])
def test_saved_vectors_are_those_that_users_score_with(scenario: str, request, tmp_path: Path) -> None:
    """If this fails, somebody analyses vectors of other users, or of another round."""
    world = request.getfixturevalue(scenario)
    run = fedrecsim.run(world, set=WHOLE, progress=False, save_users="all", keep_checkpoint=True)
    vectors = run.user_vectors
    assert vectors.name == "u" and vectors.values.shape == (60, 8) and vectors.values.dtype == np.float32
    assert vectors.users == [str(user) for user in range(60)]
    assert np.allclose(run.scores(), vectors.values @ run.model["V"].T, atol=1e-4)
    # Those of some users, of a simulation, of a run that kept its parameters, and of one from a file are the same.
    some = fedrecsim.run(world, set=WHOLE, progress=False, save_users=[7, "3"], on_round=lambda record: None)
    assert some.digest == run.digest and some.user_vectors.users == ["7", "3"]
    assert np.array_equal(some.user_vectors.values, vectors.values[[7, 3]])
    simulation = fedrecsim.Simulation(world, set=WHOLE)
    simulation.step_until(round=4)
    assert np.array_equal(simulation.user_vectors([7, 3]).values, vectors.values[[7, 3]])
    kept = fedrecsim.run(world, set=WHOLE, progress=False, keep_checkpoint=True)
    assert np.array_equal(kept.user_vectors.values, vectors.values)
    run.save(tmp_path / "saved.run")
    for again in (fedrecsim.Run.load(tmp_path / "saved.run"), pickle.loads(pickle.dumps(run))):
        assert again.user_vectors.users == vectors.users and np.array_equal(again.user_vectors.values, vectors.values)
    if scenario == "small":
        file = tmp_path / "model.npz"
        words = ["--save-model", str(file), "--save-users", "7", "--out", str(tmp_path / "out"), "--progress", "off"]
        command = [sys.executable, "-m", "fedrecsim", "run", _written(world, tmp_path), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert np.array_equal(np.load(file)["u-7"], vectors.values[7])


def _written(world: dict, folder: Path) -> str:
    file = folder / "small.toml"
    file.write_text(fedrecsim.resolve(world, set=WHOLE))
    return str(file)


@pytest.mark.parametrize(("method", "name", "length"), [("fedrap", "w", 32), ("pfedrec", "w", 32), ("fedncf", "u", 32)])
def test_the_vector_has_the_name_of_the_paper(small: dict, method: str, name: str, length: int) -> None:
    """If this fails, the vector of a method is another part of what its users keep."""
    run = fedrecsim.run(small, set={"method": method}, progress=False, save_users=[1])
    assert run.user_vectors.name == name and run.user_vectors.values.shape == (1, length)


def test_a_user_who_never_took_part_has_what_was_drawn(small: dict) -> None:
    """If this fails, users whom no round has reached have no row, or zeros."""
    run = fedrecsim.run(small, set={"training.participation": {"cohort": 1}}, progress=False, save_users="all")
    assert (np.abs(run.user_vectors.values).max(axis=1) > 0).all()


def test_what_is_not_there_says_what_to_do(small: dict) -> None:
    """If this fails, nobody knows how to get the vectors, or that a method has none."""
    with pytest.raises(fedrecsim.ScenarioError, match='save_users="all"'):
        fedrecsim.run(small, progress=False).user_vectors
    for method in ("fedrecon", "bpr-mf", "popularity"):
        run = fedrecsim.run(small, set={"method": method}, progress=False, save_users="all")
        with pytest.raises(fedrecsim.ScenarioError, match=f"`{method}` keep no vector"):
            run.user_vectors
    with pytest.raises(fedrecsim.ScenarioError, match="`fedrecon` keep no vector"):
        fedrecsim.Simulation(small, set={"method": "fedrecon"}).user_vectors()
    # A wrong name is told before anything is trained.
    with pytest.raises(fedrecsim.ScenarioError, match='no user "60"'):
        fedrecsim.run(small, set={"training.rounds": 1_000_000}, progress=False, save_users=[60])
    with pytest.raises(fedrecsim.ScenarioError, match="names nobody"):
        fedrecsim.run(small, progress=False, save_users=[])
