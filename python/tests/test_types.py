"""Types: the stub of the native module, and the package as a type checker sees it."""

from __future__ import annotations

import ast
import subprocess
import sys
import typing

import fedrecsim
import pytest
from conftest import PACKAGE
from fedrecsim import _native


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


def test_the_types_that_authors_write_are_there() -> None:
    """If this fails, annotations of a method cannot be read at run time."""
    client = fedrecsim.Client
    for annotated in (fedrecsim.Rows, fedrecsim.Update, fedrecsim.Block, client.train, client.score):
        typing.get_type_hints(annotated)
    assert {"Task", "Received", "Picture", "PlannedRun"} <= set(fedrecsim.__all__)


def test_the_package_is_sound_for_a_type_checker() -> None:
    """If this fails, code that uses the package has errors that are not its own."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--python-version", "3.10", "--ignore-missing-imports", "fedrecsim"]
    checked = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
