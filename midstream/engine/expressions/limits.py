"""Text that an expression makes longer: no array gets more bytes than it can hold.

An array of text has offsets of 32 bits, so it holds less than 2 GiB. Most kernels of Arrow raise an error beyond that,
but REPLACE and the repetition of a constant go on with wrong offsets. So a step that makes text first bounds the bytes
of its result, without a look at the values::

    concat(a, b, 'x')      bytes(a) + bytes(b) + rows          CASE, COALESCE, ...      the same
    upper(a)               bytes(a) * 3/2                      CAST to or from text     bytes(a) + rows * 128
    replace(a, 's', 't')   bytes(a) * length(t) / length(s); if that is too much, the occurrences are counted

If the bound is too high for several rows, the step raises `ArrayTooLargeError`, and whoever evaluates the expression
goes on with fewer rows. A single row is computed with offsets of 64 bits. If its value is too long for its type, it is
null, as whenever an expression fails on a value; so is what CAST makes of a text that is too long to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.cql.model import Call, Cast, Expr, Literal
from midstream.engine.expressions.vectors import Kernel, Value
from midstream.state import sizes
from midstream.state.arrow import cast_text
from midstream.state.sizes import ArrayTooLargeError, can_be_large, wide_type

_WRITTEN_BYTES = 128
"""More than any number or time takes as text, also on the way."""


def limit_kernel(make: Callable[[Call | Cast], Kernel], expr: Call | Cast, operands: tuple[Expr, ...]) -> Kernel:
    """The kernel that `make` makes for a step; if it makes text or the like, the bytes are bounded before it runs."""
    kernel = make(expr)
    if not (can_be_large(expr.type) or (isinstance(expr, Cast) and can_be_large(expr.operand.type))):
        return kernel
    growth, per_row, count_added = _growth(expr), _bytes_per_row(expr, operands), _added_by_replace(expr)

    def run(*args: Value) -> Value:
        rows = held = 0
        for arg in args:
            if isinstance(arg, pa.Array):
                rows = len(arg)
                held += arg.get_total_buffer_size()
            elif isinstance(arg, tuple):
                rows = max(rows, np.size(arg[0]))
        if held * growth + rows * per_row <= sizes.ARRAY_BYTES:
            return kernel(*args)
        # Slower and closer: a buffer may hold the values of other rows too.
        held = sum(arg.nbytes for arg in args if isinstance(arg, pa.Array))
        needed = int(held * growth) + rows * per_row
        if needed > sizes.ARRAY_BYTES and count_added is not None:
            needed = held + count_added(args[0])
        if needed <= sizes.ARRAY_BYTES:
            return kernel(*args)
        if rows > 1:
            raise ArrayTooLargeError(needed)
        return _single_value(make, expr, args) if can_be_large(expr.type) else kernel(pa.nulls(1, args[0].type))

    return run


def _single_value(make: Callable[[Call | Cast], Kernel], expr: Call | Cast, args: tuple[Value, ...]) -> pa.Array:
    """The value of one row, computed in wide types; null if its own type has no room for it."""
    wide = wide_type(expr.type)
    step = replace(expr, type=wide)
    widened = [arg.cast(wide_type(arg.type)) if isinstance(arg, pa.Array | pa.Scalar) else arg for arg in args]
    value = make(step)(*widened)
    if expr.type in (pa.string(), pa.binary()) and (pc.binary_length(value)[0].as_py() or 0) > sizes.ARRAY_BYTES:
        return pa.nulls(1, expr.type)
    return cast_text(value, expr.type)


def _growth(expr: Call | Cast) -> float:
    """How many times as long as its arguments a value can be."""
    if not isinstance(expr, Call):
        return 1.0
    if expr.function in ("upper", "lower"):
        return 1.5  # a character of two bytes may become one of three
    if expr.function == "replace":
        search, substitute = map(_literal_bytes, expr.args[1:])
        return max(1.0, substitute / max(1, search))
    return 1.0


def _bytes_per_row(expr: Call | Cast, operands: tuple[Expr, ...]) -> int:
    """What constants, and the way between text and numbers, add to every row."""
    if isinstance(expr, Cast):
        return 0 if can_be_large(expr.operand.type) and can_be_large(expr.type) else _WRITTEN_BYTES
    return sum(map(_literal_bytes, operands))


def _added_by_replace(expr: Call | Cast) -> Callable[[pa.Array], int] | None:
    """Counts the bytes that REPLACE adds to text; None for other steps."""
    if not isinstance(expr, Call) or expr.function != "replace":
        return None
    search, substitute = expr.args[1:]
    added = _literal_bytes(substitute) - _literal_bytes(search)
    assert isinstance(search, Literal)
    pattern = search.value.as_py() if isinstance(search.value, pa.Scalar) else search.value
    return lambda text: added * (pc.sum(pc.count_substring(text, pattern)).as_py() or 0)


def _literal_bytes(expr: Expr) -> int:
    """The bytes of a constant of text or binary; 0 for anything else."""
    if not isinstance(expr, Literal):
        return 0
    value = expr.value.as_py() if isinstance(expr.value, pa.Scalar) else expr.value
    return len(value.encode() if isinstance(value, str) else value) if isinstance(value, str | bytes) else 0
