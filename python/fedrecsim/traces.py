"""Traces of other projects as the files that a scenario takes.

    python -m fedrecsim.traces fedscale-devices client_device_capacity --out devices.csv
    python -m fedrecsim.traces fedscale-links client_device_capacity --out links.csv
    python -m fedrecsim.traces fedscale-availability client_behave_trace --out stays.csv
    python -m fedrecsim.traces flash-links speed_distri.json --out links.csv
    python -m fedrecsim.traces flash-availability state_traces.json --out stays.csv

The formats are those of FedScale (SymbioticLab/FedScale, "Device Trace File Formats" and core/client.py) and FLASH
(PKU-Chengxu/FLASH, models/timer.py and models/device.py). A pickle is read without any class in it, so that it can run
nothing. Users of a trace are numbered in the order of the file, and a run with more users begins again with the first.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import IO

from ._errors import FedrecsimError

Stay = tuple[float, float]


@dataclass(frozen=True)
class Trace:
    """A trace in the form that a scenario takes.

    >>> trace = Trace("network.rates.trace", "user,time_s,down_mbit_per_s,up_mbit_per_s\\n0,0,8,2\\n")
    >>> trace.users
    1
    """

    key: str
    """The table of a scenario that names its file."""
    text: str
    """The file."""
    period_s: float | None = None
    """After how many seconds it begins again; `None` if it never does."""

    @property
    def users(self) -> int:
        """The number of users in it."""
        return len({line.split(",", 1)[0] for line in self.text.splitlines()[1:]})

    def save(self, path: str | Path) -> dict[str, str | float]:
        """Writes the file, which must not exist, and returns the keys that name it, as `run(set=...)` takes them."""
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(self.text)
        keys: dict[str, str | float] = {f"{self.key}.path": str(Path(path).absolute())}
        if self.period_s is not None:
            keys[f"{self.key}.period_s"] = self.period_s
        return keys


class _Plain(pickle.Unpickler):
    """Reads dictionaries, lists, texts and numbers, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it holds {module}.{name}, and only plain values are read")


def fedscale_devices(path: str | Path, median_ns_per_row_visit: float = 50.0) -> Trace:
    """Returns the speeds of FedScale's `client_device_capacity` as text for `devices.speed.trace`.

    Its milliseconds are those of a neural network for images. What a row visit takes cannot be told from them; how much
    slower one device is than another can. So the median device takes `median_ns_per_row_visit` nanoseconds.

    Raises:
        FedrecsimError: if the file has another form.
    """
    times = [_positive(path, of, "computation") for of in _entries(path)]
    middle = median(times)
    rows = (f"{user},{median_ns_per_row_visit * time / middle:.6g}" for user, time in enumerate(times))
    return Trace("devices.speed.trace", _text("user,ns_per_row_visit", rows))


def fedscale_links(path: str | Path) -> Trace:
    """Returns the rates of FedScale's `client_device_capacity` as text for `network.rates.trace`.

    `communication` is in kbit/s, for both directions.

    Raises:
        FedrecsimError: if the file has another form.
    """
    rates = (_positive(path, of, "communication") / 1e3 for of in _entries(path))
    return _links((rate, rate) for rate in rates)


def flash_links(path: str | Path) -> Trace:
    """Returns the mean rates of FLASH's `speed_distri.json` as text for `network.rates.trace`.

    `down_u` and `up_u` are in KiB/s. How much they vary from transfer to transfer is left out: that is
    `network.rates.lognormal.transfer_log_sigma`, which a trace has not.

    Raises:
        FedrecsimError: if the file has another form.
    """
    def rate(of: Mapping[str, object], key: str) -> float:
        return _positive(path, of, key) * 8 * 1024 / 1e6

    return _links((rate(of, "down_u"), rate(of, "up_u")) for of in _entries(path))


def fedscale_availability(path: str | Path) -> Trace:
    """Returns FedScale's `client_behave_trace` as text for `availability.pattern.trace`.

    A client is there from `active[i]` to `inactive[i]` and begins again after `finish_time` seconds. Here all users
    begin again at once, after the longest of these; a shorter one is repeated until then. Who is never there stays so.

    Raises:
        FedrecsimError: if the file has another form.
    """
    users: list[tuple[list[Stay], float]] = []
    for of in _entries(path):
        starts, ends = _numbers(path, of, "active"), _numbers(path, of, "inactive")
        if len(starts) != len(ends):
            counts = f"{len(starts)} times under 'active' and {len(ends)} under 'inactive'"
            raise FedrecsimError(f"{path}: a client has {counts}")
        finish = _positive(path, of, "finish_time")
        pairs = ((on, min(off, finish)) for on, off in zip(starts, ends))
        users.append((_merged((on, off) for on, off in pairs if off > on), finish))
    period = max(finish for _, finish in users)
    return _stays((_repeated(stays, finish, period) for stays, finish in users), period)


def flash_availability(path: str | Path) -> Trace:
    """Returns FLASH's `state_traces.json` as text for `availability.pattern.trace`.

    As in its code, a phone is there while it is locked, charged and on WiFi, and one with a message that cannot be read
    is never there. A stay that no message ends lasts to the last message here, and is left out there. FLASH begins the
    trace of a phone again after its own last message. Here all begin again after whole days, counted from the first
    midnight of the file.

    Raises:
        FedrecsimError: if the file has another form.
    """
    traces = [_ready(path, of) for of in _entries(path)]
    instants = [instant for _, seen in traces for instant in seen]
    if not instants:
        raise FedrecsimError(f"{path}: no phone has a message")
    day = 86_400.0
    first = min(instants) // day * day
    period = (max(instants) - first) // day * day + day
    return _stays(([(on - first, off - first) for on, off in stays] for stays, _ in traces), period)


def _links(rates: Iterable[tuple[float, float]]) -> Trace:
    rows = (f"{user},0,{down:.6g},{up:.6g}" for user, (down, up) in enumerate(rates))
    return Trace("network.rates.trace", _text("user,time_s,down_mbit_per_s,up_mbit_per_s", rows))


def _entries(path: str | Path) -> list[Mapping[str, object]]:
    """Returns the clients of a file, in its order."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            start = file.peek(1)[:1]
            found = _json(file) if start in (b"{", b" ", b"\n") else _Plain(file).load()
    except FileNotFoundError:
        raise
    except Exception as fault:  # A damaged pickle raises almost anything.
        raise FedrecsimError(f"{place}: it is no trace that can be read: {fault}") from fault
    if not isinstance(found, dict) or not found or not all(isinstance(of, dict) for of in found.values()):
        raise FedrecsimError(f"{place}: expected a dictionary with a dictionary for each client")
    return list(found.values())


def _json(file: IO[bytes]) -> object:
    return json.load(file)


def _number(path: str | Path, value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < 1e12:
        raise FedrecsimError(f"{path}: expected a number from 0 under {key!r}, found {value!r}")
    return float(value)


def _positive(path: str | Path, of: Mapping[str, object], key: str) -> float:
    number = _number(path, of.get(key), key)
    if number == 0.0:
        raise FedrecsimError(f"{path}: expected a number above 0 under {key!r}")
    return number


def _numbers(path: str | Path, of: Mapping[str, object], key: str) -> list[float]:
    values = of.get(key)
    if not isinstance(values, list):
        raise FedrecsimError(f"{path}: expected a list of numbers under {key!r}, found {values!r}")
    return [_number(path, value, key) for value in values]


def _ready(path: str | Path, of: Mapping[str, object]) -> tuple[list[Stay], list[float]]:
    """Returns the stays of a phone, and the instants of its messages, in seconds since 1970."""
    text = of.get("messages")
    if not isinstance(text, str):
        raise FedrecsimError(f"{path}: expected lines of a time, a tab and a state under 'messages', found {text!r}")
    has = {"locked": False, "charged": False, "wifi": False}
    stays: list[Stay] = []
    seen: list[float] = []
    since: float | None = None
    for line in filter(None, map(str.strip, text.split("\n"))):
        time, _, state = (part.strip() for part in line.partition("\t"))
        try:
            at = datetime.strptime(time, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
        except ValueError:
            return [], []
        if seen and at < seen[-1]:
            return [], []
        seen.append(at)
        has |= _STATES.get(state.lower(), {})
        is_ready = all(has.values())
        if is_ready and since is None:
            since = at
        elif not is_ready and since is not None:
            stays.append((since, at))
            since = None
    if since is not None:
        stays.append((since, seen[-1]))
    return _merged((on, off) for on, off in stays if off > on), seen


# What a message says; others, such as the level of the battery, change nothing.
_STATES: dict[str, dict[str, bool]] = {
    "battery_charged_on": {"charged": True},
    "battery_charged_off": {"charged": False},
    "screen_lock": {"locked": True},
    "screen_unlock": {"locked": False},
    "wifi": {"wifi": True},
    **{network: {"wifi": False} for network in ("unknown", "2g", "3g", "4g", "5g")},
}


def _merged(stays: Iterable[Stay]) -> list[Stay]:
    """Returns stays in order, those that touch as one."""
    merged: list[Stay] = []
    for on, off in sorted(stays):
        if merged and on <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(off, merged[-1][1]))
        else:
            merged.append((on, off))
    return merged


def _repeated(stays: list[Stay], finish: float, period: float) -> list[Stay]:
    times = int(-(-period // finish))
    turns = (turn * finish for turn in range(times))
    every = ((on + begin, min(off + begin, period)) for begin in turns for on, off in stays)
    return _merged((on, off) for on, off in every if off > on)


def _stays(users: Iterable[list[Stay]], period: float) -> Trace:
    def rows() -> Iterator[str]:
        for user, stays in enumerate(users):
            yield from (f"{user},{on:.15g},{off:.15g}" for on, off in stays)
            if not stays:
                yield f"{user},,"

    return Trace("availability.pattern.trace", _text("user,on,off", rows()), period)


def _text(header: str, rows: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (header, *rows))


_KINDS: dict[str, Callable[[Path], Trace]] = {
    "fedscale-devices": fedscale_devices,
    "fedscale-links": fedscale_links,
    "fedscale-availability": fedscale_availability,
    "flash-links": flash_links,
    "flash-availability": flash_availability,
}


def main(words: list[str] | None = None) -> int:
    """Writes a trace as a scenario takes it, and says which keys name it."""
    parser = argparse.ArgumentParser(prog="python -m fedrecsim.traces", description="Bring a trace into our form.")
    parser.add_argument("kind", choices=sorted(_KINDS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(words)
    try:
        trace = _KINDS[arguments.kind](arguments.file)
        keys = trace.save(arguments.out)
    except (FedrecsimError, OSError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    print(f"# {trace.users} users; the tables of a scenario that name the file:\n[{trace.key}]")
    for key, value in keys.items():
        print(f"{key.rsplit('.', 1)[1]} = {json.dumps(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
