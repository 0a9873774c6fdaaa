"""Writes files."""

from __future__ import annotations

import os
import tempfile


def write_private(path: str, content: bytes) -> None:
    """Writes a file that its owner alone can read, whole or not at all. A link at its place is replaced."""
    descriptor, partial = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".fedrecsim-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
