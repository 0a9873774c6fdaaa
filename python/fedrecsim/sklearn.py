"""A recommender in scikit-learn's contract, for its searches and pipelines. Needs scikit-learn."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Mapping, Sequence, Union

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import _inputs, _native, _ratings
from ._arrays import Anything, Values
from ._errors import ScenarioError
from .run import Run
from .running import RunStopped
from .simulation import Simulation

#: The id of a user or an item.
Id = Union[int, str]

#: What a fit sets unless the scenario or a parameter says something else: every user trains on all but its latest item,
#: which the simulator holds out, and users with a single item are left out.
_SETTINGS: Mapping[str, object] = {
    "dataset.split": {"leave-one-out": {"validation_item": False}},
    "dataset.on_unusable_user": "leave-out",
    "evaluation.ranking": "full-catalogue",
}


class Recommender(BaseEstimator):  # type: ignore[misc]
    """A federated recommender that is fitted to ratings, scores rows that it has not seen, and recommends items.

    `method` is the name of a method, and `scenario` what its run is simulated in, in which it takes the place of the method
    there; without one, that is one of 20 rounds and defaults otherwise. `metric` is what `score` returns, a metric of ranks such as `hr@10` (see
    `fedrecsim.metrics`). `columns` names columns of ratings that have no usual names, as `{"user": "member"}`.

    All other parameters are those of the method, such as `latent_dimension`, and keys of the scenario with two underscores
    in the place of dots, such as `training__rounds`. `fit` checks them.

    A fitted recommender has the scores of all users and items, users x items x 4 bytes:

    - `users_`, `items_`: the ids, in the order of the rows and columns of `scores_`. Integers stay integers, other ids are
      texts.
    - `scores_`: the array of scores, of the shape (users, items).
    - `run_`: the `Run` with everything else that was simulated.
    """

    def __init__(
        self,
        method: str = "fedmf",
        *,
        scenario: _inputs.Scenario | None = None,
        metric: str = "ndcg@10",
        columns: Mapping[str, str | int] | None = None,
        seed: int = 1,
        threads: int | None = None,
        **parameters: object,
    ) -> None:
        self.method = method
        self.scenario = scenario
        self.metric = metric
        self.columns = columns
        self.seed = seed
        self.threads = threads
        self._parameters = parameters

    #: The parameters that every recommender has.
    _OWN = ("method", "scenario", "metric", "columns", "seed", "threads")

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Returns the parameters by their names."""
        return {name: getattr(self, name) for name in self._OWN} | self._parameters

    def set_params(self, **parameters: object) -> Recommender:
        """Sets parameters, and returns the recommender."""
        for name, value in parameters.items():
            if name in self._OWN:
                setattr(self, name, value)
            else:
                self._parameters[name] = value
        return self

    def fit(self, X: _ratings.Ratings, y: object = None) -> Recommender:
        """Trains on ratings as `fedrecsim.run` takes them, and returns the recommender. `y` is not used.

        Raises ScenarioError for ratings and parameters that cannot be used.
        """
        base = self.scenario
        if base is None:
            base = {"method": self.method, "dataset": {"name": "generated"}, "training": {"rounds": 20}}
        given = _ratings.given(X, None, {"dataset.columns": dict(self.columns or {})})
        source = _inputs.given(base, self._changes(), self.seed, ratings=given)
        simulation = Simulation._of(source, _native.Simulation(source, _inputs.threads_of(self.threads)))
        for _ in simulation:
            pass
        if simulation.stopped_by:
            warnings.warn(f"stopped after round {simulation.rounds}: {simulation.stopped_by}", RunStopped, stacklevel=2)
        users, items = simulation._native.names()
        self.scores_ = simulation.scores()
        self.run_: Run = simulation.finish()
        self.n_features_in_ = 2
        self._learn(users, items, *_ratings.pairs(X, self.columns or {}))
        return self

    def _changes(self) -> dict[str, object]:
        """Returns what is set in the scenario."""
        own = {name: value for name, value in self._parameters.items() if "__" not in name}
        keys = {name.replace("__", "."): value for name, value in self._parameters.items() if "__" in name}
        settings = {} if self.scenario is not None else dict(_SETTINGS)
        return {"method": {self.method: own} if own else self.method} | settings | keys

    def _learn(self, users: Sequence[str], items: Sequence[str], of_users: Sequence[Id], of_items: Sequence[Id]) -> None:
        """Learns who is who: the ids by the simulator's names, and what each user has rated."""
        self.users_, self.items_ = _ids(users, of_users), _ids(items, of_items)
        self._users = {user: number for number, user in enumerate(self.users_.tolist())}
        self._items = {item: number for number, item in enumerate(self.items_.tolist())}
        rated = defaultdict(set)
        for user, item in zip(of_users, of_items):
            if user in self._users and item in self._items:
                rated[self._users[user]].add(self._items[item])
        self._rated = [sorted(rated[number]) for number in range(len(users))]

    def recommend(self, users: Sequence[Id] | Anything, n: int = 10) -> list[list[Id]]:
        """Returns `n` items for each of `users`, the best first, without those that the user has rated.

        Raises ScenarioError for a user whom the fit did not see.
        """
        check_is_fitted(self)
        _inputs.count_of("n", n)
        if isinstance(users, str):
            raise ScenarioError(f"`users` must be a list of users, and is the text {users!r}: write [{users!r}]")
        shown = []
        for user in users:
            number = self._number(user)
            scores = self.scores_[number].copy()
            scores[self._rated[number]] = -np.inf
            best = np.argsort(-scores, kind="stable")[: max(0, min(n, len(scores) - len(self._rated[number])))]
            shown.append(self.items_[best].tolist())
        return shown

    def predict(self, X: _ratings.Ratings) -> Values:
        """Returns the score of the user and the item of each row, of the shape (rows,); NaN where the fit did not see
        one of them."""
        check_is_fitted(self)
        users, items = _ratings.pairs(X, self.columns or {})
        places = [(self._users.get(user), self._items.get(item)) for user, item in zip(users, items)]
        return np.array([np.nan if None in place else self.scores_[place] for place in places], dtype=np.float32)

    def score(self, X: _ratings.Ratings, y: object = None) -> float:
        """Returns the metric with the items of these rows as held out, as a mean over users. `y` is not used.

        All items that the user has not rated in the fit are ranked. Users whom the fit did not see are left out, and items
        that it did not see count as missed. Raises ScenarioError if nobody is left.
        """
        check_is_fitted(self)
        held_out = defaultdict(set)
        # Numbers of no item, which are ranked nowhere.
        unseen: dict[Id, int] = {}
        for user, item in zip(*_ratings.pairs(X, self.columns or {})):
            if (number := self._users.get(user)) is not None:
                place = self._items.get(item)
                if place is None:
                    place = unseen.setdefault(item, len(self.items_) + len(unseen))
                held_out[number].add(place)
        for number, own in held_out.items():
            own.difference_update(self._rated[number])
        chosen = [number for number in sorted(held_out) if held_out[number]]
        if not chosen:
            raise ScenarioError("none of these rows has a user whom the fit has seen, with an item that is new to it")
        wanted = [sorted(held_out[number]) for number in chosen]
        means, _ = _native.means_of_scores(
            [self.metric], np.ascontiguousarray(self.scores_[chosen]), wanted, [self._rated[number] for number in chosen]
        )
        return means[self.metric]

    def _number(self, user: Id | np.generic) -> int:
        """Returns the number of a user by its id."""
        key = user.item() if isinstance(user, np.generic) else user
        number = self._users.get(key)
        if number is None:
            number = self._users.get(str(key))
        if number is None:
            first = self.users_[:3].tolist()
            raise ScenarioError(f"the fit has not seen the user {user!r}; it has {len(self.users_)} users, such as {first}")
        return number

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scores_")


def _ids(names: Sequence[str], values: Sequence[Id]) -> Anything:
    """Returns ids in the order of the simulator's names: integers if the column has them, else texts."""
    # An id that is missing is an empty text.
    if any(isinstance(value, int) for value in values):
        return np.array([int(name) for name in names])
    return np.array(names, dtype=object)
