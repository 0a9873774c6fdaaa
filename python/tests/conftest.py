"""What all tests share: a small scenario and the methods of the examples."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
REPOSITORY = PACKAGE.parent

#: How long a test waits for what has to come, in seconds. A busy machine is no fault, and a test that waits for ever ends.
PATIENCE = 900

sys.path.insert(0, str(PACKAGE / "examples"))
# A shell that runs the tests in the background has Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy_fedmf  # noqa: E402


@pytest.fixture
def small() -> dict:
    """A scenario that runs in milliseconds."""
    return {
        "seed": 7,
        "method": {"fedmf": {"latent_dimension": 8}},
        "dataset": {"name": "generated", "generator": {"users": 60, "items": 300}},
        "training": {"rounds": 4},
        "codec": {"uplink": "rows-f32"},
        "network": {"preset": "wifi-2020"},
    }


@pytest.fixture
def numpy_method() -> type:
    """The method of the example in NumPy."""
    return numpy_fedmf.NumpyFedMF


@pytest.fixture
def in_python(small: dict, numpy_method: type) -> dict:
    """The small scenario with a method in Python."""
    return small | {"method": {numpy_method.name: {"latent_dimension": 8}}}
