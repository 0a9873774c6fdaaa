"""What remains of a run."""

from __future__ import annotations

import builtins
import html
import json
import os
import warnings
from typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence

from . import _inputs, _native, _saved, records
from ._arrays import Matrix
from ._columns import at
from .table import Table

if TYPE_CHECKING:
    import numpy as np

    from .simulation import Simulation


class Run:
    """What remains of a run: figures, tables, charts and the trained model.

    `rounds`, `users` and `events` are tables that pandas, polars and pyarrow read without a copy. `model["C"]` is an
    array. In a notebook a run shows its summary and its charts.
    """

    def __init__(self, report: _native.Report, source: _inputs.Source) -> None:
        self._report = report
        self._source = source
        #: `run.json` of the report, as a dictionary.
        self.record: records.RunRecord = json.loads(report.json)
        self._events: Table | None = None
        self._trained: Simulation | None = None

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.record["name"]

    @property
    def seed(self) -> int:
        """The seed."""
        return self.record["seed"]

    @property
    def digest(self) -> str:
        """The digest of the result. It is the same on every machine, at any number of threads, and in the command."""
        return self.record["digest"]

    @property
    def complete(self) -> bool:
        """Whether every round of the scenario was finished."""
        return self.record["complete"]

    @property
    def stopped_by(self) -> str | None:
        """Why the run ended before its last round, if it did."""
        return self.record.get("stopped_by")

    @property
    def accuracy(self) -> records.Accuracy:
        """The figures of accuracy at the round that the run is judged by, as `accuracy["test"]["hr@10"]`."""
        return self.record["accuracy"]

    @property
    def baselines(self) -> dict[str, records.Accuracy]:
        """The figures of trivial methods on the same items."""
        return self.record["baselines"]

    @property
    def beyond_accuracy(self) -> records.BeyondAccuracy | None:
        """What the lists are like that users would be shown, as `beyond_accuracy["method"]["coverage"]`; `None` where
        no item is held out, and if the run was stopped early."""
        return self.record.get("beyond_accuracy")

    @property
    def bytes(self) -> records.Bytes:
        """The bytes of the whole run, as `bytes["up"]["sent"]`."""
        return self.record["bytes"]

    @property
    def virtual_time_s(self) -> float:
        """The virtual time at the end of the last finished round."""
        return self.record["virtual_time_s"]

    @property
    def scenario(self) -> str | None:
        """The scenario as it was resolved, with every preset and default, as TOML that can be run."""
        return self._report.scenario

    @property
    def rounds(self) -> Table:
        """A row for every finished round, with the columns of `rounds.csv`."""
        return Table(self._report.rounds)

    @property
    def users(self) -> Table | None:
        """A row for every user with its number and its name in the ratings, and the columns of `users.csv`; `None` if
        there are more than the scenario has listed."""
        users = self._report.users
        return None if users is None else Table(users)

    @property
    def items(self) -> Table:
        """A row for every item with its number and its name in the ratings, and the columns of `items.csv`."""
        return Table(self._report.items)

    @property
    def events(self) -> Table:
        """A row for everything that happened on links and devices.

        A run does not keep it. When it is first asked for, the scenario is run once more without its evaluations, and
        does the same. Raises FedrecsimError where it does not, as with a method in Python whose results change, and
        ScenarioError for a simulation whose model was set by hand, which no scenario says.
        """
        if self._events is None:
            self._events = self.events_of()
        return self._events

    def events_of(self, from_round: int = 1, to_round: int | None = None) -> Table:
        """Returns what happened in the participations that began in these rounds."""
        source = self._again()
        events, sent, model = _native.events(source, from_round, to_round or max(self.record["rounds"], 1))
        whole = self.complete and to_round is None
        if whole and (sent != (self.bytes["up"]["sent"], self.bytes["down"]["sent"]) or not self._has(model)):
            raise _native.FedrecsimError(
                "running the scenario once more sends other bytes or ends with another model than the run: its method "
                "does not do the same each time, or the model was set by hand before a state was saved"
            )
        return Table(events)

    def _again(self) -> _inputs.Source:
        """Returns what runs the scenario once more, with as few evaluations as possible: they take no virtual time."""
        if not self.scenario:
            raise _native.ScenarioError("the scenario of the run cannot be written as TOML")
        if self._source.get("by_hand"):
            raise _native.ScenarioError("the model was set by hand, so that no other run of the scenario does the same")
        rounds = at(self.record["scenario"], "training")["rounds"]
        fewer = {"evaluation.every_rounds": rounds, "evaluation.users": 1}
        source = _inputs.given(self.scenario, fewer, data_dir=self._source.get("data_dir"), name=self.name)
        # It uses the methods of the run, even if their names now belong to other classes. Another process has only
        # those by name.
        source["methods"] = self._source.get("methods", source["methods"])
        source["ratings"] = self._source.get("ratings")
        source["start"] = self._source.get("start")
        return source

    def recommend(self, user: str | int, top: int = 10) -> list[records.Recommended]:
        """Returns the `top` items that the trained run would show a user, as `Simulation.recommend` does.

        Without `keep_checkpoint=True` a run does not keep its users' parameters. When they are first asked for, it is trained
        once more, which a warning says. Raises FedrecsimError where that does not end with the same model.
        """
        return self._trained_once_more().recommend(user, top)

    def scores(self, users: Sequence[str | int] | None = None) -> Matrix:
        """Returns the scores that the trained run has for all items, those included that a user has rated: an array of
        the shape (users, items) in single precision. Columns are in the order of `items`.

        `users` are the names of users in the ratings; without them, it is all of them in the order of `users`. It is
        trained once more, as for `recommend`, and raises what that raises.
        """
        return self._trained_once_more().scores(users)

    def _trained_once_more(self) -> Simulation:
        """Returns a simulation that stands at the round that the run is judged by."""
        if self._trained is None:
            from .simulation import Simulation

            source = self._again()
            selected = self.record["selected_round"] or self.record["rounds"]
            kept = self._report.kept
            if kept is not None and selected == self.record["rounds"]:
                self._trained = Simulation._of(source, _native.Simulation.restore(source, kept))
                return self._trained
            warnings.warn("the run has not kept its users' parameters, and is trained once more", stacklevel=3)
            simulation = Simulation._of(source, _native.Simulation(source))
            # What is shown is what the run's accuracy is of.
            simulation.step_until(round=selected)
            self._trained = simulation
            if not simulation.is_over:
                self._trained = Simulation._of(source, _native.Simulation.restore(source, simulation.save()))
            simulation.step_until(round=self.record["rounds"])
            if not self._has(simulation.model):
                self._trained = None
                raise _native.FedrecsimError("training once more ends with another model than that of the run")
        return self._trained

    def _has(self, model: Mapping[str, Matrix]) -> bool:
        """Returns whether this is the run's model, bit by bit."""
        return all(block.tobytes() == model[name].tobytes() for name, block in self.model.items())

    @property
    def model(self) -> dict[str, Matrix]:
        """The blocks of the trained model by their names: arrays of the shape (rows, columns) in single precision, which
        cannot be written to. The rows of a table of items are in the order of `items`."""
        return self._report.model

    def parameters(self) -> builtins.bytes | str:
        """Returns the parameters of the end, from which another run can start, or the path of the folder where they are.

        Raises ScenarioError if the run has not kept them.
        """
        kept = self._report.kept
        if kept is not None:
            return kept
        if "kept_in" in self._source:
            return str(self._source["kept_in"])
        raise _native.ScenarioError(
            "the run has not kept its parameters, so that no other can start from them: run it with "
            "`keep_checkpoint=True`, and it keeps them in the folder `out`, or in memory without one"
        )

    @property
    def user_vectors(self) -> UserVectors:
        """The vectors that users had for themselves at the end of the run, with their names beside them.

        Raises ScenarioError if they were not saved, and for a method whose users keep none.
        """
        saved = self._report.vectors
        if saved is not None:
            return vectors_of(self.record["scenario"]["method"], *saved)
        kept = self._report.kept
        if kept is not None:
            from .simulation import Simulation

            source = self._again()
            return Simulation._of(source, _native.Simulation.restore(source, kept)).user_vectors()
        remedy = 'run it with `save_users=[...]`, or `save_users="all"` for all users'
        if self.stopped_by is not None:
            remedy = f"it stopped early ({self.stopped_by}), when some of them may have been in training"
        raise _native.ScenarioError(f"the run has not saved the vectors of its users: {remedy}")

    @property
    def charts(self) -> dict[str, str]:
        """The charts of the report as SVG, by the names of their files."""
        return {name: data.decode() for name, data in self._report.files().items() if name.endswith(".svg")}

    @property
    def summary(self) -> str:
        """The summary that the command prints."""
        return self._report.summary

    def plot(self, chart: str = "accuracy-by-bytes") -> Picture:
        """Returns a chart for a notebook to show: `accuracy-by-bytes`, `-by-round`, `-by-uploads`, `-by-time`, or
        `sparsity-by-round`."""
        return Picture(self.charts[f"{chart}.svg"])

    def write(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the report to a folder, as the command does."""
        self._report.write(os.fspath(folder), overwrite)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the run to one file (a zip archive with the files of its report, its tables and its model), for `load`."""
        _saved.save(self._report, os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Returns a run that `save` has saved. It runs no code of the file.

        Raises ScenarioError for another file, and FileNotFoundError if there is none.
        """
        return cls(_saved.load(os.fspath(path)), {})

    def check(self) -> Run:
        """Returns the run if it is complete.

        Raises FedrecsimError with the reason if it is not.
        """
        if not self.complete:
            raise _native.FedrecsimError(f"stopped after round {self.record['rounds']}: {self.stopped_by}")
        return self

    def __repr__(self) -> str:
        test = ", ".join(f"{name} {value:.3f}" for name, value in list(self.accuracy["test"].items())[:2])
        ending = "" if self.complete else f", stopped: {self.stopped_by}"
        return f"Run({self.name}, seed {self.seed}: {self.record['rounds']} rounds, {test or 'not evaluated'}{ending})"

    def _repr_html_(self) -> str:
        charts = self.charts
        shown = [charts[name] for name in ("accuracy-by-bytes.svg", "sparsity-by-round.svg") if name in charts]
        return f"<pre>{html.escape(self.summary)}</pre>" + "".join(f"<div>{chart}</div>" for chart in shown)

    def __reduce__(self) -> tuple[type[Run], tuple[_native.Report, _inputs.Source]]:
        kept: _inputs.Source = {}
        if "data_dir" in self._source:
            kept["data_dir"] = self._source["data_dir"]
        if "by_hand" in self._source:
            kept["by_hand"] = self._source["by_hand"]
        if "kept_in" in self._source:
            kept["kept_in"] = self._source["kept_in"]
        return (Run, (self._report, kept))


class UserVectors(NamedTuple):
    """The vectors that users keep for themselves."""

    #: The names of the users in the ratings.
    users: list[str]
    #: A row for each user, in single precision.
    values: Matrix
    #: The name of the vector in the papers: `u` of FedMF, `w` of FedRAP.
    name: str


def vectors_of(method: object, users: list[str], found: tuple[str, Matrix] | None) -> UserVectors:
    """Returns the vectors of these users of a method.

    Raises ScenarioError if its users keep none.
    """
    if found is None:
        name = next(iter(method)) if isinstance(method, Mapping) else method
        raise _native.ScenarioError(
            f"the users of `{name}` keep no vector: it has none, its server has it (`run.model`), or a device works it out "
            "when it scores (`run.scores()`)"
        )
    return UserVectors(users, found[1], found[0])


class Picture:
    """A chart that a notebook shows."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the chart to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)
