"""Trackers: what MLflow, W&B and TensorBoard have of a run, read from what they have written."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import fedrecsim
import pytest
from fedrecsim._track import figures
from test_track import TOML, expected


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Works in a folder of the test's own, in which the trackers keep everything, and where nobody is logged in."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WANDB_"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "WANDB_DATA_DIR", "WANDB_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    # A folder, as MLflow takes long to make a database.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tmp_path / "a.toml").write_text(TOML)
    return tmp_path


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Carries out the command of the package."""
    return subprocess.run([sys.executable, "-m", "fedrecsim", *words], capture_output=True, text=True, check=False)


def script(source: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in an interpreter of its own: the libraries read their variables once in a process."""
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)


class Seen:
    """What a tracker has of a run."""

    def __init__(self) -> None:
        self.name = self.state = ""
        self.parameters: dict[str, str] = {}
        self.curves: dict[int, dict[str, float]] = {}
        self.final: dict[str, float] = {}
        self.files: set[str] = set()

    def add(self, name: str, value: float, number: int) -> None:
        """Adds a point of a curve."""
        self.curves.setdefault(number, {})[name] = value


def in_mlflow() -> list[Seen]:
    """Returns the runs in MLflow's store, the oldest first."""
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(os.environ["MLFLOW_TRACKING_URI"])
    experiment = client.get_experiment_by_name("fedrecsim")
    found = []
    for run in client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"]):
        seen = Seen()
        seen.name, seen.state, seen.parameters = run.info.run_name, run.info.status, dict(run.data.params)
        for name in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, name):
                if name.startswith("final/"):
                    seen.final[name] = point.value
                else:
                    seen.add(name, point.value, point.step)
        seen.files = {Path(file.path).name for file in client.list_artifacts(run.info.run_id, "report")}
        found.append(seen)
    return found


def in_wandb() -> list[Seen]:
    """Returns the runs that W&B has kept on this machine, the oldest first."""
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    def pairs(items: Any) -> dict[str, Any]:
        return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}

    found = []
    for path in sorted(Path("wandb").glob("offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        seen = Seen()
        for content in _records_of_log(path.read_bytes()):
            record = Record.FromString(content)
            if record.HasField("run"):
                seen.name = record.run.display_name
            for update in (record.run.config.update, record.config.update):
                seen.parameters |= {key: str(value) for key, value in pairs(update).items() if key != "_wandb"}
            row = pairs(record.history.item)
            for name in row:
                if not name.startswith("_") and name != "round":
                    seen.add(name, row[name], row["round"])
            final = pairs(record.summary.update)
            seen.final |= {name: value for name, value in final.items() if name.startswith("final/")}
            seen.files |= {entry.path for entry in record.artifact.manifest.contents}
            if record.HasField("exit"):
                seen.state = "FAILED" if record.exit.exit_code else "FINISHED"
        found.append(seen)
    return found


def in_tensorboard() -> list[Seen]:
    """Returns the runs in the folders for TensorBoard, the oldest first."""
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    found = []
    for folder in sorted(Path("runs").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        seen = Seen()
        seen.name = folder.name.split("-")[0]
        seen.files = {path.name for path in (folder / "report").iterdir()}
        for path in folder.glob("events.*"):
            for content in _records_of_events(path.read_bytes()):
                event = Event.FromString(content)
                for value in event.summary.value:
                    if value.tag == "_hparams_/session_start_info":
                        content = value.metadata.plugin_data.content
                        told = HParamsPluginData.FromString(content).session_start_info.hparams
                        kinds = {name: told[name].WhichOneof("kind") for name in told}
                        seen.parameters = {name: str(getattr(told[name], kinds[name])) for name in told}
                    elif value.tag == "_hparams_/session_end_info":
                        seen.state = "FINISHED"
                    elif value.tag.startswith("final/"):
                        seen.final[value.tag] = value.simple_value
                    elif value.WhichOneof("value") == "simple_value":
                        seen.add(value.tag, value.simple_value, event.step)
        found.append(seen)
    return found


def _records_of_log(data: bytes) -> Iterator[bytes]:
    """Yields the records of W&B's file: LevelDB's log, in blocks of 32 KiB, after a header of 7 bytes."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


def _records_of_events(data: bytes) -> Iterator[bytes]:
    """Yields the records of a file of TensorBoard's: length, its checksum, content, its checksum."""
    place = 0
    while place < len(data):
        (length,) = struct.unpack("<Q", data[place : place + 8])
        yield data[place + 12 : place + 12 + length]
        place += 16 + length


LIBRARIES = {
    "mlflow": ("mlflow", in_mlflow),
    "wandb": ("wandb", in_wandb),
    "tensorboard": ("tensorboardX", in_tensorboard),
}


def check(seen: Seen, run: fedrecsim.Run) -> None:
    """Compares what a tracker has with the run."""
    close = pytest.approx  # TensorBoard has single precision.
    told = figures.parameters_of(run.record["scenario"]) | {"digest": run.digest}
    assert set(seen.parameters) == set(told)
    for name, value in told.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert float(seen.parameters[name]) == close(value), name
        else:
            assert seen.parameters[name] == str(value), name
    wanted = expected(run)
    assert sorted(seen.curves) == sorted(wanted)
    for number, row in wanted.items():
        curves = dict(seen.curves[number])
        assert curves.pop(figures.WALL) > 0, number
        assert curves == close(row), number
    assert seen.final["final/test_hr_at_10"] == close(run.accuracy["test"]["hr@10"])
    assert {"run.json", "summary.md", "rounds.csv"} <= seen.files and "users.csv" not in seen.files
    assert (seen.name, seen.state) == (run.name, "FINISHED")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_has_the_run_from_python_and_from_the_command(library: str, place: Path) -> None:
    """If this fails, a tracker lacks a part of a run, or Python and the command do not tell the same of one."""
    module, seen = LIBRARIES[library]
    pytest.importorskip(module)
    # The energy of a round is known at the end only, and goes to the rounds that are there already.
    energy, change = "devices.preset=phone-wifi", {"devices.preset": "phone-wifi"}
    script(f"import fedrecsim; fedrecsim.run('a.toml', set={change}, track='{library}', progress=False)")
    plain = command("run", "a.toml", "--set", energy, "--json", "--out", "plain")
    tracked = command("run", "a.toml", f"--track={library}", "--set", energy, "--json", "--out", "tracked")
    assert (plain.returncode, tracked.returncode) == (0, 0), tracked.stderr
    results = [json.loads(done.stdout) | {"wall": None} for done in (plain, tracked)]
    assert results[0] == results[1]
    assert sorted(os.listdir("plain")) == sorted(os.listdir("tracked"))
    run = fedrecsim.run("a.toml", set=change, progress=False)
    runs = seen()
    assert len(runs) == 2 and "round/energy_j" in runs[0].curves[1]
    for one in runs:
        check(one, run)


def test_a_run_that_fails_is_shown_as_one(place: Path) -> None:
    """If this fails, a run that diverged looks like a good one, or its exit code is the tracker's."""
    pytest.importorskip("tensorboardX")
    names = [name for name, (module, _) in LIBRARIES.items() if _is_there(module)]
    changes = ["--set", "method.fedmf.learning_rate_items=1e6", "--set", "training.divergence_limit=10"]
    done = command("run", "a.toml", *changes, "--track", ",".join(names))
    assert done.returncode == 1 and "error: " in done.stderr, done
    for name in names:
        if name != "tensorboard":
            assert [one.state for one in LIBRARIES[name][1]()] == ["FAILED"], name


def test_a_server_that_is_not_there_costs_a_run_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a run of the command fails because of its tracker, or says nothing or more than once."""
    pytest.importorskip("mlflow")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Nobody listens there.
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        done = command("run", "a.toml", "--track", "mlflow")
    assert done.returncode == 0 and "digest" in done.stdout
    assert done.stderr.count("warning: the tracker `mlflow` lacks a part of this run") == 1, done.stderr
    assert Path("reports/a-7/run.json").is_file()


def test_a_server_of_mlflow_gets_the_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, `--json` has lines of MLflow's among its own, or a server refuses what a folder takes."""
    pytest.importorskip("mlflow")
    pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folders = ["--backend-store-uri", "store", "--artifacts-destination", "kept"]
    address = ["--host", "127.0.0.1", "--port", port]
    words = [sys.executable, "-m", "mlflow", "server", *address, "--workers", "1", *folders]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "startup complete" in line:
                break
        else:
            pytest.skip("the server of MLflow does not start here")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        done = command("run", "a.toml", "--track", "mlflow", "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["complete"], done
        assert "View run a at" in done.stderr
        [seen] = in_mlflow()
        check(seen, fedrecsim.run("a.toml", progress=False))
    finally:
        server.terminate()
        server.communicate()


def test_wandb_without_a_key_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a run in a batch job waits for a key, or is tracked by nobody."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")
    words = [sys.executable, "-m", "fedrecsim", "run", "a.toml", "--track", "wandb"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "WANDB_MODE=offline" in done.stderr, done
    assert not Path("reports").exists()


def _is_there(module: str) -> bool:
    """Returns whether a package is installed."""
    try:
        return __import__(module).__file__ is not None
    except ImportError:
        return False
