"""Between Arrow buffers and numpy arrays, without copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

#: What numpy takes for a machine word, by its bits.
_WORDS = {8: "|u1", 16: "<u2", 32: "<u4", 64: "<u8"}


class _Memory:
    """A view of a buffer that numpy takes for writable, so that kernels have one signature for all arrays.

    Nobody writes through it: kernels only write to arrays that the engine made.
    """

    __slots__ = ("__array_interface__", "_buffer")

    def __init__(self, buffer: pa.Buffer, dtype: str, offset: int, shape: tuple[int, ...]):
        self._buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.address + offset, False),
            "typestr": dtype,
            "shape": shape,
            "version": 3,
        }


def view(buffer: pa.Buffer | None, dtype: str, start: int, length: int) -> NDArray[Any]:
    """`length` values of a numpy type from position `start` of a buffer."""
    if buffer is None or length == 0:
        return np.empty(length, dtype)
    return np.asarray(_Memory(buffer, dtype, start * int(dtype[2:]), (length,)))


def values_of(array: pa.Array, dtype: str) -> NDArray[Any]:
    """The values of a fixed-width array; what stands where a value is null means nothing."""
    return view(array.buffers()[1], dtype, array.offset, len(array))


def take_values(values: pa.Array | pa.ChunkedArray, places: NDArray[np.int64]) -> pa.Array | pa.ChunkedArray:
    """The values at these places. Of a few machine words numpy takes them in a fraction of the time that Arrow needs.

    >>> take_values(pa.array([1.5, 2.5, 3.5]), np.array([0, 2])).to_pylist()
    [1.5, 3.5]
    """
    if isinstance(values, pa.ChunkedArray) and values.num_chunks == 1:
        values = values.chunk(0)
    is_single = isinstance(values, pa.Array) and pat.is_primitive(values.type) and values.null_count == 0
    if not is_single or values.type.bit_width not in _WORDS:
        return values.take(pa.array(places))
    taken = values_of(values, _WORDS[values.type.bit_width])[places]
    return pa.Array.from_buffers(values.type, len(places), [None, pa.py_buffer(taken)])


def validity_of(array: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Where an array has values, or None if it has no nulls."""
    if array.null_count == 0:
        return None
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def make_contiguous(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one contiguous array."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def byte_offsets(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each string or binary begins in its data, one more than there are values, and the data."""
    large = pat.is_large_string(values.type) or pat.is_large_binary(values.type)
    offsets = view(values.buffers()[1], "<i8" if large else "<i4", values.offset, len(values) + 1)
    data = values.buffers()[2]
    return offsets.astype(np.int64), view(data, "|u1", 0, data.size if data is not None else 0)


def cast_text(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values in another type; Arrow alone refuses a slice of text whose offsets are too large for the wanted type."""
    if wanted in (pa.string(), pa.binary()) and values.type in (pa.large_string(), pa.large_binary()) and len(values):
        last = view(values.buffers()[1], "<i8", values.offset + len(values), 1)
        if last[0] > np.iinfo(np.int32).max:
            values = pa.concat_arrays([values, values.slice(0, 0)])  # with offsets from 0 on
    return values.cast(wanted)


def unscaled_type(type: pa.DataType) -> pa.DataType:
    """The type of the numbers that decimals of a type are without their scale, of as many bits: a view of the same.

    Arrow compares these and chooses between them. With decimals it does so for some types, and changes others.

    >>> unscaled_type(pa.decimal64(12, 2)), unscaled_type(pa.decimal128(9, -3))
    (DataType(int64), Decimal128Type(decimal128(38, 0)))
    """
    if pat.is_decimal32(type):
        return pa.int32()
    if pat.is_decimal64(type):
        return pa.int64()
    return pa.decimal128(38, 0) if pat.is_decimal128(type) else pa.decimal256(76, 0)


def unscaled(values: pa.Array) -> pa.Array:
    """Decimals as the numbers that they are without their scale.

    >>> unscaled(pa.array([None, 5000]).cast(pa.decimal128(38, 0)).cast(pa.decimal128(9, -3))).to_pylist()
    [None, Decimal('5')]
    """
    return values.view(unscaled_type(values.type))


def chunks_of(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    """The arrays that a column consists of."""
    if not isinstance(column, pa.ChunkedArray):
        return [column]
    return [column.chunk(0)] if column.num_chunks == 1 else column.chunks


def pack_validity(valid: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """An Arrow validity bitmap."""
    if valid is None or bool(valid.all()):
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
