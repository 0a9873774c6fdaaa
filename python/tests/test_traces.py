"""Traces of other projects. Their files are not at hand: these are made by hand, in the forms that their code reads."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import fedrecsim
from fedrecsim import traces

DEVICES = {7: {"computation": 162.0, "communication": 5648.0}, 3: {"computation": 81.0, "communication": 800.0}}
STAYS = {
    1: {"duration": 60, "inactive": [40, 100], "finish_time": 100, "active": [10, 60], "model": "CPH1801"},
    2: {"duration": 0, "inactive": [5], "finish_time": 50, "active": [5], "model": "CPH1801"},
    3: {"duration": 20, "inactive": [30], "finish_time": 50, "active": [10], "model": "CPH1801"},
}
MESSAGES = """2020-02-03 22:00:00\tscreen_lock
2020-02-03 22:10:00\tWIFI
2020-02-03 22:20:00\tbattery_charged_on
2020-02-03 22:30:00\t80.0%
2020-02-04 06:00:00\tscreen_unlock
2020-02-04 07:00:00\tscreen_lock
2020-02-04 07:05:00\t4G
"""


def _pickled(folder: Path, value: object) -> Path:
    path = folder / "trace"
    path.write_bytes(pickle.dumps(value))
    return path


def _lines(trace: traces.Trace) -> list[str]:
    return trace.text.splitlines()[1:]


def test_devices_of_fedscale_keep_how_much_slower_one_is(tmp_path: Path) -> None:
    """If this fails, a slow phone is fast, or kbit/s are taken for Mbit/s."""
    path = _pickled(tmp_path, DEVICES)
    assert _lines(traces.fedscale_devices(path)) == ["0,66.6667", "1,33.3333"]
    assert _lines(traces.fedscale_links(path)) == ["0,0,5.648,5.648", "1,0,0.8,0.8"]


def test_stays_of_fedscale_begin_again_together(tmp_path: Path) -> None:
    """If this fails, a client is there when FedScale has it away."""
    trace = traces.fedscale_availability(_pickled(tmp_path, STAYS))
    assert _lines(trace) == ["0,10,40", "0,60,100", "1,,", "2,10,30", "2,60,80"]
    assert trace.period_s == 100.0


def test_a_phone_of_flash_is_there_while_it_is_locked_charged_and_on_wifi(tmp_path: Path) -> None:
    """If this fails, phones train while they are used, or times count from another midnight."""
    path = tmp_path / "state_traces.json"
    path.write_text(json.dumps({"a": {"guid": "a", "model": "x", "messages": MESSAGES}}))
    trace = traces.flash_availability(path)
    assert _lines(trace) == ["0,80400,108000", "0,111600,111900"]
    assert trace.period_s == 2 * 86_400
    path.write_text(json.dumps({"a": {"down_u": 1000.0, "down_sigma": 1, "up_u": 500, "up_sigma": 1}}))
    assert _lines(traces.flash_links(path)) == ["0,0,8.192,4.096"]


def test_a_run_takes_what_was_written(tmp_path: Path) -> None:
    """If this fails, the file or the keys that name it are not those of a scenario."""
    scenario = {
        "method": "fedmf",
        "dataset": {"name": "generated", "generator": {"users": 30, "items": 200}},
        "training": {"rounds": 2},
        "codec": {"uplink": "rows-f32"},
    }
    keys: dict[str, object] = {}
    for name, of, value in (
        ("links", traces.fedscale_links, DEVICES),
        ("devices", traces.fedscale_devices, DEVICES),
        ("stays", traces.fedscale_availability, STAYS),
    ):
        keys |= of(_pickled(tmp_path, value)).save(tmp_path / f"{name}.csv")
    plain = fedrecsim.run(scenario, progress=False)
    traced = fedrecsim.run(scenario, set=keys, progress=False)
    assert traced.virtual_time_s > plain.virtual_time_s


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("false",)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (_Harmful(), "only plain values are read"),
        ([1, 2], "a dictionary for each client"),
        ({}, "a dictionary for each client"),
        ({1: {"communication": 1.0}}, "'computation'"),
        ({1: {"computation": -1.0}}, "found -1.0"),
        ({1: {"computation": float("nan")}}, "found nan"),
    ],
)
def test_another_form_is_refused_and_runs_nothing(tmp_path: Path, value: object, fault: str) -> None:
    """If this fails, a pickle can run a command, or a wrong file becomes a trace."""
    path = _pickled(tmp_path, value)
    with pytest.raises(fedrecsim.FedrecsimError, match=fault) as caught:
        traces.fedscale_devices(path)
    assert str(path) in str(caught.value)


def test_a_phone_whose_messages_cannot_be_read_is_never_there(tmp_path: Path) -> None:
    """If this fails, one phone costs the whole file, or its stays overlap or end before they begin."""
    lines = MESSAGES.splitlines()
    path = tmp_path / "state_traces.json"
    for wrong in ("\n".join([lines[1], lines[0]]), MESSAGES + "no time\tscreen_lock\n"):
        path.write_text(json.dumps({"a": {"messages": wrong}, "b": {"messages": MESSAGES}}))
        assert _lines(traces.flash_availability(path))[:2] == ["0,,", "1,80400,108000"]


def test_a_stay_without_an_end_is_refused(tmp_path: Path) -> None:
    """If this fails, stays are lost without a word."""
    path = _pickled(tmp_path, {1: {"active": [10, 60], "inactive": [40], "finish_time": 100}})
    with pytest.raises(fedrecsim.FedrecsimError, match="2 times under 'active' and 1 under 'inactive'"):
        traces.fedscale_availability(path)


def test_the_command_says_how_a_scenario_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, somebody has a file and not its period, or loses the one that was there."""
    words = ["fedscale-availability", str(_pickled(tmp_path, STAYS)), "--out", str(tmp_path / "stays.csv")]
    assert traces.main(words) == 0
    told = capsys.readouterr().out
    assert "[availability.pattern.trace]" in told and "period_s = 100" in told and "3 users" in told
    assert traces.main(words) == 2
    assert "exists" in capsys.readouterr().err
