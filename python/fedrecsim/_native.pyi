"""The native part of the package."""

from pathlib import Path
from typing import Callable, Mapping, Sequence, final

import numpy as np

from ._arrays import Anything, Integers, Matrix, Numbers, Values
from ._errors import FedrecsimError as FedrecsimError
from ._errors import ScenarioError as ScenarioError
from .method import Array

__version__: str

Prepared = tuple[str, int, str, bool, str | None, str, int, int | None, float | None]

#: Users, and the name and the rows of their vectors.
Vectors = tuple[list[str], tuple[str, Matrix] | None]

#: A folder, the rounds between checkpoints, whether the last ones stay, and whether to go on from what is there.
Folder = tuple[Path, int | None, bool, bool]

@final
class Table:
    columns: list[str]
    types: list[str]
    def __len__(self) -> int: ...
    def column(self, name: str) -> Numbers | list[str]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @staticmethod
    def of_cells(columns: Sequence[tuple[str, str, Sequence[str | None]]]) -> Table: ...
    @staticmethod
    def restore(bytes: bytes) -> Table: ...

@final
class Report:
    json: str
    summary: str
    rounds: Table
    users: Table | None
    items: Table
    model: dict[str, Matrix]
    scenario: str | None
    kept: bytes | None
    vectors: Vectors | None
    def files(self) -> dict[str, bytes]: ...
    def __reduce__(
        self,
    ) -> tuple[object, tuple[str, str, bytes, bytes | None, bytes, dict[str, Matrix], dict[str, bytes], Vectors | None]]: ...
    def write(self, folder: str, overwrite: bool = False) -> None: ...
    @staticmethod
    def restore(
        texts: tuple[str, str],
        rounds: bytes,
        users: bytes | None,
        items: bytes,
        model: dict[str, Matrix],
        files: list[tuple[str, bytes]],
        vectors: Vectors | None,
    ) -> Report: ...

@final
class Simulation:
    method: str
    rounds: int
    time_s: float
    is_over: bool
    stopped_by: str | None
    def __init__(
        self,
        scenario: Mapping[str, object],
        threads: int | None = None,
        folder: Folder | None = None,
        save_users: Sequence[str] | None = None,
    ) -> None: ...
    def keep(self, folder: Folder) -> None: ...
    @staticmethod
    def restore(scenario: Mapping[str, object], saved: bytes, threads: int | None = None) -> Simulation: ...
    @property
    def model(self) -> dict[str, Matrix]: ...
    @model.setter
    def model(self, model: Mapping[str, Array]) -> None: ...
    def step(self) -> str | None: ...
    def step_until(self, round: int | None = None, time_s: float | None = None) -> list[str]: ...
    def save(self) -> bytes: ...
    def recommend(self, user: str, top: int) -> list[tuple[str, float, bool]]: ...
    def scores(self, users: Sequence[str]) -> Matrix: ...
    def vectors(self, users: Sequence[str]) -> tuple[str, Matrix] | None: ...
    def names(self) -> tuple[list[str], list[str]]: ...
    def recommend_popular(self, user: str, top: int) -> list[str]: ...
    def close(self) -> None: ...
    def finish(self, keep: bool = False, total_s: float = 0.0, per_round_ms: float = 0.0) -> Report: ...

@final
class MethodEntry:
    name: str
    def __init__(self, class_: type, name: str, summary: str, source: str, schema: str, draws: bool) -> None: ...

@final
class Task:
    """Describes one participation to the client that trains."""

    user: int
    """The user."""
    round: int
    """The round, counted from 1."""
    step: int
    """The number of steps that the server has made before."""
    model: dict[str, Matrix]
    """The downloaded blocks by their names, each of the shape (rows, columns). They cannot be written to."""
    items: Integers
    """The items of the training samples, of the shape (samples,): the user's own items, each followed by its negatives."""
    labels: Values
    """The labels of the samples, of the shape (samples,): 1 for the user's own items, and 0 for negatives."""
    rated: Integers
    """The items that the user has rated in the training part, ascending, of the shape (rated,)."""
    ratings: Values
    """The ratings of these items, of the shape (rated,); 1 where the data set has none."""
    def seed(self, name: str = "train") -> int:
        """Returns a number for a generator that nothing else uses, for this participation and a name."""
    def rng(self, name: str = "train") -> np.random.Generator:
        """Returns a generator of NumPy's for this participation and a name."""

@final
class Received:
    """Holds one of the updates that a step of the server uses."""

    user: int
    """The sender."""
    weight: float
    """The weight of the update by the run's mode and by the method."""
    base_weight: float
    """The weight by which what the sender had received is subtracted: 0 where updates count themselves."""
    blocks: dict[str, Matrix]
    """The blocks as the sender has left them, whole, each of the shape (rows, columns)."""
    received: dict[str, Matrix]
    """The blocks that the sender had received, each of the shape (rows, columns)."""

@final
class Ratings:
    path: str
    def __len__(self) -> int: ...
    def texts(self, column: int) -> list[str]: ...
    def is_whole(self, column: int) -> bool: ...
    @staticmethod
    def of_stream(stream: object, wanted: Sequence[str]) -> Ratings: ...
    @staticmethod
    def of_arrays(columns: Sequence[tuple[str, Anything | list[str | None], bool]]) -> Ratings: ...

@final
class Start:
    path: Path
    def __init__(self, saved: bytes) -> None: ...

@final
class Held:
    def release(self) -> None: ...

def run(
    scenario: Mapping[str, object],
    threads: int | None = None,
    progress: Callable[..., None] | None = None,
    folder: Folder | None = None,
    keep: bool = False,
    save_users: Sequence[str] | None = None,
) -> Report: ...
def events(
    scenario: Mapping[str, object],
    from_round: int = 1,
    to_round: int | None = None,
    threads: int | None = None,
    progress: Callable[..., None] | None = None,
) -> tuple[Table, tuple[int, int], dict[str, Matrix]]: ...
def end_all() -> None: ...
def resolve(scenario: Mapping[str, object]) -> tuple[str, list[str]]: ...
def estimate(scenario: Mapping[str, object], threads: int | None = None) -> str: ...
def toml_of_json(text: str) -> str: ...
def inline_of_json(text: str) -> str: ...
def builtin_methods() -> list[tuple[str, str, str]]: ...
def explain(methods: Sequence[MethodEntry], asked: str | None) -> str: ...
def means_of_scores(
    names: Sequence[str], scores: Matrix, held_out: Sequence[Sequence[int]], excluded: Sequence[Sequence[int]]
) -> tuple[dict[str, float], list[list[float | None]]]: ...
def means_of_lists(
    names: Sequence[str], lists: Sequence[Sequence[int]], held_out: Sequence[Sequence[int]]
) -> tuple[dict[str, float], list[list[float | None]]]: ...
def contract(method: MethodEntry, parameters: str | None = None) -> None: ...
def compare(words: Sequence[str], methods: Sequence[MethodEntry]) -> str: ...
def main(
    words: Sequence[str],
    itself: Sequence[str],
    methods: Sequence[MethodEntry],
    follow: Callable[[str], None] | None = None,
) -> int: ...
def study_prepare(
    words: Sequence[str], methods: Sequence[MethodEntry], threads: int
) -> tuple[Held, list[Prepared]]: ...
def study_runs(
    words: Sequence[str], methods: Sequence[MethodEntry]
) -> list[Prepared]: ...
def study_here(
    words: Sequence[str], methods: Sequence[MethodEntry], tell: Callable[[str], None] | None = None
) -> tuple[str, list[str]]: ...
def study_carry_out(
    words: Sequence[str], methods: Sequence[MethodEntry], arm: str, seed: int
) -> str | None: ...
def study_tables(words: Sequence[str], methods: Sequence[MethodEntry]) -> tuple[str, list[str]]: ...
