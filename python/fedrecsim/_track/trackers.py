"""The trackers: what each does with a run.

A tracker is a class with the three methods of `Tracker` and a line in `TRACKERS`. Each method may take its time and may
raise: it is called on a thread of the tracker's own, and a failure never reaches the run.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Callable, Mapping, NamedTuple, Protocol, Sequence, Union, runtime_checkable

from .. import _native
from .figures import Value

#: The experiment of MLflow and the project of W&B, unless their own settings name another one.
PROJECT = "fedrecsim"


class Round(NamedTuple):
    """The figures of a round by their names, such as `test/hr_at_10`, without those that the round does not have."""

    number: int
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Ended:
    """The end of a run."""

    #: The accuracy at the round that the run is judged by, as `final/test_hr_at_10`.
    figures: Mapping[str, float]
    #: The digest of the result; `None` if the run has failed without a result.
    digest: str | None
    #: Why the run has ended before its last round, if it has.
    stopped_by: str | None
    #: A folder with the files of the report, which is removed afterwards.
    folder: Path


@runtime_checkable
class Tracker(Protocol):
    """What a tracker does with runs, which come one after the other."""

    def begin(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Begins a run with this name and these parameters, such as `training.rounds`."""

    def rounds(self, rounds: Sequence[Round]) -> None:
        """Takes the rounds that have ended since the last call. A round comes once more if it has figures that are
        known at the end only; these alone are then among its figures."""

    def end(self, ended: Ended) -> None:
        """Takes the end of the run."""


#: Trackers by their names, or any object with their methods.
Track = Union[str, Tracker, Sequence[Union[str, Tracker]]]


class Mlflow:
    """A run of MLflow, in the experiment and on the server that MLflow's own variables name. It does not become
    MLflow's active run, and leaves one that is active alone."""

    def __init__(self) -> None:
        self._mlflow = _needed("mlflow", "mlflow")

    def begin(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Creates the run."""
        self._client = self._mlflow.MlflowClient()
        self._run = self._client.create_run(self._experiment(), run_name=name).info.run_id
        self._log_parameters(parameters)

    def rounds(self, rounds: Sequence[Round]) -> None:
        """Logs the figures with the round as their step."""
        self._log([(name, value, number) for number, figures in rounds for name, value in figures.items()])

    def end(self, ended: Ended) -> None:
        """Logs the accuracy, the digest and the report, and ends the run."""
        self._log([(name, value, 0) for name, value in ended.figures.items()])
        self._log_parameters({"digest": ended.digest} if ended.digest else {})
        if ended.stopped_by:
            self._client.set_tag(self._run, "stopped_by", ended.stopped_by)
        self._client.log_artifacts(self._run, str(ended.folder), "report")
        # It prints where the run is, and standard output belongs to results.
        with contextlib.redirect_stdout(sys.stderr):
            self._client.set_terminated(self._run, "FAILED" if ended.stopped_by else "FINISHED")

    def _experiment(self) -> str:
        """Returns the experiment's number. Another process may create the experiment at the same time."""
        if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return number
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        if found := self._client.get_experiment_by_name(name):
            return str(found.experiment_id)
        try:
            return str(self._client.create_experiment(name))
        except self._mlflow.exceptions.MlflowException:
            return str(self._client.get_experiment_by_name(name).experiment_id)

    def _log(self, figures: Sequence[tuple[str, float, int]]) -> None:
        """Logs figures with their steps, as many at a time as MLflow takes."""
        now = int(time.time() * 1e3)
        metrics = [self._mlflow.entities.Metric(name, value, now, step) for name, value, step in figures]
        for first in range(0, len(metrics), 1000):
            self._client.log_batch(self._run, metrics=metrics[first : first + 1000])

    def _log_parameters(self, parameters: Mapping[str, Value]) -> None:
        """Logs parameters, as many at a time as MLflow takes."""
        params = [self._mlflow.entities.Param(name, str(value)) for name, value in parameters.items()]
        for first in range(0, len(params), 100):
            self._client.log_batch(self._run, params=params[first : first + 100])


class Wandb:
    """A run of W&B, in the project that W&B's own settings name. It does not become W&B's active run, and leaves one
    that is active alone."""

    def __init__(self) -> None:
        self._wandb = _needed("wandb", "wandb")
        self._settings = self._wandb.setup().settings
        if self._settings.mode in ("online", "run", "shared"):
            try:
                # W&B asks for a key where there is a terminal, and must not do so while the run shows its progress.
                self._wandb.login(verify=False)
            except self._wandb.Error as reason:
                raise _native.ScenarioError(
                    f"the tracker `wandb` cannot log in: {reason} Or keep the run here by WANDB_MODE=offline."
                ) from None

    def begin(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Starts the run. Standard output and standard error are left alone."""
        self._name = name
        self._run = self._wandb.init(
            project=self._settings.project or PROJECT,
            name=name,
            config=dict(parameters),
            reinit="create_new",
            settings=self._wandb.Settings(
                console="off", max_end_of_run_history_metrics=0, max_end_of_run_summary_metrics=0
            ),
        )
        # Charts go by the round. W&B's own step only grows, and a round may come twice.
        self._run.define_metric("*", step_metric="round")

    def rounds(self, rounds: Sequence[Round]) -> None:
        """Logs the figures beside the round."""
        for number, figures in rounds:
            self._run.log({"round": number, **figures})

    def end(self, ended: Ended) -> None:
        """Logs the accuracy, the digest and the report, and ends the run."""
        self._run.summary.update(dict(ended.figures))
        told = {"digest": ended.digest, "stopped_by": ended.stopped_by}
        self._run.config.update({name: value for name, value in told.items() if value is not None})
        artifact = self._wandb.Artifact(f"report-{_file_name(self._name)}", type="report")
        artifact.add_dir(str(ended.folder))
        self._run.log_artifact(artifact)
        self._run.finish(exit_code=1 if ended.stopped_by else 0)


class Tensorboard:
    """A folder below `runs` with event files for TensorBoard, written by tensorboardX: it needs neither TensorFlow nor
    PyTorch. Values are in single precision there."""

    def __init__(self) -> None:
        self._tensorboard = _needed("tensorboardX", "tensorboard")

    def begin(self, name: str, parameters: Mapping[str, Value]) -> None:
        """Begins the folder, and shows the parameters as a text."""
        self._parameters = dict(parameters)
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
        self._folder = Path("runs", f"{_file_name(name)}-{stamp}").absolute()
        # The hyperparameters are in a file of their own, whose name is that of this one within the same second.
        self._writer = self._tensorboard.SummaryWriter(str(self._folder), flush_secs=1, filename_suffix=".rounds")
        lines = [f"| `{key}` | {value} |" for key, value in parameters.items()]
        self._writer.add_text("parameters", "\n".join(["| key | value |", "|---|---|", *lines]))

    def rounds(self, rounds: Sequence[Round]) -> None:
        """Writes the figures with the round as their step."""
        for number, figures in rounds:
            for name, value in figures.items():
                self._writer.add_scalar(name, value, number)

    def end(self, ended: Ended) -> None:
        """Writes parameters and accuracy for the page of hyperparameters, and copies the report beside the events."""
        self._parameters["digest"] = ended.digest or ""
        self._writer.add_hparams(self._parameters, dict(ended.figures), name=".")
        if ended.stopped_by:
            self._writer.add_text("stopped_by", ended.stopped_by)
        self._writer.close()
        shutil.copytree(ended.folder, self._folder / "report")


#: The trackers by their names.
TRACKERS: dict[str, Callable[[], Tracker]] = {"mlflow": Mlflow, "tensorboard": Tensorboard, "wandb": Wandb}


class NotInstalled(_native.ScenarioError):
    """The library of a tracker cannot be imported."""


def chosen(track: Track | None, warn: Callable[[str], None]) -> list[Tracker]:
    """Returns the trackers that were asked for, ready to begin. One whose library is not installed is left out, and
    `warn` is told: a run goes on without it.

    Raises ScenarioError for a name that no tracker has.
    """
    if track is None:
        return []
    ready = []
    for one in track if isinstance(track, (list, tuple)) else [track]:
        try:
            ready.append(_made(one))
        except NotInstalled as missing:
            warn(str(missing))
    return ready


def _made(tracker: object) -> Tracker:
    """Returns the tracker of a name, or one of the user's own as it is."""
    if isinstance(tracker, str) and tracker in TRACKERS:
        return TRACKERS[tracker]()
    if isinstance(tracker, Tracker) and not isinstance(tracker, type):
        return tracker
    raise _native.ScenarioError(
        f"there is no tracker {tracker!r:.80}; there are {', '.join(TRACKERS)}, and in Python objects with "
        "the methods of fedrecsim.Tracker"
    )


def _needed(module: str, extra: str) -> ModuleType:
    """Imports the package of a tracker. Raises NotInstalled with the remedy if it cannot be imported."""
    reason = f"no module named {module!r}"
    try:
        found = importlib.import_module(module)
        # W&B leaves a folder `wandb` where it has run, which Python takes for a package without code.
        if found.__file__ is not None:
            return found
    except ImportError as fault:
        reason = str(fault)
    raise NotInstalled(
        f"the tracker `{extra}` is not installed ({reason}); install it by `pip install \"fedrecsim[{extra}]\"`"
    )


def _file_name(text: str) -> str:
    """Returns a text as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text)
