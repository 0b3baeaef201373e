"""Values in another type, if every one of them stays what it is.

A type is taken apart until plain values are left, and these are cast within their family: numbers to numbers, text to
text. Arrow's own safe cast is trusted where it looks at the values: between integers, between texts and bytes. Anywhere
else the result is compared with what was given: Arrow rounds floats to decimals and to halves, and drops the high bits
of decimals that become narrower.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.cql.plain import plain_type
from midstream.state import sizes
from midstream.state.arrow import cast_text, chunks_of, pack_validity, unscaled, validity_of
from midstream.state.sizes import wide_type

CAST_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_WHOLE = pa.decimal128(20, 0)
_LARGEST_POWER_OF_FIVE = 27


def cast_without_loss(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in another type, which is plain, or an Arrow error if one of them would change.

    >>> cast_without_loss(pa.array([[1], None]), pa.list_(pa.int8())).to_pylist()
    [[1], None]
    >>> cast_without_loss(pa.array([0.5, 0.1]), pa.decimal128(5, 2))
    Traceback (most recent call last):
    ...
    pyarrow.lib.ArrowInvalid: a value would be rounded
    """
    given = values.type
    if given == wanted:
        return values
    if pat.is_null(given):
        return pa.nulls(len(values), wanted)
    if pat.is_dictionary(given):
        return cast_without_loss(_take(values.dictionary, values.indices), wanted)
    if pat.is_run_end_encoded(given):
        rows = np.arange(values.offset, values.offset + len(values))
        runs = np.searchsorted(values.run_ends.to_numpy(), rows, side="right")
        return cast_without_loss(_take(values.values, pa.array(runs)), wanted)
    if isinstance(given, pa.BaseExtensionType):
        return cast_without_loss(values.storage, wanted)
    if pat.is_map(wanted) and pat.is_map(given):
        return _cast_maps(values, wanted)
    if _is_list(wanted) and _is_list(given):
        return _cast_lists(values, wanted)
    if pat.is_struct(wanted) and pat.is_struct(given):
        return _cast_structs(values, wanted)
    if not any(member(given) and member(wanted) for member in _FAMILIES):
        raise pa.ArrowTypeError("another kind of value")
    return _plain_values(values, wanted)


def cast_in_pieces(values: pa.Array, wanted: pa.DataType) -> list[pa.Array]:
    """The values in another type, in several arrays if they are too many bytes for one."""
    if len(values) < 2 or values.nbytes <= sizes.PIECE_BYTES:
        return [cast_without_loss(values, wanted)]
    half = len(values) // 2
    return cast_in_pieces(values.slice(0, half), wanted) + cast_in_pieces(values.slice(half), wanted)


def make_plain(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """The same rows in plain types: Arrow cannot put others in another order."""
    columns = []
    for column in table.columns:
        wanted = plain_type(column.type)
        parts = [part for chunk in chunks_of(column) for part in cast_in_pieces(chunk, wanted)]
        columns.append(pa.chunked_array(parts, wanted))
    return pa.table(columns, names=table.schema.names)


def find_first_failure(values: pa.Array, convert: Callable[[pa.Array], object]) -> int:
    """The place of the first value on which a conversion fails, of which one fails."""
    begin, end = 0, len(values)
    while end - begin > 1:
        middle = (begin + end) // 2
        try:
            convert(values.slice(begin, middle - begin))
            begin = middle
        except CAST_ERRORS:
            end = middle
    return begin


def _take(values: pa.Array, places: pa.Array) -> pa.Array:
    """Values at places, as often as they come, in a plain type that has room for all."""
    return cast_without_loss(values, wide_type(plain_type(values.type))).take(places)


# Lists, maps and structs ---------------------------------------------------------------------------------------------


def _is_list(type: pa.DataType) -> bool:
    return bool(
        pat.is_list(type)
        or pat.is_large_list(type)
        or pat.is_list_view(type)
        or pat.is_large_list_view(type)
        or pat.is_fixed_size_list(type)
    )


def _cast_lists(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    elements = _child(values.flatten(), wanted.value_field)
    if not pat.is_fixed_size_list(wanted):
        return _build_lists(values, lengths, elements, wanted)
    valid = validity_of(values)
    if not bool((lengths == wanted.list_size).all() if valid is None else (lengths == wanted.list_size)[valid].all()):
        raise pa.ArrowInvalid(f"a list has not {wanted.list_size} elements")
    if valid is not None:
        # Every row has room for its elements, whether there are any or not.
        places = np.cumsum(np.repeat(valid, wanted.list_size)) - 1
        elements = elements.take(pa.array(places, mask=~np.repeat(valid, wanted.list_size)))
    return pa.Array.from_buffers(wanted, len(values), [pack_validity(valid)], children=[elements])


def _cast_maps(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Maps, which are lists of entries."""
    if wanted.keys_sorted and not values.type.keys_sorted:
        raise pa.ArrowTypeError("the keys of its maps are in no order")
    offsets: NDArray[np.int64] = values.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    valid = validity_of(values)
    if valid is not None:
        lengths[~valid] = 0
    places = pa.array(np.arange(lengths.sum()) + np.repeat(offsets[:-1] - np.cumsum(lengths) + lengths, lengths))
    keys, items = (_take(part, places) for part in (values.keys, values.items))
    fields = [wanted.key_field, wanted.item_field]
    entries = [_child(part, field) for part, field in zip((keys, items), fields, strict=True)]
    return _build_lists(values, lengths, pa.StructArray.from_arrays(entries, fields=fields), wanted)


def _build_lists(values: pa.Array, lengths: NDArray[np.int64], elements: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Lists or maps with these elements, null where `values` are."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if not pat.is_large_list(wanted):
        if offsets[-1] > np.iinfo(np.int32).max:
            raise pa.ArrowInvalid(f"{offsets[-1]:,} elements are more than one {wanted} array holds")
        offsets = offsets.astype(np.int32)
    buffers = [pack_validity(validity_of(values)), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(wanted, len(values), buffers, children=[elements])


def _cast_structs(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Fields match by name, and are the same on both sides: one more would be lost, one less would be made up."""
    names, given = [field.name for field in wanted], [field.name for field in values.type]
    if names != given and (sorted(names) != sorted(given) or len(set(names)) < len(names)):
        raise pa.ArrowTypeError(f"other fields: {', '.join(given)} instead of {', '.join(names)}")
    places = range(len(names)) if names == given else [given.index(name) for name in names]
    parts, is_there = values.flatten(), values.is_valid() if values.null_count else None
    children = [_child(parts[at], field, is_there) for at, field in zip(places, wanted, strict=True)]
    buffers = [pack_validity(validity_of(values))]
    return pa.Array.from_buffers(wanted, len(values), buffers, children=children)


def _child(values: pa.Array, field: pa.Field, is_there: pa.Array | None = None) -> pa.Array:
    """The values of a field or of elements; where the whole is null, a field is null, too, be that allowed or not."""
    if (
        not field.nullable
        and values.null_count
        and (is_there is None or pc.any(pc.and_(values.is_null(), is_there)).as_py())
    ):
        raise pa.ArrowInvalid(f"{field.name!r} may not be null")
    return cast_without_loss(values, field.type)


# Plain values --------------------------------------------------------------------------------------------------------


def _is_text(type: pa.DataType) -> bool:
    return bool(pat.is_string(type) or pat.is_large_string(type) or pat.is_string_view(type))


def _is_bytes(type: pa.DataType) -> bool:
    plain = pat.is_binary(type) or pat.is_large_binary(type)
    return bool(plain or pat.is_fixed_size_binary(type) or pat.is_binary_view(type))


_FAMILIES = (
    lambda type: pat.is_integer(type) or pat.is_floating(type) or pat.is_decimal(type),
    _is_text,
    _is_bytes,
    lambda type: pat.is_timestamp(type) and type.tz is None,
    lambda type: pat.is_timestamp(type) and type.tz is not None,
    pat.is_date,
    pat.is_time,
    pat.is_duration,
)


def _plain_values(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    values = _with_room(values)
    given = values.type
    if given == wanted:
        return values
    if pat.is_decimal(wanted):
        return _to_decimals(values, wanted)
    if pat.is_decimal(given) and pat.is_floating(wanted):
        return _decimals_to_floats(values, wanted)
    if pat.is_floating(given) and pat.is_integer(wanted) and not _are_below(values, 2.0 ** _count_bits(wanted)):
        raise pa.ArrowInvalid(f"a value is beyond {wanted}")
    if _is_trusted(given, wanted):
        return cast_text(values, wanted)
    # Arrow refuses all integers from 2**53 on for a float, also those that it holds.
    becomes_float = pat.is_integer(given) and pat.is_floating(wanted)
    cast = values.cast(wanted, safe=not becomes_float)
    # On the way back an infinite half float would be the smallest or the largest integer.
    if becomes_float and not (_are_below(cast, 2.0 ** _count_bits(given)) and _are_finite(cast)):
        raise pa.ArrowInvalid("a value would be rounded")
    # Whether a number is in range has been asked on the way there.
    back = cast_without_loss(cast, given) if pat.is_decimal(given) else cast.cast(given, safe=False)
    _compare(back, values)
    return cast


def _with_room(values: pa.Array) -> pa.Array:
    """Half floats and narrow decimals in a type that has room for them on the way to any other."""
    type = values.type
    if pat.is_float16(type):
        return values.cast(pa.float32())
    return values.cast(pa.decimal128(38, type.scale)) if _is_narrow(type) else values


def _is_narrow(type: pa.DataType) -> bool:
    return bool(pat.is_decimal32(type) or pat.is_decimal64(type))


def _is_trusted(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pat.is_fixed_size_binary(wanted):
        return False
    return any(member(given) and member(wanted) for member in (pat.is_integer, _is_text, _is_bytes))


def _count_bits(integers: pa.DataType) -> int:
    """The bits that a type of integers has for its largest value."""
    return int(integers.bit_width) - int(pat.is_signed_integer(integers))


def _are_below(values: pa.Array, limit: float) -> bool:
    return pc.all(pc.less(values.cast(pa.float64()), limit)).as_py() is not False


def _are_finite(values: pa.Array) -> bool:
    return pc.all(pc.is_finite(values.cast(pa.float64()))).as_py() is not False


def _compare(found: pa.Array, given: pa.Array) -> None:
    if pat.is_decimal(given.type):
        found, given = unscaled(found), unscaled(given)
    kept = pc.equal(found, given)
    if pat.is_floating(given.type):
        kept = pc.or_(kept, pc.and_(pc.is_nan(found), pc.is_nan(given)))
    if pc.all(kept).as_py() is False:
        raise pa.ArrowInvalid("a value would be rounded")


def _to_decimals(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pat.is_integer(values.type):
        values = values.cast(_WHOLE)
    elif pat.is_floating(values.type):
        values = _floats_to_decimals(values, wanted)
    elif _is_narrow(wanted):
        values = cast_without_loss(values, pa.decimal128(38, wanted.scale))
    elif pat.is_decimal256(wanted):
        values = values.cast(pa.decimal256(76, values.type.scale))  # else Arrow rescales in what has 38 digits
    if values.type == wanted:
        return values
    if wanted.scale >= values.type.scale:
        _check_digits(values, wanted)
        return values.cast(wanted)
    cast = values.cast(wanted)
    cast.validate(full=True)
    _compare(cast.cast(values.type), values)
    return cast


def _check_digits(values: pa.Array, wanted: pa.DataType) -> None:
    """Whether decimals fit into a type with as many digits after the point, or more: then nothing is rounded."""
    numbers = unscaled(values)
    largest = max((abs(int(end)) for end in pc.min_max(numbers).as_py().values() if end is not None), default=0)
    if largest * 10 ** (wanted.scale - values.type.scale) >= 10**wanted.precision:
        raise pa.ArrowInvalid(f"a value is beyond {wanted}")


def _floats_to_decimals(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Exactly: a float is a decimal of scale s if its product with 2**s is an integer w; the digits are w * 5**s."""
    scale = wanted.scale
    floats: NDArray[np.float64] = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy()
    with np.errstate(over="ignore"):
        wholes = np.ldexp(floats, scale)
    if not np.isfinite(floats).all() or (wholes != np.floor(wholes)).any():
        raise pa.ArrowInvalid("a value would be rounded")
    fits = 0 <= scale <= _LARGEST_POWER_OF_FIVE and bool((np.abs(floats) < 2.0**62 / 10.0**scale).all())
    if not fits:
        return pa.array(
            [None if value is None else decimal.Decimal(value) for value in values.cast(pa.float64()).to_pylist()],
            wanted,
        )
    digits = pa.array(wholes.astype(np.int64) * 5**scale).cast(_WHOLE)
    buffers = [pack_validity(validity_of(values)), digits.buffers()[1]]
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(values), buffers)


def _decimals_to_floats(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    cast = values.cast(pa.float64())
    _compare(cast_without_loss(cast, values.type), values)
    return cast_without_loss(cast, wanted)
