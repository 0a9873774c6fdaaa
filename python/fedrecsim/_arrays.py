"""The types of arrays: what numbers they have, and how many dimensions."""

from __future__ import annotations

from typing import Union

import numpy as np
import numpy.typing as npt

#: A table of the shape (rows, columns) in single precision, as every block of a model is.
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]

#: Values in single precision, and integers, each of the shape (n,).
Values = np.ndarray[tuple[int], np.dtype[np.float32]]
Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

#: Numbers of the shape (n,): those of a column of a table, or a metric of each user.
Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]
Numbers = Union[Doubles, np.ndarray[tuple[int], np.dtype[np.uint64]]]

#: An array of anything, of any shape.
Anything = npt.NDArray[np.generic]
