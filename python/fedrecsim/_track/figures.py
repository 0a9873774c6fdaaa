"""Names of what trackers get: the figures of a round, and the parameters of a run.

A figure has the name of its column in `rounds.csv`, in a section that every tracker shows as a group: `test/hr_at_10`,
`up/sent_bytes`, `round/virtual_time_s`.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import Iterator, Mapping, Optional, Union, cast

from .. import _inputs, _native
from ..records import Accuracy, RoundRecord

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: A parameter of a run.
Value = Union[str, int, float, bool]

#: A row of `rounds.csv`, by its columns.
Row = Mapping[str, Union[str, int, float, None]]

#: The name of the wall-clock seconds of a round. They are in no report, and no digest covers them.
WALL = "wall/round_s"

#: The columns whose first word is a section. All others are in `round`.
_SECTION = re.compile(r"(test|validation|up|down|c)_(.+)")

#: The columns that the record of a round has under the same names.
_SAME = "virtual_time_s duration_s invited aggregated lost cancelled late stale loss inference_bytes".split()

#: The columns of work, by their keys in the record.
_WORK = {
    "finished": "row_visits",
    "lost": "lost_row_visits",
    "unused": "unused_row_visits",
    "unused_download_bytes": "unused_download_bytes",
    "finished_multiply_adds": "multiply_adds",
    "lost_multiply_adds": "lost_multiply_adds",
    "unused_multiply_adds": "unused_multiply_adds",
}

#: The magnitudes that shares of the shared table are counted above.
_ABOVE = ("0", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1")


def plain(name: str) -> str:
    """Returns a name that every tracker takes: MLflow refuses `hr@10`."""
    return re.sub(r"[^\w./-]", "_", name.replace("@", "_at_"))


def named(row: Row) -> dict[str, float]:
    """Returns the figures of a row of `rounds.csv` by their names for trackers, without those that it does not have."""
    figures = {}
    for column, value in row.items():
        if column != "round" and isinstance(value, (int, float)) and value == value:
            section = _SECTION.fullmatch(column)
            figures[plain("/".join(section.groups() if section else ("round", column)))] = float(value)
    return figures


def accuracy_of(accuracy: Accuracy | None) -> dict[str, float]:
    """Returns figures of accuracy by the names of their columns."""
    if accuracy is None:
        return {}
    parts = {"test": accuracy["test"], "validation": accuracy.get("validation", {})}
    return {f"{split}_{name}": value for split, values in parts.items() for name, value in values.items()}


class Rows:
    """Makes rows of `rounds.csv` from the records of rounds, which come one after the other.

    A row may lack a column: the energy of a round is not in its record.
    """

    def __init__(self, scenario: Mapping[str, object]) -> None:
        #: The bytes that were sent so far.
        self.sent = {"up": 0, "down": 0}
        faults = scenario.get("faults")
        self._fault_rules = len(faults) if isinstance(faults, list) else 0

    def of(self, record: RoundRecord) -> dict[str, float | None]:
        """Returns the row of the next round."""
        same = cast("Mapping[str, Optional[float]]", record)
        row = {column: same[column] for column in _SAME}
        losses, sparsity = record["losses"], record["sparsity"]
        row |= {"lost_dropout": losses["dropouts"], "lost_departure": losses["departures"]}
        # A record counts the losses to rules up to the last one that has any.
        faults = losses["faults"] + [0] * self._fault_rules
        row |= {f"lost_fault_{rule}": faults[rule] for rule in range(self._fault_rules)}
        row |= accuracy_of(record["accuracy"])
        work = cast("Mapping[str, int]", record["work"])
        row |= {column: work[key] for key, column in _WORK.items()}
        for direction, flow in (("up", record["bytes"]["up"]), ("down", record["bytes"]["down"])):
            self.sent[direction] += flow["sent"]
            row[f"cumulative_{direction}_sent_bytes"] = self.sent[direction]
            for key, count in cast("Mapping[str, int]", flow).items():
                row[f"{direction}_{key}" if key == "frames" else f"{direction}_{key}_bytes"] = count
        if (third := record["third_party_bytes"]) is not None:
            row["third_party_up_sent_bytes"] = third["up"]["sent"]
            row["third_party_down_sent_bytes"] = third["down"]["sent"]
        if sparsity is not None:
            for place, shares in (("uploads", sparsity["uploads"]), ("averaged", sparsity["averaged"])):
                row |= {f"c_above_{above}_{place}": share for above, share in zip(_ABOVE, shares)}
            row["c_above_0_union"] = sparsity["union"]
        epsilon = (record["privacy"] or {}).get("epsilon")
        row["epsilon"] = epsilon if isinstance(epsilon, (int, float)) else None
        return row


def parameters_of(scenario: Mapping[str, object]) -> dict[str, Value]:
    """Returns the parameters of a run: the keys of its resolved scenario with dots between their parts, and `version`,
    that of this package."""
    return dict(_flat("", scenario)) | {"version": _native.__version__}


def resolved(source: _inputs.Source) -> dict[str, object]:
    """Returns a checked scenario as it is resolved; nothing for one that TOML has no words for."""
    scenario: dict[str, object] = {}
    with contextlib.suppress(_native.FedrecsimError):
        scenario = tomllib.loads(_native.resolve(source)[0])
    return scenario


def _flat(key: str, value: object) -> Iterator[tuple[str, Value]]:
    """Yields the values below a key. A list of plain values is one value, and a list of tables is numbered from 0."""
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        value = {str(place): part for place, part in enumerate(value)}
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _flat(f"{key}.{name}" if key else name, part)
    elif isinstance(value, list):
        yield plain(key), json.dumps(value)
    elif value is not None:
        yield plain(key), value if isinstance(value, (str, int, float, bool)) else str(value)
