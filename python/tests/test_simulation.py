"""Simulations: steps, saved states, models by hand, threads, signals and forks."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import fedrecsim
import numpy as np
import pytest
from conftest import PACKAGE, PATIENCE


def test_steps_come_to_the_result_of_a_run(small) -> None:
    """If this fails, a simulation that is stepped is another one than the run."""
    simulation = fedrecsim.Simulation(small)
    rounds = list(simulation)
    assert [record["round"] for record in rounds] == [1, 2, 3, 4] and simulation.is_over
    assert simulation.step() is None and simulation.stopped_by is None
    run = simulation.finish()
    assert run.digest == fedrecsim.run(small, progress=False).digest
    with pytest.raises(fedrecsim.FedrecsimError, match="finished"):
        simulation.step()


def test_a_saved_simulation_goes_on(small, tmp_path) -> None:
    """If this fails, what is saved is not the simulation."""
    simulation = fedrecsim.Simulation(small)
    assert len(simulation.step_until(round=2)) == 2
    saved = simulation.save(tmp_path / "saved")
    digest = fedrecsim.run(small, progress=False).digest
    for where in (saved, bytearray(saved), tmp_path / "saved"):
        restored = fedrecsim.Simulation.restore(small, where)
        assert restored.rounds == 2 and restored.time_s == simulation.time_s > 0
        assert len(list(restored)) == 2
        assert restored.finish().digest == digest
    with pytest.raises(fedrecsim.FedrecsimError):
        fedrecsim.Simulation.restore(small, saved[: len(saved) // 2])


def test_time_can_stop_in_the_middle_of_a_round(small) -> None:
    """If this fails, `step_until` goes to the end of a round."""
    simulation = fedrecsim.Simulation(small)
    end = simulation.step()["virtual_time_s"]
    assert simulation.step_until(time_s=end * 1.5) == []
    with pytest.raises(fedrecsim.FedrecsimError, match="between two rounds"):
        simulation.save()
    run = simulation.finish()
    assert not run.complete and "as asked" in run.stopped_by
    for wrong in ({"time_s": -1.0}, {"time_s": float("nan")}, {}, {"time_s": 1.0, "round": 1}):
        with pytest.raises(fedrecsim.ScenarioError):
            fedrecsim.Simulation(small).step_until(**wrong)


def test_the_model_can_be_replaced(small) -> None:
    """If this fails, a change by hand is lost, or goes unnoticed in the digest."""
    simulation = fedrecsim.Simulation(small)
    simulation.step()
    model = {"V": np.zeros((300, 8))}
    simulation.model = model
    assert not simulation.model["V"].any()
    list(simulation)
    assert simulation.finish().digest != fedrecsim.run(small, progress=False).digest
    simulation = fedrecsim.Simulation(small)
    for wrong in ({"V": np.zeros((3, 8))}, {"C": np.zeros((300, 8))}, {}, {"V": np.full((300, 8), np.nan)}, "V", 3):
        with pytest.raises((fedrecsim.ScenarioError, TypeError, ValueError)):
            simulation.model = wrong


def test_simulations_live_beside_each_other(small) -> None:
    """If this fails, two simulations of one process share something."""
    digest = fedrecsim.run(small, progress=False).digest
    simulations = [fedrecsim.Simulation(small, threads=1) for _ in range(3)]
    for _ in range(4):
        for simulation in simulations:
            simulation.step()
    digests = [simulation.finish().digest for simulation in simulations]

    def in_a_thread() -> None:
        digests.append(fedrecsim.run(small, progress=False).digest)

    threads = [threading.Thread(target=in_a_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert digests == [digest] * 6


def test_other_threads_go_on_while_a_simulation_works(small) -> None:
    """If this fails, a simulation keeps the interpreter's lock."""
    simulation = fedrecsim.Simulation(small, set={"training.rounds": 1_000_000, "evaluation.every_rounds": 1_000_000})
    ended = threading.Event()

    def step() -> None:
        with contextlib.suppress(fedrecsim.FedrecsimError, KeyboardInterrupt):
            simulation.step_until(round=200)
        ended.set()

    thread = threading.Thread(target=step)
    thread.start()
    # This thread counts while the other one is within the call.
    counted = 0
    while not ended.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 3 and simulation.rounds == 200


LONG = """
import fedrecsim, sys
scenario = {scenario!r} | {{"training": {{"rounds": 1000000}}}}
simulation = fedrecsim.Simulation(scenario)
simulation.step()
try:
    print("ready", flush=True)
    simulation.step_until(round=1000000)
except KeyboardInterrupt:
    run = simulation.finish()
    print("interrupted", run.stopped_by, run.record["rounds"] > 0, flush=True)
try:
    fedrecsim.run(scenario, progress=False, on_round=lambda r: r["round"] == 1 and print("ready", flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_step_and_a_run(small) -> None:
    """If this fails, a notebook's stop button does nothing until the run is over."""
    process = subprocess.Popen(
        [sys.executable, "-c", LONG.format(scenario=small)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line.strip())
        if line.startswith("ready"):
            process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 0
    assert told == ["ready", "interrupted interrupted True", "ready", "interrupted"]


LEFT = """
import sys
sys.path.insert(0, {examples!r})
import fedrecsim, numpy_fedmf
simulation = fedrecsim.Simulation({scenario!r})
simulation.step()
print("ends", flush=True)
"""


def test_a_program_may_end_while_a_simulation_is_there(in_python) -> None:
    """If this fails, a script whose simulation is a global variable never ends."""
    script = LEFT.format(examples=str(PACKAGE / "examples"), scenario=in_python)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (0, "ends\n"), ended.stderr


AT_WORK = """
import sys, threading, time
sys.path.insert(0, {examples!r})
import fedrecsim, numpy_fedmf
scenario = {scenario!r} | {{"training": {{"rounds": 1000000}}, "evaluation": {{"every_rounds": 1000000}}}}
seen = threading.Event()
class Seen(numpy_fedmf.NumpyFedMF):
    name = "seen"
    def client(self, user):
        seen.set()
        return super().client(user)
scenario["method"] = "seen"
def work():
    {work}
threading.Thread(target=work, daemon=True).start()
seen.wait()
print("ends", flush=True)
"""


@pytest.mark.parametrize("work", ["fedrecsim.run(scenario, progress=False)", "fedrecsim.testing.contract(Seen)"])
def test_a_program_may_end_while_a_thread_is_at_work(in_python, work) -> None:
    """If this fails, a notebook that is shut down while a run goes on in a thread is aborted by the system."""
    script = AT_WORK.format(examples=str(PACKAGE / "examples"), scenario=in_python, work=work)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (0, "ends\n"), ended.stderr


CHECKED = """
import sys
sys.path.insert(0, {examples!r})
import fedrecsim, numpy_fedmf
class Told(numpy_fedmf.NumpyFedMF):
    name = "told"
    told = False
    def client(self, user):
        if not Told.told:
            Told.told = True
            print("ready", flush=True)
        return super().client(user)
try:
    fedrecsim.testing.contract(Told)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    Told.told = False
    fedrecsim.run({scenario!r} | {{"method": "told", "training": {{"rounds": 1000000}}}}, progress=False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_in_a_method_in_python_is_no_mistake_of_the_method(in_python) -> None:
    """If this fails, a check that is stopped by hand says that the method breaks a clause, or a run that it failed."""
    script = CHECKED.format(examples=str(PACKAGE / "examples"), scenario=in_python)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line.strip())
        if line.startswith("ready"):
            process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 0
    assert told == ["ready", "interrupted", "ready", "interrupted"]


def _step_in_a_fork(simulation: fedrecsim.Simulation, scenario: dict, told) -> None:
    try:
        simulation.step()
        told.put("stepped")
    except fedrecsim.FedrecsimError as error:
        told.put(str(error))
    # A simulation that the child starts itself has its threads.
    told.put(fedrecsim.run(scenario, progress=False).digest)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_is_told_that_it_has_no_threads(small) -> None:
    """If this fails, a child process waits for ever for threads that are its parent's."""
    simulation = fedrecsim.Simulation(small)
    simulation.step()
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    child = context.Process(target=_step_in_a_fork, args=(simulation, small, told))
    child.start()
    assert "a fork has not brought its threads along" in told.get(timeout=PATIENCE)
    assert told.get(timeout=PATIENCE) == fedrecsim.run(small, progress=False).digest
    child.join(timeout=PATIENCE)
    assert child.exitcode == 0
    list(simulation)
    assert simulation.finish().digest == fedrecsim.run(small, progress=False).digest
