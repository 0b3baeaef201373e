"""A payload column `x` of any type that Arrow has: it must come out as it went in, and may be asked whether it is null.

The type and the values are drawn beside the case's own generator, so that most seeds have one case with and without.
"""

from __future__ import annotations

import datetime
import decimal
import random

import numpy as np
import pyarrow as pa

from .expr import Value

CARRIED = "x"
LONG = "a text that does not fit inline"
_MONTHS = pa.month_day_nano_interval()
_DAY = datetime.date(2024, 2, 29)
_TEXTS: tuple[Value, ...] = ("", "a", LONG, "é日本")
_BYTES: tuple[Value, ...] = (b"", b"a", LONG.encode(), b"\0\xff")
_DECIMALS: tuple[Value, ...] = (decimal.Decimal("0.00"), decimal.Decimal("-1.25"), decimal.Decimal("99999.99"))
_LISTS: tuple[Value, ...] = ([], [1, None, 3], [2**31 - 1])
_TEXT_LISTS: tuple[Value, ...] = ([], ["a", None, LONG], [""])
_STRUCT = pa.struct({"n": pa.int32(), "s": pa.string()})
_STRUCTS: tuple[Value, ...] = ({"n": 1, "s": "a"}, {"n": None, "s": LONG}, {"n": 3, "s": None})
_MAPS: tuple[Value, ...] = ([], [("a", 1.5)], [("a", None), (LONG, -0.0)])

#: A type, values of it, and other types in which the same values may be pushed.
TYPES: tuple[tuple[pa.DataType, tuple[Value, ...], tuple[pa.DataType, ...]], ...] = (
    (pa.string_view(), _TEXTS, (pa.string(), pa.large_string())),
    (pa.large_string(), _TEXTS, (pa.string(), pa.string_view())),
    (pa.dictionary(pa.int8(), pa.string()), _TEXTS, (pa.string(), pa.dictionary(pa.int32(), pa.large_string()))),
    (pa.binary_view(), _BYTES, (pa.binary(), pa.large_binary())),
    (pa.large_binary(), _BYTES, (pa.binary_view(),)),
    (pa.binary(3), (b"abc", b"\0\0\0"), (pa.binary(), pa.large_binary())),
    (pa.uint64(), (0, 2**64 - 1), ()),
    (pa.int8(), (0, -128, 127), (pa.int64(), pa.decimal128(5, 0))),
    (pa.float16(), (0.5, -0.0, float("inf"), float("nan")), (pa.float32(), pa.float64())),
    (pa.float32(), (0.5, -0.0, float("inf"), float("nan")), (pa.float64(),)),
    (pa.decimal32(7, 2), _DECIMALS, (pa.decimal128(20, 4),)),
    (pa.decimal64(12, 2), _DECIMALS, (pa.decimal256(50, 2),)),
    (pa.decimal128(30, 3), _DECIMALS, (pa.decimal32(7, 2),)),
    (pa.decimal256(60, 2), (*_DECIMALS, decimal.Decimal(10**55)), ()),
    (pa.date64(), (_DAY, datetime.date(1, 1, 1)), (pa.date32(),)),
    (pa.time32("ms"), (datetime.time(0), datetime.time(23, 59, 59)), (pa.time64("us"), pa.time32("s"))),
    (pa.time64("us"), (datetime.time(0), datetime.time(1, 2, 3, 4)), ()),
    (pa.duration("ms"), (datetime.timedelta(0), datetime.timedelta(seconds=-5)), (pa.duration("s"),)),
    (_MONTHS, (pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, 0, 0])), ()),
    (pa.list_(pa.int64()), _LISTS, (pa.list_view(pa.int32()), pa.large_list(pa.decimal128(12, 1)))),
    (pa.list_view(pa.string_view()), _TEXT_LISTS, (pa.list_(pa.string()), pa.large_list_view(pa.large_string()))),
    (pa.large_list(pa.string()), _TEXT_LISTS, (pa.list_(pa.string()),)),
    (pa.list_(pa.float64(), 2), ([0.5, None], [-0.0, float("nan")]), (pa.list_(pa.float32()),)),
    (_STRUCT, _STRUCTS, (pa.struct({"n": pa.int64(), "s": pa.string_view()}),)),
    (pa.list_(_STRUCT), ([], list(_STRUCTS)), ()),
    (pa.map_(pa.string(), pa.float64()), _MAPS, (pa.map_(pa.string_view(), pa.float32()),)),
    (pa.null(), (None,), ()),
)
#: Types that frames and lists of other libraries have too.
PLAIN = (pa.large_string(), pa.int8(), pa.null(), pa.float32())
_BY_TYPE = {str(type_): (values, others) for type_, values, others in TYPES}


def beside(rng: random.Random) -> random.Random:
    """Another generator, which the state of this one decides and which takes nothing from it."""
    return random.Random(str(rng.getstate()[1][:4]))


def draw_type(rng: random.Random) -> pa.DataType:
    return rng.choice(TYPES)[0]


def values_of(type_: pa.DataType) -> tuple[Value, ...]:
    return _BY_TYPE[str(type_)][0]


def in_other_type(column: pa.ChunkedArray, declared: pa.DataType, rng: random.Random) -> pa.Array:
    """The same values of a column `x` in another type or encoding that the engine takes."""
    values = column.to_pylist()
    type_ = rng.choice([declared, *_BY_TYPE[str(declared)][1]])
    array = array_of(values, type_)
    if rng.random() < 0.3 and len(array) and not pa.types.is_dictionary(type_):
        ends = pa.array(np.arange(1, len(array) + 1), pa.int32())
        return pa.RunEndEncodedArray.from_arrays(ends, array)
    return array


def array_of(values: list[Value], type_: pa.DataType) -> pa.Array:
    """An array; Arrow does not know how to make decimals of integers inside lists, nor halves of floats."""
    if pa.types.is_large_list(type_) and pa.types.is_decimal(type_.value_type):
        values = [
            None if row is None else [None if number is None else decimal.Decimal(number) for number in row]
            for row in values
        ]
    if pa.types.is_decimal(type_):
        values = [None if value is None else decimal.Decimal(value) for value in values]
    return pa.array(values, type_)
