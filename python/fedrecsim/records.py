"""The types of what runs tell, such as the record of a run, which is `run.json` of its report, and that of a round.

They are dictionaries. For a type checker, `run.accuracy["test"]["hr@10"]` is a number and `run.accuracy["tset"]` a mistake.
"""

from __future__ import annotations

from typing import Optional, TypedDict, Union

#: What JSON can say.
Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


class _Validation(TypedDict, total=False):
    validation: dict[str, float]


class Accuracy(_Validation):
    """Figures by their names, such as `hr@10`: on the test part, and on the validation part if there is one."""

    test: dict[str, float]


class Flow(TypedDict):
    """Bytes in one direction: by what became of them, by what they were for, and the number of frames."""

    sent: int
    delivered: int
    lost: int
    cancelled: int
    in_flight: int
    unreceived: int
    useful: int
    late: int
    stale: int
    header: int
    index: int
    values: int
    modelled: int
    frames: int


class Bytes(TypedDict):
    """Bytes from devices to the server (`up`) and back."""

    up: Flow
    down: Flow


class Losses(TypedDict):
    """Lost participations by their causes. `faults` counts by the rules of `[[faults]]`, up to the last one that has
    any."""

    dropouts: int
    departures: int
    faults: list[int]


class Work(TypedDict):
    """Training work: row visits, multiply-adds, and the bytes of downloads that were for nothing."""

    finished: int
    lost: int
    unused: int
    unused_download_bytes: int
    finished_multiply_adds: int
    lost_multiply_adds: int
    unused_multiply_adds: int


class Metered(TypedDict):
    """What devices take besides bytes and work: nanoseconds, and nanograms of carbon dioxide."""

    taking_part_ns: int
    unused_taking_part_ns: int
    radio_tail_ns: int
    co2_ng: int


class Sparsity(TypedDict):
    """Shares of the shared table above 0, 1e-6, 1e-5, ..., 1e-1."""

    uploads: list[float]
    averaged: list[float]
    union: Optional[float]


class RoundRecord(TypedDict):
    """What has happened in a round. `None` stands for what the round or the method does not have."""

    #: From 1.
    round: int
    #: The virtual time at its end.
    virtual_time_s: float
    duration_s: float
    invited: int
    aggregated: int
    lost: int
    cancelled: int
    late: int
    stale: int
    losses: Losses
    #: The mean loss of the updates.
    loss: Optional[float]
    #: `None` if the round was not evaluated.
    accuracy: Optional[Accuracy]
    #: What was found for users who come in the course of the run; `None` if nobody does.
    newcomers: Optional[dict[str, Json]]
    bytes: Bytes
    third_party_bytes: Optional[Bytes]
    inference_bytes: Optional[int]
    work: Work
    metered: Metered
    #: The carbon dioxide of the server, in nanograms.
    server_co2_ng: int
    network: dict[str, Json]
    sparsity: Optional[Sparsity]
    versions: Optional[dict[str, int]]
    audit: Optional[dict[str, Json]]
    privacy: Optional[dict[str, Json]]


class Wall(TypedDict):
    """Figures of the host, which no digest covers."""

    total_s: float
    #: The median of the rounds.
    per_round_ms: float
    peak_rss_bytes: Optional[int]
    threads: int


class UserGroup(TypedDict):
    """The accuracy of some users on the test part, at the selected round."""

    #: `fastest`, `slowest` (fifths by the length of participations) or `worst-served` (a tenth).
    group: str
    users: int
    invited: int
    used: int
    accuracy: dict[str, float]


class ListFigures(TypedDict):
    """What lists of items are like."""

    #: The share of the catalogue that is in somebody's list.
    coverage: float
    gini: float
    novelty_bits: float
    long_tail_share: float
    #: `None` if nobody has training ratings.
    popularity_deviation: Optional[float]


class BeyondAccuracy(TypedDict):
    """What the lists of items are like that users would be shown after the last round."""

    list_length: int
    users: int
    long_tail_items: int
    #: In the users' own ratings; `None` if they have none.
    history_long_tail_share: Optional[float]
    method: ListFigures
    popularity: ListFigures


class _Sometimes(TypedDict, total=False):
    """What the record has only if there is something to tell."""

    stopped_by: str
    #: That of all parameters at the end, which a run that stopped early does not have.
    state_digest: str
    learned_nothing: bool
    uploads_were_empty: bool
    #: Absent where no item is held out, and if the run was stopped early.
    beyond_accuracy: BeyondAccuracy
    third_party_bytes: Bytes
    versions_cost: dict[str, int]
    audit: dict[str, Json]
    audited_rounds: int
    privacy: dict[str, Json]
    network: dict[str, Json]
    energy: dict[str, Json]
    server_energy_j: float
    #: Absent where there are too few users, or the totals of single users are not kept.
    user_groups: list[UserGroup]
    #: Only if users come in the course of the run.
    newcomers: dict[str, Json]
    carbon: dict[str, float]
    warnings: list[str]
    other_builds: list[str]


class RunRecord(_Sometimes):
    """What a run has come to."""

    format: int
    name: str
    seed: int
    digest: str
    rounds: int
    complete: bool
    #: The round that the run is judged by, from 1; `None` if none was finished.
    selected_round: Optional[int]
    accuracy: Accuracy
    #: What the accuracy is of, in words.
    protocol: str
    draws_negatives: bool
    baselines: dict[str, Accuracy]
    bytes: Bytes
    inference_bytes: Optional[int]
    participations: dict[str, int]
    losses: dict[str, Json]
    device_bytes: dict[str, Json]
    work: Work
    virtual_time_s: float
    durations: dict[str, dict[str, Optional[float]]]
    size: dict[str, Json]
    policy: dict[str, Json]
    #: The scenario as it was resolved.
    scenario: dict[str, Json]
    command: list[str]
    versions: dict[str, str]
    executable: str
    wall: Wall


class Estimate(TypedDict):
    """What a run is expected to take, after a rehearsal of its first rounds."""

    rounds: int
    threads: int
    up_bytes_per_round: float
    down_bytes_per_round: float
    virtual_time_per_round_s: float
    wall_time_per_round_s: float
    #: The memory of the devices, and of the uploads that wait.
    devices_bytes: int
    uploads_bytes: int
    invited_per_round: float


class Recommended(TypedDict):
    """An item that a user would be shown, and what popularity would show in its place."""

    item: str
    score: float
    held_out: bool
    popular: str
