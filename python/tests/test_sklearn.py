"""The estimator in scikit-learn's contract."""

from __future__ import annotations

import pickle

import fedrecsim
import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

from fedrecsim.sklearn import Recommender  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold, train_test_split  # noqa: E402


@pytest.fixture
def plays():
    """Two groups of users, each with its own half of the items."""
    rng = np.random.default_rng(2)
    users, items = np.repeat(np.arange(40), 12), []
    for user in range(40):
        items.append(rng.permutation(20)[:12] + 20 * (user % 2))
    return pandas.DataFrame({"user_id": users + 1000, "item_id": [f"film {item}" for item in np.concatenate(items)]})


FAST = {"latent_dimension": 4, "training__rounds": 10}


def test_it_learns_scores_and_recommends(plays) -> None:
    """If this fails, a fit has no effect, or it recommends what a user knows."""
    train, test = train_test_split(plays, test_size=0.2, random_state=0)
    model = Recommender("fedmf", **FAST).fit(train)
    [shown] = model.recommend([1000], n=5)
    known = set(train[train.user_id == 1000].item_id)
    assert len(shown) == 5 and not known & set(shown) and all(name.startswith("film ") for name in shown)
    assert 0 < model.score(test) <= 1 and model.users_.dtype == np.int64 and model.scores_.shape == (40, 40)
    scores = model.predict(test)
    assert scores.shape == (len(test),) and np.isfinite(scores).all()
    unseen = pandas.DataFrame({"user_id": [1, 1000], "item_id": ["film 1", "film 999"]})
    assert np.isnan(model.predict(unseen)).all() and model.score(unseen) == 0.0
    again = pickle.loads(pickle.dumps(model))
    assert again.recommend([1000], n=5) == [shown]
    with pytest.raises(fedrecsim.ScenarioError, match="has not seen the user 7"):
        model.recommend([7])
    for wrong in (-1, 0, 2.5, True):
        with pytest.raises(fedrecsim.ScenarioError, match="`n` must be a whole number from 1"):
            model.recommend([1000], n=wrong)
    with pytest.raises(fedrecsim.ScenarioError, match="must be a list of users"):
        model.recommend("1000")
    with pytest.raises(fedrecsim.ScenarioError, match="none of these rows"):
        model.score(unseen[:1])


def test_it_is_an_estimator(plays) -> None:
    """If this fails, scikit-learn cannot copy or search it."""
    model = Recommender("fedmf", metric="hr@5", seed=3, **FAST)
    assert clone(model).get_params() == model.get_params() == {
        "method": "fedmf", "scenario": None, "metric": "hr@5", "columns": None, "seed": 3, "threads": None, **FAST
    }  # fmt: skip
    assert model.set_params(latent_dimension=8) is model and model.get_params()["latent_dimension"] == 8
    assert "latent_dimension=8" in repr(model)
    for call in (model.recommend, model.score, model.predict):
        with pytest.raises(NotFittedError):
            call(plays)
    with pytest.raises(ValueError, match="did you mean `latent_dimension`"):
        Recommender("fedmf", latent_dimensoin=3).fit(plays)
    other = plays.rename(columns={"user_id": "who"})
    named = Recommender("fedmf", columns={"user": "who"}, **FAST).fit(other)
    assert named.run_.digest == Recommender("fedmf", **FAST).fit(plays).run_.digest
    scenario = {"dataset": {"name": "generated"}, "training": {"rounds": 2}, "evaluation": {"ranking": "full-catalogue"}}
    assert Recommender("fedmf", scenario=scenario).fit(plays).run_.record["rounds"] == 2


def test_a_grid_search_finds_the_better_parameters(plays) -> None:
    """If this fails, the search of scikit-learn does not work, or does not tell good parameters from bad ones."""
    grid = {"learning_rate_items": [1e-6, 10_000.0], "training__rounds": [5]}
    search = GridSearchCV(
        Recommender("fedmf", metric="hr@10"), grid, cv=KFold(3, shuffle=True, random_state=0), error_score="raise"
    ).fit(plays)
    assert search.best_params_["learning_rate_items"] == 10_000.0 and search.best_score_ > 0.4
    assert len(search.best_estimator_.recommend([1000, 1001], n=3)) == 2
