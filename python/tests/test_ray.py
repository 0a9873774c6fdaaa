"""Studies on a local Ray cluster of several nodes; one node is killed in the middle."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import fedrecsim
import pytest
from conftest import PATIENCE

ray = pytest.importorskip("ray", reason="ray is not installed")

#: A run on a node: three nodes of one processor each.
NODES = 3


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(NODES)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def long(small) -> dict:
    """A study of four runs that each take some seconds and leave many checkpoints."""
    base = small | {"training": {"rounds": 1500}, "evaluation": {"every_rounds": 100}}
    return {"base": base, "seeds": [1, 2, 3, 4]}


def raylet(node) -> int:
    """Returns the process that starts a node's workers."""
    return node.all_processes["raylet"][0].process.pid


def parents_of_holders(run: Path) -> set[int]:
    """Returns the parents of the processes that have a file of a run's folder open, as its lock."""
    parents = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file).startswith(f"{run}/") for file in (process / "fd").iterdir()):
                parents.add(int((process / "stat").read_text().rsplit(")", 1)[1].split()[1]))
        except OSError:
            continue
    return parents


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not tell who holds a file")
def test_a_node_that_is_lost_changes_no_digest(cluster, long, tmp_path: Path) -> None:
    """If this fails, the loss of a node loses runs, their results depend on it, or they begin anew."""
    whole, nodes = cluster
    local = fedrecsim.study(long, out=tmp_path / "local", jobs=1, progress=False)
    folder, killed = tmp_path / "ray", []

    def kill() -> None:
        # As soon as a run has left a checkpoint, the node that carries it out is killed.
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not killed:
            for run in {path.parent for path in folder.glob("runs/*/*/checkpoint-*.bin")}:
                node = next((node for node in nodes if raylet(node) in parents_of_holders(run)), None)
                if node is not None:
                    whole.remove_node(node, allow_graceful=False)
                    killed.append(run)
                    nodes.remove(node)
                    return
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    study = fedrecsim.study(long, executor="ray", out=folder, checkpoint_every=50, progress=False)
    thread.join()
    assert killed, "no node was killed while a run was at work"
    assert not study.failures
    assert study.digests == local.digests and len(study.digests) == 4
    assert "goes on from its last checkpoint" in killed[0].with_suffix(".log").read_text(), "the run began anew"
    nodes.append(whole.add_node(num_cpus=1))


def test_methods_in_python_travel_to_the_nodes(cluster, small, numpy_method, tmp_path: Path) -> None:
    """If this fails, a cluster knows only the methods of the simulator."""
    study = {"base": small | {"method": numpy_method.name}, "seeds": [1, 2]}
    local = fedrecsim.study(study, out=tmp_path / "local", progress=False)
    assert fedrecsim.study(study, executor="ray", out=tmp_path / "ray", progress=False).digests == local.digests


def test_a_new_driver_goes_on(cluster, long, tmp_path: Path) -> None:
    """If this fails, the loss of the driver loses what was done."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    address = ray.get_runtime_context().gcs_address
    driver = context.Process(target=_drive, args=(address, long, str(tmp_path / "ray")))
    driver.start()
    deadline = time.monotonic() + PATIENCE
    while not list((tmp_path / "ray").glob("runs/*/*/run.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    driver.kill()
    driver.join()
    done = {path.parent for path in (tmp_path / "ray").glob("runs/*/*/run.json")}
    assert 1 <= len(done) < 4, "the driver was killed too late or too early for this test"
    study = fedrecsim.study(long, executor="ray", out=tmp_path / "ray", checkpoint_every=50, progress=False)
    local = fedrecsim.study(long, out=tmp_path / "local", jobs=1, progress=False)
    assert study.digests == local.digests


def _drive(address: str, study: dict, out: str) -> None:
    """Runs a study from another driver, until it is killed."""
    ray.init(address=address, log_to_driver=False)
    fedrecsim.study(study, executor="ray", out=out, checkpoint_every=50, progress=False)
