"""Saves runs to one file, and reads them. The file has no code, so that one from somebody else can be read."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib

import numpy as np

from . import _native
from ._arrays import Matrix
from ._bridge import restore_report
from ._errors import MissingFileError, ScenarioError
from ._files import write_private

#: The folder in the archive of what is no file of the report.
_OWN = "run"


def save(report: _native.Report, path: str) -> None:
    """Writes a report with its tables and its model to a file, whole or not at all."""
    _, (text, summary, rounds, users, items, model, files, vectors) = report.__reduce__()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{_OWN}/record.json", text)
        archive.writestr(f"{_OWN}/summary.txt", summary)
        for name, table in (("rounds", rounds), ("users", users), ("items", items)):
            if table is not None:
                archive.writestr(f"{_OWN}/{name}.arrow", table)
        archive.writestr(f"{_OWN}/files.json", json.dumps(list(files)))
        archive.writestr(f"{_OWN}/model.json", json.dumps(list(model)))
        for place, block in enumerate(model.values()):
            archive.writestr(f"{_OWN}/model/{place}.npy", _bytes_of(block))
        if vectors is not None:
            of_users, named = vectors
            archive.writestr(f"{_OWN}/vectors.json", json.dumps([of_users, None if named is None else named[0]]))
            if named is not None:
                archive.writestr(f"{_OWN}/vectors.npy", _bytes_of(named[1]))
        for name, content in files.items():
            archive.writestr(name, content)
    write_private(path, packed.getvalue())


def _bytes_of(array: Matrix) -> bytes:
    """Returns an array as the content of a `.npy` file."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def load(path: str) -> _native.Report:
    """Reads what `save` has written.

    Raises ScenarioError for another file, and MissingFileError if there is none.
    """
    if not os.path.exists(path):
        raise MissingFileError(f"cannot read {path}: there is no such file")
    try:
        with zipfile.ZipFile(path) as archive:

            def table(name: str) -> bytes:
                return archive.read(f"{_OWN}/{name}.arrow")

            # There are none of them where the scenario has many.
            users = table("users") if f"{_OWN}/users.arrow" in archive.namelist() else None
            blocks = json.loads(archive.read(f"{_OWN}/model.json"))
            model = {
                name: np.load(io.BytesIO(archive.read(f"{_OWN}/model/{place}.npy")), allow_pickle=False)
                for place, name in enumerate(blocks)
            }
            files = {name: archive.read(name) for name in json.loads(archive.read(f"{_OWN}/files.json"))}
            vectors = None
            if f"{_OWN}/vectors.json" in archive.namelist():
                of_users, vector = json.loads(archive.read(f"{_OWN}/vectors.json"))
                rows = None if vector is None else np.load(io.BytesIO(archive.read(f"{_OWN}/vectors.npy")), allow_pickle=False)
                vectors = (of_users, None if rows is None else (vector, rows))
            text, summary = (archive.read(f"{_OWN}/{name}").decode() for name in ("record.json", "summary.txt"))
            return restore_report(text, summary, table("rounds"), users, table("items"), model, files, vectors)
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, zlib.error) as reason:
        raise ScenarioError(f"cannot read {path}: it is no run that `Run.save` has saved ({reason})") from None
