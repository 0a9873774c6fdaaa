"""Runs of a study as tasks of a Ray cluster.

A task has the memory and the processors that its run is expected to need. Where its node is lost, Ray starts it anew on
another one, and it goes on from its last checkpoint in the study's folder, which every node sees. Where the driver is
lost, the same call goes on with what is missing. No result depends on any of that.
"""

from __future__ import annotations

import sys
import time
import warnings
from types import ModuleType
from typing import Mapping

from . import _native, method
from ._order import Order, PlannedRun

#: How often a task is started anew after its node was lost.
RETRIES = 100

#: The memory of a worker of Ray's with the interpreter and this package, in bytes, beside what a run needs.
WORKER_BYTES = 200_000_000

#: The seconds that a task waits for a run that still has to end on another node.
PATIENCE_S = 60.0


def _packed(ray: ModuleType, classes: list[type[method.Method]]) -> bytes:
    """Returns classes as bytes that a node unpacks although it does not have their modules. What these import
    themselves has to be there, as by a runtime environment of Ray's."""
    modules = {sys.modules[cls.__module__] for cls in classes if cls.__module__ in sys.modules}
    own = [module for module in modules if module.__name__ != "__main__" and _is_own(module)]
    for module in own:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = ray.cloudpickle.dumps(classes)
        return packed
    finally:
        for module in own:
            ray.cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: ModuleType) -> bool:
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


def _check_room(nodes: list[dict[str, float]], name: str, options: Mapping[str, object]) -> None:
    """Warns of a run that no node has room for now: it waits until one comes, as in a cluster that grows."""
    asked = {"CPU": options.get("num_cpus"), "memory": options.get("memory")}
    wanted = {key: value if isinstance(value, (int, float)) else 0 for key, value in asked.items()}
    if not any(all(node.get(key, 0) >= value for key, value in wanted.items()) for node in nodes):
        warnings.warn(
            f"no node of the cluster has {wanted['CPU']} processors and {wanted['memory'] / 1e9:.1f} GB of memory, "
            f"which `{name}` asks for; it waits for one that has",
            UserWarning,
            stacklevel=5,
        )


def carry_out(order: Order) -> dict[str, str]:
    """Carries out the runs of a study, and returns why some have no result, by their names."""
    try:
        import ray
    except ImportError:
        raise _native.FedrecsimError('the executor `ray` needs the package ray: pip install "fedrecsim[ray]"') from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    threads = order.threads or 1
    held, planned = order.prepared(threads)
    try:
        return _carry_out_all(ray, order, planned, threads)
    finally:
        held.release()


def _carry_out_all(ray: ModuleType, order: Order, planned: list[PlannedRun], threads: int) -> dict[str, str]:
    """Carries out the runs that are to be done, and returns why some are missing, by their names."""
    words = [*order.words, "--threads", str(threads)]
    to_do = [run for run in planned if not run.is_done]
    order.tell(f"{len(to_do)} of {len(planned)} runs to do")
    task = ray.remote(_carry_out)
    used = {run.method for run in to_do}
    packed = _packed(ray, [cls for cls in method.classes() if cls.name in used])
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    running: dict[object, PlannedRun] = {}
    lost: dict[str, str] = {}
    try:
        for run in to_do:
            options = {
                "num_cpus": threads,
                "memory": WORKER_BYTES + (run.memory_bytes or 0),
                "max_retries": RETRIES,
                "name": run.name,
                **order.ray_options,
            }
            _check_room(nodes, run.name, options)
            running[task.options(**options).remote(words, packed, run.arm, run.seed)] = run
        while running:
            ended, _ = ray.wait(list(running), num_returns=1)
            for reference in ended:
                run = running.pop(reference)
                reason = _ending(ray, reference)
                if reason is not None:
                    lost[run.name] = reason
                order.tell(f"{run.name}: {'done' if reason is None else reason}")
    except BaseException:
        # When the driver ends, its runs end too and leave checkpoints.
        for reference in running:
            ray.cancel(reference)
        raise
    return lost


def _ending(ray: ModuleType, reference: object) -> str | None:
    """Returns why a task that is over has left no result, if it has none: one run does not take the others with it."""
    try:
        reason: str | None = ray.get(reference)
        return reason
    except (ray.exceptions.RayError, _native.FedrecsimError) as error:
        cause = getattr(error, "cause", None) or error
        return str(cause).strip().splitlines()[-1] if str(cause).strip() else type(cause).__name__
