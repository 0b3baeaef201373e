"""Rows -> a hash of their values, and an order that depends on their values alone.

The hash spreads rows over cells and names results; rows are stored in the order. Neither depends on a row's place or on
how a table is cut: a batch that is run again sends a row to the same cells, gives a result the same name, and stores
the same bytes, in whatever order Spark delivers the rows. Unlike the codes of keys, the hash differs for -0.0 and 0.0.
It may change between versions, because a spread row meets all its partners wherever it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.engine.operators import interner
from midstream.kernels import hashing
from midstream.state.arrow import byte_offsets, make_contiguous, validity_of, values_of, view
from midstream.state.indexes import Ints
from midstream.state.sizes import cut_by_size, row_bytes, wide_type

#: What stands for a null.
_NULL = np.int64(-0x61C8864680B583EB)
#: Rows are cut after so many bytes of them.
_BYTES_AT_ONCE = 32 << 20
_LARGEST_OFFSET = 2**31 - 1


def row_codes(columns: Iterable[pa.Array], length: int, seed: int = 0) -> Ints:
    """A code for each row of columns of this length. With another seed, from 1 to 255, they are as if drawn anew.

    >>> one, other, again = row_codes([pa.array([[1], [2], [1]]), pa.array(["a", None, "a"])], 3).tolist()
    >>> one == again, one == other
    (True, False)
    """
    codes = np.full(length, seed, np.int64)
    for values in columns:
        hashing.combine(codes, value_codes(values, seed))
    return codes


def make_plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as one array in which what groups take as equal has equal codes: -0.0 is 0.0, and there is one NaN."""
    plain = interner.make_plain(values)
    if not pat.is_floating(plain.type) or pat.is_float16(plain.type):
        return plain
    return pc.if_else(pc.is_nan(plain), pa.scalar(np.nan, plain.type), plain)


def value_codes(values: pa.Array, seed: int = 0) -> Ints:
    """A code for each value; it depends on the value and the seed alone, nulls included."""
    codes = _codes(values, seed)
    valid = validity_of(values)
    return codes if valid is None else np.where(valid, codes, _NULL ^ seed)


def _codes(values: pa.Array, seed: int) -> Ints:
    """Codes by type; a null's code has no meaning."""
    type = values.type
    if pat.is_null(type):
        return np.full(len(values), _NULL ^ seed)
    if pat.is_struct(type):
        return row_codes(values.flatten(), len(values), seed)
    if pat.is_map(type):
        entry = pa.struct([("key", type.key_type), ("value", type.item_type)])
        return _codes(values.cast(pa.list_(entry)), seed)
    if pat.is_list(type) or pat.is_large_list(type) or pat.is_fixed_size_list(type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        return _hash(_bounds(lengths), value_codes(values.flatten(), seed).view(np.uint8), seed, 8)
    if _is_text(type):
        return _hash(*byte_offsets(values), seed)
    return _word_codes(values.cast(pa.uint8()) if pat.is_boolean(type) else values, seed)


def _word_codes(values: pa.Array, seed: int) -> Ints:
    """Codes of values of a fixed number of bytes: the bytes themselves, if they are few."""
    width = values.type.bit_width // 8
    if width in (1, 2, 4, 8):
        return values_of(values, f"<i{width}" if width > 1 else "|i1").astype(np.int64)
    data = view(values.buffers()[1], "|u1", values.offset * width, len(values) * width)
    return _hash(np.arange(len(values) + 1, dtype=np.int64), data, seed, width)


def _hash(bounds: Ints, data: NDArray[np.uint8], seed: int, unit: int = 1) -> Ints:
    codes = np.empty(len(bounds) - 1, np.int64)
    hashing.hash_bytes(bounds * unit, data ^ np.uint8(seed) if seed else data, codes)
    return codes


def _bounds(lengths: NDArray[Any]) -> Ints:
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


# The order of rows ---------------------------------------------------------------------------------------------------


def order_rows(table: pa.Table, event_time: str | None) -> Iterator[pa.Table]:
    """The rows by event time, if they have one, and then by their hash, in pieces that are cut by content alone.

    The bytes behind nulls are cleared, so equal rows have equal bytes.
    """
    order = _order(table, event_time)
    sizes = _over_batches(table, _sizes)[order]
    narrow = table.schema
    if sizes.sum() > _LARGEST_OFFSET:
        table = table.cast(pa.schema([field.with_type(wide_type(field.type)) for field in narrow]))
    for piece in cut_by_size(sizes, _BYTES_AT_ONCE):
        yield table.take(pa.array(order[piece])).cast(narrow)


def _order(table: pa.Table, event_time: str | None) -> Ints:
    times = np.zeros(table.num_rows, np.int64)
    if event_time is not None:
        times = values_of(make_contiguous(table[event_time]), "<i8")
    steps = np.diff(times)
    if (steps > 0).all():
        return np.arange(len(times))
    order = np.argsort(times, kind="stable")
    if (np.diff(times[order]) > 0).all():
        return order
    return np.lexsort((_over_batches(table, row_codes), times))


def _over_batches(table: pa.Table, count: Callable[[Sequence[pa.Array], int], Ints]) -> Ints:
    """A number for each row of a table, worked out batch by batch."""
    parts = [count(batch.columns, batch.num_rows) for batch in table.to_batches()]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _sizes(columns: Sequence[pa.Array], length: int) -> Ints:
    """About how many bytes each row has."""
    return sum((row_bytes(values) for values in columns), start=np.zeros(length, np.int64))


def _is_text(type: pa.DataType) -> bool:
    return bool(pat.is_string(type) or pat.is_binary(type) or pat.is_large_string(type) or pat.is_large_binary(type))
