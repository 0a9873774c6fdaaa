"""Runs of a study as tasks of a Ray cluster.

A task has the memory and the processors that its run is expected to need. Where its node is lost, Ray starts it anew on
another one, and it goes on from its last checkpoint in the study's folder, which every node sees. Where the driver is
lost, the same call goes on with what is missing. No result depends on any of that.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from . import _native, method

if TYPE_CHECKING:
    from .study import PlannedRun, Study, _Order

#: How often a task is started anew after its node was lost.
RETRIES = 100

#: The seconds for which a task waits for one that another node has not ended yet.
PATIENCE_S = 60.0


def _packed(ray: Any, classes: list[type]) -> bytes:
    """Returns classes as bytes that a node unpacks although it does not have their modules. What these import
    themselves has to be there, as by a runtime environment of Ray's."""
    modules = {sys.modules[cls.__module__] for cls in classes if cls.__module__ in sys.modules}
    own = [module for module in modules if module.__name__ != "__main__" and _is_own(module)]
    for module in own:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        return ray.cloudpickle.dumps(classes)
    finally:
        for module in own:
            ray.cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: Any) -> bool:
    """Returns whether a module is the user's own, and not one of an installed package."""
    file = getattr(module, "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file


def _carry_out(words: list[str], packed: bytes, arm: str, seed: int) -> str | None:
    """Carries out one run on a node, and returns why it has no result, if it has none."""
    import ray

    for cls in ray.cloudpickle.loads(packed):
        method.register(cls)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _native.study_carry_out(words, method.entries(), arm, seed)
        except _native.ScenarioError as reason:
            # The node that was lost may not know it yet.
            if "another process is at work" not in str(reason) or time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def _check_fits(ray: Any, planned: list[PlannedRun], threads: int) -> None:
    """Refuses runs that no node has room for, as they would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for run in planned:
        needed = run.memory_bytes or 0
        if not any(node.get("CPU", 0) >= threads and node.get("memory", 0) >= needed for node in nodes):
            raise _native.FedrecsimError(
                f"no node of the cluster has {threads} processors and {needed / 1e9:.1f} GB of memory, "
                f"which `{run.name}` needs"
            )


def carry_out(order: _Order) -> Study:
    """Runs the runs of a study, and writes its tables."""
    try:
        import ray
    except ImportError:
        raise _native.FedrecsimError("the executor `ray` needs the package ray: pip install \"fedrecsim[ray]\"") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    threads = order.threads or 1
    words = [*order.words, "--threads", str(threads)]
    planned = order.planned(threads)
    to_do = [run for run in planned if not run.is_done]
    _check_fits(ray, to_do, threads)
    order.tell(f"{len(to_do)} of {len(planned)} runs to do")
    task = ray.remote(_carry_out)
    used = {run.method for run in to_do}
    packed = _packed(ray, [cls for cls in method.classes() if cls.name in used])
    running: dict[Any, PlannedRun] = {}
    failures: dict[str, str] = {}
    for run in to_do:
        options = {
            "num_cpus": threads,
            "memory": run.memory_bytes or 0,
            "max_retries": RETRIES,
            "name": run.name,
            **order.ray_options,
        }
        running[task.options(**options).remote(words, packed, run.arm, run.seed)] = run
    while running:
        ended, _ = ray.wait(list(running), num_returns=1)
        for reference in ended:
            run = running.pop(reference)
            reason = ray.get(reference)
            if reason is not None:
                failures[run.name] = reason
            order.tell(f"{run.name}: {'done' if reason is None else reason}")
    return order.ended(planned, failures)
