"""What the evaluation of expressions computes with: vectors, and the way in and out of Arrow.

Values of a fixed width are computed in NumPy, as a *vector*: a pair of values and validity. Text, binary and decimals
stay in Arrow. Which of the two a type uses is known when an expression is compiled::

    type        int*, uint*, float*, bool     date, time, timestamp, duration     text, binary, decimal
    computed    NumPy, same width             NumPy, the integer inside           Arrow array or scalar

In a vector the validity is None if nothing is null, else a boolean array that is true where there is a value; what the
values hold where it is false means nothing. A constant has NumPy scalars in place of arrays, and broadcasts. At least
one argument of every kernel is an array: what is constant altogether is computed when the expression is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from midstream.state import sizes
from midstream.state.arrow import unscaled
from midstream.state.sizes import ArrayTooLargeError

Mask: TypeAlias = Any  # None, a boolean array, or a boolean scalar
Vector: TypeAlias = tuple[Any, Mask]
Value: TypeAlias = Any  # a Vector, a pa.Array or a pa.Scalar
Kernel: TypeAlias = Callable[..., Value]

_SAME_WIDTH: dict[int, np.dtype[Any]] = {
    type.id: np.dtype(same)
    for type, same in (
        (pa.bool_(), np.bool_),
        (pa.int8(), np.int8),
        (pa.int16(), np.int16),
        (pa.int32(), np.int32),
        (pa.int64(), np.int64),
        (pa.uint8(), np.uint8),
        (pa.uint16(), np.uint16),
        (pa.uint32(), np.uint32),
        (pa.uint64(), np.uint64),
        (pa.float16(), np.float16),
        (pa.float32(), np.float32),
        (pa.float64(), np.float64),
    )
}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def physical(type: pa.DataType) -> np.dtype[Any] | None:
    """The NumPy type that values of an Arrow type are computed in; None if they stay in Arrow.

    >>> physical(pa.timestamp("us")), physical(pa.string())
    (dtype('int64'), None)
    """
    if type.id in _SAME_WIDTH:
        return _SAME_WIDTH[type.id]
    if pt.is_date32(type) or pt.is_time32(type):
        return np.dtype(np.int32)
    if pt.is_date64(type) or pt.is_time64(type) or pt.is_timestamp(type) or pt.is_duration(type):
        return np.dtype(np.int64)
    return None


def computed_in(type: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of a type that is known not to stay in Arrow."""
    dtype = physical(type)
    assert dtype is not None, f"{type} is computed in Arrow"
    return dtype


def ticks_per_second(type: pa.DataType) -> int:
    """How many units of a timestamp, duration or time make a second."""
    return _PER_SECOND[type.unit]


def reader(type: pa.DataType) -> Callable[[pa.Array], Value]:
    """What turns an array of a type into what kernels take: a view where there is something to view.

    >>> reader(pa.int64())(pa.array([1, None]))
    (array([1, 0]), array([ True, False]))
    """
    dtype = physical(type)
    if dtype is None:
        return _as_it_is
    if pt.is_boolean(type):
        return read_booleans
    size = dtype.itemsize

    def read(array: pa.Array) -> Vector:
        length = len(array)
        if not length:
            return np.empty(0, dtype), None
        bits, data = array.buffers()
        values = np.frombuffer(data, dtype, length, array.offset * size)
        return values, (_unpack(bits, array.offset, length) if array.null_count else None)

    return read


def read_booleans(array: pa.Array) -> Vector:
    """A boolean array as a vector; Arrow packs it in bits, so this is a copy."""
    length = len(array)
    if not length:
        return np.empty(0, np.bool_), None
    bits, data = array.buffers()
    values = _unpack(data, array.offset, length)
    return values, (_unpack(bits, array.offset, length) if array.null_count else None)


def validity(array: pa.Array | pa.Scalar) -> Mask:
    """The validity of an Arrow value, as a vector has it."""
    if isinstance(array, pa.Scalar):
        return None if array.is_valid else np.False_
    if not array.null_count:
        return None
    return _unpack(array.buffers()[0], array.offset, len(array)) if not pt.is_null(array.type) else np.False_


def constant(scalar: pa.Scalar) -> Value:
    """An Arrow scalar as kernels take a constant."""
    dtype = physical(scalar.type)
    if dtype is None:
        return scalar
    if not scalar.is_valid:
        return dtype.type(0), np.False_
    values, _ = reader(scalar.type)(pa.array([scalar], scalar.type))
    return values[0], None


def writer(type: pa.DataType) -> Callable[[Value, int], pa.Array]:
    """What turns the value of an expression into an array of a given length; constants are repeated.

    >>> writer(pa.int8())((np.int8(7), None), 2).to_pylist()
    [7, 7]
    """
    dtype = physical(type)

    def write_arrow(value: Value, length: int) -> pa.Array:
        return repeat(value, length) if isinstance(value, pa.Scalar) else value

    def write(value: Value, length: int) -> pa.Array:
        values, valid = value
        values = np.broadcast_to(np.asarray(values, dtype), (length,))
        if pt.is_boolean(type):
            data = pa.py_buffer(np.packbits(values, bitorder="little"))
        else:
            data = pa.py_buffer(np.ascontiguousarray(values))
        bits = None
        if valid is not None:
            bits = pa.py_buffer(np.packbits(np.broadcast_to(valid, (length,)), bitorder="little"))
        return pa.Array.from_buffers(type, length, [bits, data])

    return write_arrow if dtype is None else write


def repeat(scalar: pa.Scalar, length: int) -> pa.Array:
    """An array of equal values; Arrow itself does not notice if they are too many bytes for it."""
    if length > 1 and scalar.is_valid and isinstance(scalar, pa.BinaryScalar):
        needed = length * scalar.as_buffer().size
        if needed > sizes.ARRAY_BYTES:
            raise ArrayTooLargeError(needed)
    return pa.repeat(scalar, length)


def unscaled_value(value: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Decimals, or one of them, as numbers without their scale."""
    return unscaled(value) if isinstance(value, pa.Array) else unscaled(pa.array([value], value.type))[0]


def both_valid(p: Mask, q: Mask) -> Mask:
    """Valid where both are."""
    return q if p is None else (p if q is None else p & q)


def true_where(vector: Vector) -> Any:
    """A boolean vector as a mask in which null counts as false."""
    values, valid = vector
    return values if valid is None else values & valid


def apply_validity(array: pa.Array, valid: Mask) -> pa.Array:
    """An Arrow array with additional nulls where `valid` is false."""
    if valid is None:
        return array
    keep = pa.array(np.broadcast_to(valid, (len(array),)))
    return pc.if_else(keep, array, pa.scalar(None, array.type))


def _as_it_is(array: pa.Array) -> pa.Array:
    return array


def _unpack(bits: pa.Buffer, offset: int, length: int) -> Any:
    """Bits as an array of booleans."""
    first = offset >> 3
    skip = offset & 7
    octets = np.frombuffer(bits, np.uint8, (skip + length + 7) >> 3, first)
    flags = np.unpackbits(octets, bitorder="little", count=skip + length).view(np.bool_)
    return flags[skip:] if skip else flags
