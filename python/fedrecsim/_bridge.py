"""What the native module asks Python for: arrays of any kind, and objects of methods."""

from __future__ import annotations

import json
import operator
import os
import traceback
from types import TracebackType
from typing import Mapping, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Anything, Integers, Matrix
from .method import Array, Block, Client, Facts, Method, Problem, Rows, Server, Update, generator as generator

#: The folder of this package, whose lines are no place to look at for the author of a method.
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _plain(value: Array) -> Array:
    """Returns a tensor as an array that shares its memory where it can; anything else as it is."""
    if hasattr(value, "detach"):
        value = value.detach()
        if hasattr(value, "cpu"):
            value = value.cpu()
        if hasattr(value, "numpy"):
            value = value.numpy()
    return value


def floats(value: Array) -> npt.NDArray[np.float32]:
    """Returns an array of single precision whose values stand in a row."""
    return np.ascontiguousarray(_plain(value), dtype=np.float32)


def integers(value: Array) -> Integers:
    """Returns an array of integers of one dimension."""
    array = np.ascontiguousarray(_plain(value))
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"rows must be integers, not {array.dtype}")
    return array.astype(np.int64).reshape(-1)


def describe(error: BaseException, trace: TracebackType | None) -> str:
    """Returns an exception in words, with the last line of the method's own code."""
    told = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    text = " ".join(told)
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_PACKAGE)]
    if frames:
        last = frames[-1]
        text += f" ({os.path.basename(last.filename)}, line {last.lineno}, in {last.name})"
    return text


def make(cls: type[Method], parameters: str, problem: Facts) -> Method:
    """Makes the method of a class with checked parameters, which are its attributes."""
    return cls(Problem(problem), **json.loads(parameters))


def _blocks(layout: object) -> list[tuple[str, int, int, bool, bool]]:
    if not isinstance(layout, dict):
        raise TypeError(f"a layout must be a dictionary from block names to shapes, not {type(layout).__name__}")
    blocks = []
    for name, block in layout.items():
        if not isinstance(block, Block):
            rows, columns = block
            block = Block(rows, columns)
        shape = operator.index(block.rows), operator.index(block.columns)
        if min(shape) < 1:
            raise ValueError(f"the block `{name}` has the shape {shape}, and needs a row and a column at least")
        blocks.append((str(name), *shape, bool(block.items), bool(block.statistic)))
    if not blocks:
        raise ValueError("a layout has a block at least")
    return blocks


def layout(method: Method) -> list[tuple[str, int, int, bool, bool]]:
    """Returns the layout of the model."""
    return _blocks(method.layout())


def upload_layout(method: Method) -> list[tuple[str, int, int, bool, bool]] | None:
    """Returns the layout of uploads, if it is another one."""
    other = method.upload_layout()
    return None if other is None else _blocks(other)


def initial(method: Method) -> dict[str, Array]:
    """Returns the model that the server starts with."""
    return dict(method.initial())


def facts(method: Method) -> dict[str, bool]:
    """Returns what the class says of its method."""
    return {
        "draws_negatives": bool(method.draws_negatives),
        "sampled_rows_only": bool(method.sampled_rows_only),
        "predicts_ratings": bool(method.predicts_ratings),
        "weighted": bool(method.weighted),
        "has_server": method.server() is not None,
    }


def rules(method: Method) -> str:
    """Returns the rules of the server as JSON."""
    return json.dumps(dict(method.rules))


def version(cls: type[Method]) -> str:
    """Returns the version of a method's code."""
    return cls._version


def returned(value: object) -> tuple[dict[str, Array | Rows], float, float | None, int | None, int]:
    """Returns what `train` has returned, as the native module reads it."""
    if isinstance(value, Update):
        update = value
    elif isinstance(value, tuple) and len(value) == 2:
        update = Update(*value)
    else:
        raise TypeError(f"`train` must return an Update or a pair of blocks and loss, not {type(value).__name__}")
    if not isinstance(update.blocks, dict):
        raise TypeError(f"the blocks of an update must be a dictionary, not {type(update.blocks).__name__}")
    weight = None if update.weight is None else float(update.weight)
    visits = None if update.row_visits is None else int(update.row_visits)
    return update.blocks, float(cast(float, _plain(update.loss))), weight, visits, int(update.multiply_adds)


def state(owner: Client | Server) -> list[tuple[str, Anything]]:
    """Returns the private attributes of a client, or those that a server keeps, as arrays."""
    pairs = []
    for name in owner.state:
        if not hasattr(owner, name):
            raise AttributeError(f"`state` names `{name}`, and {type(owner).__name__} has no such attribute")
        array = np.asarray(_plain(getattr(owner, name)))
        if np.issubdtype(array.dtype, np.integer) or array.dtype == bool:
            array = array.astype(np.int64)
        elif array.dtype not in (np.float32, np.float64):
            raise TypeError(f"the attribute `{name}` is neither an array of numbers nor a number, but {array.dtype}")
        # A copy: what is saved must not change with the client. An array of no dimensions stays one.
        pairs.append((name, np.array(array, order="C", copy=True)))
    return pairs


def restore(owner: Client | Server, pairs: list[tuple[str, Anything]]) -> None:
    """Gives an object the attributes that `state` has returned, each of the kind that it has now."""
    for name, array in pairs:
        present: object = getattr(owner, name, None)
        if hasattr(present, "detach"):
            import torch

            now = cast(torch.Tensor, present)
            tensor = torch.from_numpy(np.array(array, copy=True)).to(now.dtype)
            if isinstance(now, torch.nn.Parameter):
                tensor = torch.nn.Parameter(tensor, requires_grad=now.requires_grad)
            elif now.requires_grad:
                tensor.requires_grad_(True)
            setattr(owner, name, tensor)
        elif isinstance(present, (bool, int, float)):
            setattr(owner, name, type(present)(array[()]))
        else:
            # Integers of any width are saved as one; what has become another kind since the object was made stays so.
            kept = array.dtype
            if isinstance(present, (np.ndarray, np.generic)) and kept == np.int64 and present.dtype.kind in "iub":
                kept = present.dtype
            setattr(owner, name, array.astype(kept, copy=True))


def restore_report(
    json_text: str,
    summary: str,
    rounds: bytes,
    users: bytes | None,
    items: bytes,
    model: dict[str, Matrix],
    files: Mapping[str, bytes],
    vectors: _native.Vectors | None = None,
) -> _native.Report:
    """Makes a report of what pickling made of it."""
    for block in model.values():
        block.flags.writeable = False
    return _native.Report.restore((json_text, summary), rounds, users, items, model, list(files.items()), vectors)
