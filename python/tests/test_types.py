"""Types: the stub of the native module, and the package as a type checker sees it."""

from __future__ import annotations

import ast
import subprocess
import sys
import typing

import fedrecsim
import pytest
from conftest import PACKAGE
from fedrecsim import _native, records
from test_track import CHANGES


def test_the_stub_names_what_the_native_module_has() -> None:
    """If this fails, an editor offers something that is not there, or hides something that is."""
    stub = ast.parse((PACKAGE / "fedrecsim" / "_native.pyi").read_text(encoding="utf-8"))
    told = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    # The exceptions are those of `_errors`.
    told |= {name.asname for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names if name.asname}
    found = {name for name in dir(_native) if not name.startswith("_")}
    assert told == found
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Error"):
            members = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            members |= {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
            native = {name for name in vars(getattr(_native, node.name)) if not name.startswith("_")}
            assert {name for name in members if not name.startswith("_")} == native, node.name


def test_no_type_is_left_open() -> None:
    """If this fails, a type checker takes whatever a user writes there, and lets mistakes pass."""
    files = sorted((PACKAGE / "fedrecsim").rglob("*.py*"))
    sources = [path for path in files if path.suffix in (".py", ".pyi")]
    assert len(sources) > 30
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
            assert name != "Any", f"{path}: write a type, or `object` where anything is taken"


def annotations(tree: ast.AST) -> typing.Iterator[ast.AST]:
    """Yields the types that are written in a module."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            yield from [node.annotation] if node.annotation is not None else []
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from [node.returns] if node.returns is not None else []


def test_every_array_says_what_it_holds() -> None:
    """If this fails, a type checker knows neither the numbers of an array nor its dimensions, and helps nobody."""
    found = 0
    for path in sorted((PACKAGE / "fedrecsim").rglob("*.py*")):
        if path.suffix not in (".py", ".pyi"):
            continue
        for annotation in annotations(ast.parse(path.read_text(encoding="utf-8"))):
            for node in ast.walk(annotation):
                found += getattr(node, "id", "") in ("Matrix", "Values", "Integers", "Anything")
                bare = isinstance(node, ast.Attribute) and node.attr == "ndarray"
                assert not bare, f"{path}: {ast.unparse(annotation)}: take a type of _arrays.py"
    assert found > 30


def disagreement(value: object, hint: object, place: str) -> str | None:
    """Returns where a value is not what its type says; `None` if it is."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        found = [disagreement(value, one, place) for one in of]
        return None if None in found else found[0]
    parts: list[tuple[object, object, str]] = []
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        if not isinstance(value, dict) or not hint.__required_keys__ <= value.keys() <= hints.keys():
            return f"{place} has the keys {value!r:.300}, and not {sorted(hints)}"
        parts = [(part, hints[key], f"{place}.{key}") for key, part in value.items()]
    elif origin is list and isinstance(value, list):
        parts = [(part, of[0], f"{place}[{number}]") for number, part in enumerate(value)]
    elif origin is dict and isinstance(value, dict):
        parts = [(part, of[1], f"{place}.{key}") for key, part in value.items()]
    # What JSON says within JSON has no other type.
    elif not isinstance(hint, typing.ForwardRef):
        kinds = {float: (int, float)}.get(hint, hint)
        if origin is not None or not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            return f"{place} is {value!r:.80}, and not {hint}"
    return next(filter(None, (disagreement(*part) for part in parts)), None)


@pytest.mark.parametrize("change", [*CHANGES.values(), {"method": "fedrap"}, {"audit": {}}], ids=str)
def test_records_are_what_their_types_say(small: dict, change: dict) -> None:
    """If this fails, a type checker lets pass what is not there, or refuses what is."""
    simulation = fedrecsim.Simulation(small | change)
    for record in simulation:
        assert disagreement(record, records.RoundRecord, "round") is None
    for shown in simulation.recommend(0, top=2):
        assert disagreement(shown, records.Recommended, "recommended") is None
    assert disagreement(simulation.finish().record, records.RunRecord, "run") is None
    assert disagreement(fedrecsim.estimate(small | change), records.Estimate, "estimate") is None


def test_a_record_that_is_not_as_its_type_says_is_found() -> None:
    """If this fails, the test of the types of records lets anything pass."""
    sound = {"uploads": [0.5, 1], "averaged": [], "union": None}
    assert disagreement(sound, records.Sparsity, "it") is None
    for wrong in ({"union": "no"}, {"uploads": [True]}, {"uploads": None}, {"more": 1}):
        assert disagreement(sound | wrong, records.Sparsity, "it") is not None, wrong
    assert disagreement({"test": {}}, records.Accuracy, "it") is None
    assert disagreement({"validation": {}}, records.Accuracy, "it") is not None


def test_the_types_that_authors_write_are_there() -> None:
    """If this fails, annotations of a method cannot be read at run time."""
    client = fedrecsim.Client
    for annotated in (fedrecsim.Rows, fedrecsim.Update, fedrecsim.Block, client.train, client.score):
        typing.get_type_hints(annotated)
    assert {"Task", "Received", "Picture", "PlannedRun"} <= set(fedrecsim.__all__)


def test_the_package_is_sound_for_a_type_checker() -> None:
    """If this fails, code that uses the package has errors that are not its own."""
    pytest.importorskip("mypy")
    options = ["--strict", "--python-version", "3.10", "--ignore-missing-imports"]
    command = [sys.executable, "-m", "mypy", *options, "fedrecsim"]
    checked = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
