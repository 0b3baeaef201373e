"""Functions that came with the query: they compute Arrow arrays of their arguments, and see nothing else of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from midstream.cql.model import Call
from midstream.engine.expressions.vectors import Kernel, Value, reader, writer
from midstream.errors import EngineError, shown


def kernel_of(call: Call) -> Kernel:
    """The kernel of a call that brings its own computation."""
    compute = call.compute
    assert compute is not None
    writers = [writer(argument.type) for argument in call.args]
    read = reader(call.type)

    def run(*values: Value) -> Value:
        length = max(map(_length, values), default=1)  # a function without arguments is computed once
        arrays = [write(value, length) for write, value in zip(writers, values, strict=True)]
        return read(_checked(call, compute(*arrays), length))

    return run


def _length(value: Value) -> int:
    """How many rows a value has; a constant has none of its own."""
    if isinstance(value, tuple):
        return max(len(part) if np.ndim(part) else 0 for part in value)
    return len(value) if isinstance(value, pa.Array) else 0


def _checked(call: Call, found: Any, length: int) -> pa.Array:
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if isinstance(found, pa.Array) and found.type == call.type and len(found) == length:
        return found
    what = f"{len(found)} values of {found.type}" if isinstance(found, pa.Array) else shown(found)
    raise EngineError(f"function {call.function}: it gave {what}; give a pyarrow array of {length} {call.type}")
