"""Notebooks and examples of documents run from beginning to end."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import fedrecsim
import fedrecsim.traces
import fedrecsim.method
import pytest
from conftest import PACKAGE, PATIENCE, REPOSITORY

NOTEBOOKS = sorted((PACKAGE / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_beginning_to_end(notebook: Path, tmp_path: Path, monkeypatch) -> None:
    """If this fails, a user's first notebook ends in an exception."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    if notebook.stem == "item-tables":
        pytest.importorskip("sklearn")
        pytest.importorskip("matplotlib")
    # With MovieLens at hand, the notebook on item tables trains for minutes.
    monkeypatch.delenv("FEDRECSIM_DATA", raising=False)
    # Threads of t-SNE wait for each other at full speed: where other programs have the cores, two take eight times as long.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "scenarios").symlink_to(REPOSITORY / "scenarios")
    cells = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in cells.cells), "outputs are not kept in the repository"
    nbclient.NotebookClient(cells, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in cells.cells for output in cell.get("outputs", [])]
    assert shown, "the notebook shows nothing"


def test_every_notebook_is_run() -> None:
    """If this fails, a notebook is not among those that are run."""
    assert [path.stem for path in NOTEBOOKS] == ["item-tables", "quickstart", "size-a-deployment", "sparse-c"]


@pytest.mark.parametrize("module", [fedrecsim, fedrecsim.method, fedrecsim.traces], ids=lambda module: module.__name__)
def test_docstrings_are_true(module) -> None:
    """If this fails, an example in a docstring does not do what it says."""
    failed, attempted = doctest.testmod(module)
    assert failed == 0 and attempted > 0


@pytest.mark.parametrize("document", ["python/README.md", "docs/reference/python.md", "docs/tutorial/python.md"])
def test_the_code_of_a_document_runs(document: str, tmp_path: Path, monkeypatch) -> None:
    """If this fails, a document shows code that does not work."""
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    (tmp_path / "scenarios").symlink_to(REPOSITORY / "scenarios")
    (tmp_path / "studies").symlink_to(REPOSITORY / "studies")
    monkeypatch.chdir(tmp_path)
    space: dict = {"__name__": "document"}
    for block in blocks:
        if re.search(r"^import (ray|torch)\b", block, flags=re.MULTILINE):
            compile(block, document, "exec")
        else:
            exec(compile(block, document, "exec"), space)
