"""Functions over text. Characters are Unicode code points, as in Spark; text stays in Arrow.

Where Arrow has a kernel only for constants (cutting out a piece, searching), the general case works on the bytes of the
whole column at once: the offsets of all characters, of all candidates.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from midstream.cql.model import Call, Expr, Literal
from midstream.engine.expressions.vectors import (
    Kernel,
    Value,
    Vector,
    apply_validity,
    both_valid,
    read_booleans,
    reader,
    repeat,
)
from midstream.engine.expressions.vectors import validity as validity_of

_TO_THE_END = np.int64(1 << 40)
_EVERYTHING: Vector = (_TO_THE_END, None)
_length = reader(pa.int32())


def upper(call: Call) -> Kernel:
    return lambda a: pc.utf8_upper(a)


def lower(call: Call) -> Kernel:
    return lambda a: pc.utf8_lower(a)


def trim(call: Call) -> Kernel:
    """Removes spaces, and only those, as in Spark."""
    return lambda a: pc.utf8_trim(a, characters=" ")


def ltrim(call: Call) -> Kernel:
    return lambda a: pc.utf8_ltrim(a, characters=" ")


def rtrim(call: Call) -> Kernel:
    return lambda a: pc.utf8_rtrim(a, characters=" ")


def length(call: Call) -> Kernel:
    """Characters of text, bytes of binary; null if an int32 does not hold it.

    A column may come in a wide type although its own is not, and Arrow then counts by int64.
    """
    count = pc.utf8_length if physical_text(call.args[0]) else pc.binary_length

    def count_any(a: pa.Array) -> Vector:
        counts = count(a)
        if counts.type != pa.int32():
            fits = pc.less_equal(counts, np.iinfo(np.int32).max)
            counts = pc.if_else(fits, counts, None).cast(pa.int32())
        found: Vector = _length(counts)
        return found

    return count_any


def concat(call: Call) -> Kernel:
    """Null if any argument is."""
    separator = pa.scalar("", call.type)
    return lambda *args: pc.binary_join_element_wise(*args, separator)


def like(call: Call) -> Kernel:
    """``%`` is any characters, ``_`` one, a backslash takes the meaning from either. The pattern is a literal."""
    pattern = literal_text(call.args[1])
    if pattern is None:
        return lambda a: (np.zeros(len(a), np.bool_), np.False_)
    ignore_case = call.function == "ilike"
    if "\\" in pattern:
        # Arrow takes a shortcut for patterns such as '%end' that does not see escapes inside.
        regex = _like_as_regex(pattern)
        return lambda a: read_booleans(pc.match_substring_regex(a, regex, ignore_case=ignore_case))
    return lambda a: read_booleans(pc.match_like(a, pattern, ignore_case=ignore_case))


def _like_as_regex(pattern: str) -> str:
    """A LIKE pattern as a regular expression for the whole text."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            parts.append(re.escape(next(characters, character)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "(?s)\\A" + "".join(parts) + "\\z"


def replace(call: Call) -> Kernel:
    """All occurrences; an empty search text occurs nowhere."""
    search, substitute = literal_text(call.args[1]), literal_text(call.args[2])
    if search is None or substitute is None:
        return lambda a: pa.nulls(len(a), call.type)
    if not search:
        return lambda a: a
    return lambda a: pc.replace_substring(a, pattern=search, replacement=substitute)


def text_test(call: Call) -> Kernel:
    """STARTSWITH, ENDSWITH, CONTAINS; what is looked for may be a column."""
    known = {"startswith": pc.starts_with, "endswith": pc.ends_with, "contains": pc.match_substring}[call.function]
    if isinstance(call.args[1], Literal):
        wanted = literal_text(call.args[1])
        if wanted is None:
            return lambda a: (np.zeros(len(a), np.bool_), np.False_)
        return lambda a: read_booleans(known(a, pattern=wanted))
    name = call.function

    def search(a: Value, b: Value) -> Vector:
        a, b = _same_length(a, b)
        return _occurs(name, _Bytes(a), _Bytes(b)), both_valid(validity_of(a), validity_of(b))

    return search


def substring(call: Call) -> Kernel:
    """From a position counted from 1, or from the end if negative; a position before the start uses up length."""
    if is_plain_slice(call):
        first, *rest = call.args[1:]
        start = _number(first) - 1
        stop = min(start + _number(rest[0]), 2**63 - 1) if rest else None
        return lambda a: pc.utf8_slice_codeunits(a, start=start, stop=stop)

    def cut(a: Value, position: Vector, count: Vector = _EVERYTHING) -> pa.Array:
        rows = max(len(column) for column in (a, position[0], count[0]) if isinstance(column, pa.Array | np.ndarray))
        a = repeat(a, rows) if isinstance(a, pa.Scalar) else a
        valid = both_valid(position[1], count[1])
        return apply_validity(_slice(a, position[0], count[0]), valid)

    return cut


def is_plain_slice(call: Call) -> bool:
    """Whether a SUBSTRING has constant positive numbers, which Arrow's own kernel takes."""
    return all(_positive(arg) for arg in call.args[1:])


class _Bytes:
    """The bytes of a text column, with where each row starts and ends."""

    def __init__(self, array: pa.Array) -> None:
        wide = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
        kind = np.dtype(np.int64 if wide else np.int32)
        _, offsets, data = array.buffers()
        if len(array):
            ends = np.frombuffer(offsets, kind, len(array) + 1, array.offset * kind.itemsize).astype(np.int64)
        else:
            ends = np.zeros(1, np.int64)
        held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        self.data = held[ends[0] : ends[-1]]
        self.start, self.end = ends[:-1] - ends[0], ends[1:] - ends[0]


def _occurs(name: str, text: _Bytes, wanted: _Bytes) -> Any:
    """Whether each row of `wanted` stands in its row of `text`: candidates are dropped byte by byte."""
    size = wanted.end - wanted.start
    slack = text.end - text.start - size
    found = np.zeros(len(size), np.bool_)
    if name == "contains":
        rows = np.repeat(np.arange(len(size)), np.maximum(slack + 1, 0))
        at = np.arange(len(rows)) - np.repeat(_starts(np.maximum(slack + 1, 0)), np.maximum(slack + 1, 0))
    else:
        rows = np.flatnonzero(slack >= 0)
        at = slack[rows] if name == "endswith" else np.zeros(len(rows), np.int64)
    at = at + text.start[rows]
    compared = 0
    while len(rows):
        complete = size[rows] == compared
        found[rows[complete]] = True
        rows, at = rows[~complete], at[~complete]
        same = text.data[at + compared] == wanted.data[wanted.start[rows] + compared]
        rows, at = rows[same], at[same]
        compared += 1
    return found


def _slice(array: pa.Array, position: Any, count: Any) -> pa.Array:
    """Rows cut to `count` characters from `position`, each its own."""
    text = _Bytes(array)
    head = np.flatnonzero((text.data & 0xC0) != 0x80)  # where characters start
    head = np.append(head, len(text.data))
    first = np.searchsorted(head, text.start)
    total = np.searchsorted(head, text.end) - first
    position = np.clip(np.broadcast_to(position, total.shape), -_TO_THE_END, _TO_THE_END)
    count = np.clip(np.broadcast_to(count, total.shape), -_TO_THE_END, _TO_THE_END)
    begin = np.where(position > 0, position - 1, np.where(position < 0, total + position, 0))
    stop = np.clip(begin + count, 0, total)
    begin = np.minimum(np.clip(begin, 0, total), stop)
    low, high = head[first + begin], head[first + stop]
    size = high - low
    ends = np.concatenate(([0], np.cumsum(size)))
    source = np.arange(ends[-1]) + np.repeat(low - ends[:-1], size)
    wide = pt.is_large_string(array.type)
    offsets = ends.astype(np.int64 if wide else np.int32)
    pieces = [None, pa.py_buffer(offsets), pa.py_buffer(text.data[source])]
    return apply_validity(pa.Array.from_buffers(array.type, len(array), pieces), validity_of(array))


def _starts(sizes: Any) -> Any:
    return np.cumsum(sizes) - sizes


def _same_length(a: Value, b: Value) -> tuple[pa.Array, pa.Array]:
    if isinstance(a, pa.Scalar):
        a = repeat(a, len(b))
    return a, (repeat(b, len(a)) if isinstance(b, pa.Scalar) else b)


def physical_text(expr: Expr) -> bool:
    """Whether an expression is text, not binary."""
    return bool(pt.is_string(expr.type) or pt.is_large_string(expr.type))


def literal_text(expr: Expr) -> str | None:
    """The text of a literal."""
    assert isinstance(expr, Literal)
    value = expr.value.as_py() if isinstance(expr.value, pa.Scalar) else expr.value
    return None if value is None else str(value)


def _positive(expr: Expr) -> bool:
    return isinstance(expr, Literal) and literal_text(expr) is not None and _number(expr) > 0


def _number(expr: Expr) -> int:
    assert isinstance(expr, Literal)
    return int(literal_text(expr) or 0)
