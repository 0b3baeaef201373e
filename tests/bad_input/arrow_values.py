"""Random Arrow types and values for them, and when a value that was read back is the one that was given."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

UNITS = ("s", "ms", "us")
EPOCH = datetime.datetime(1970, 1, 1)
TEXTS = ("", "a", "12", "0.5", "é日本", "a text that does not fit inline", "\0")


def draw_decimal_type(rng: random.Random) -> pa.DataType:
    make, most = rng.choice([(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)])
    precision = rng.randint(1, most)
    scale = min(precision, rng.choice([0, 0, 1, 2, 30, -3, rng.randint(0, precision)]))
    # Arrow reads Python's decimals of a negative scale by way of one of scale 0, which must have room for them.
    return make(min(precision, most + min(scale, 0)), scale)


def draw_leaf(rng: random.Random, family: str) -> pa.DataType:
    """A type of a family."""
    integers = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    makers: dict[str, Any] = {
        "number": lambda: rng.choice(
            [rng.choice(integers), rng.choice([pa.float16(), pa.float32(), pa.float64()]), draw_decimal_type(rng)]
        ),
        "text": lambda: rng.choice([pa.string(), pa.large_string(), pa.string_view()]),
        "bytes": lambda: rng.choice([pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(0)]),
        "boolean": pa.bool_,
        "naive": lambda: pa.timestamp(rng.choice(UNITS)),
        "zoned": lambda: pa.timestamp(rng.choice(UNITS), rng.choice(["UTC", "Asia/Tokyo"])),
        "date": lambda: rng.choice([pa.date32(), pa.date64()]),
        "time": lambda: rng.choice([pa.time32("s"), pa.time32("ms"), pa.time64("us")]),
        "duration": lambda: pa.duration(rng.choice(UNITS)),
        "null": pa.null,
    }
    return makers[family]()


FAMILIES = ("number",) * 5 + ("text", "bytes", "boolean", "naive", "zoned", "date", "time", "duration", "null")


def draw_pair(rng: random.Random, depth: int = 0) -> tuple[pa.DataType, pa.DataType]:
    """A type that is given and one that is wanted: mostly of one shape, with leaves of one family."""
    if depth < 3 and rng.random() < (0.5 if depth else 0.6):
        shape = rng.choice(["list", "list", "struct", "map"])
        if shape == "list":
            given, wanted = draw_pair(rng, depth + 1)
            return _draw_list(rng, given), _draw_list(rng, wanted)
        if shape == "map":
            # A key is never null.
            key, other_key = (draw_leaf(rng, "text") for _ in range(2))
            item, other_item = draw_pair(rng, depth + 1)
            return pa.map_(key, item), pa.map_(other_key, other_item)
        pairs = [draw_pair(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        given, wanted = zip(*pairs, strict=True)
        names = [f"f{at}" for at in range(len(pairs))]
        fields = [pa.field(name, type) for name, type in zip(names, wanted, strict=True)]
        if rng.random() < 0.3:
            rng.shuffle(fields)
        return pa.struct(dict(zip(names, given, strict=True))), pa.struct(fields[: None if rng.random() < 0.9 else -1])
    family = rng.choice(FAMILIES)
    given = draw_leaf(rng, family)
    wanted = draw_leaf(rng, family if rng.random() < 0.9 else rng.choice(FAMILIES))
    return given, given if rng.random() < 0.1 else wanted


def _draw_list(rng: random.Random, item: pa.DataType) -> pa.DataType:
    make = rng.choice([pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda item: pa.list_(item, 2)])
    return make(item)


def draw_value(rng: random.Random, type: pa.DataType, nulls: float = 0.15) -> Any:
    """A value of a type, as Python has it; often one at an edge."""
    if pat.is_null(type) or rng.random() < nulls:
        return None
    if pat.is_map(type):
        size = rng.choice([0, 1, 2])
        return [(draw_value(rng, type.key_type, 0), draw_value(rng, type.item_type)) for _ in range(size)]
    if pat.is_struct(type):
        return {field.name: draw_value(rng, field.type) for field in type}
    if pat.is_nested(type):
        size = type.list_size if pat.is_fixed_size_list(type) else rng.choice([0, 1, 2, 2, 3])
        return [draw_value(rng, type.value_type) for _ in range(size)]
    return _draw_leaf_value(rng, type)


def _draw_leaf_value(rng: random.Random, type: pa.DataType) -> Any:
    if pat.is_boolean(type):
        return rng.random() < 0.5
    if pat.is_integer(type):
        signed = pat.is_signed_integer(type)
        low, high = (
            (-(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1) if signed else (0, 2**type.bit_width - 1)
        )
        edges = [0, 1, -1, 2, 100, 127, 128, 255, 2048, 2049, 2**24 + 1, 2**53, 2**53 + 1, 2**62, low, high]
        return min(max(rng.choice(edges), low), high)
    if pat.is_floating(type):
        edges = [0.0, -0.0, 1.0, -2.5, 0.5, 0.1, 2048.0, 65504.0, 2.0**24, 2.0**53, 2.0**60, 2.0**63, 2.0**64, 1e22]
        value = rng.choice([*edges, 0.125, -1e300, 5e-324, math.nan, math.inf, -math.inf, rng.random() * 100])
        with np.errstate(over="ignore"):
            return float({16: np.float16, 32: np.float32, 64: np.float64}[type.bit_width](value))
    if pat.is_decimal(type):
        most = 10**type.precision - 1
        digits = rng.choice([0, 1, -1, 5, 25, most, -most, rng.randint(-most, most), 2**31 + 5, 2**64 + 5, 10**20])
        digits = max(-most, min(most, digits))
        digits -= rng.choice([0, digits % 10 ** max(type.scale, 0)]) if digits > 0 else 0
        return decimal.Decimal(digits).scaleb(-type.scale, decimal.Context(prec=80))
    if pat.is_fixed_size_binary(type):
        return bytes(rng.choice(b"\0ab\xff") for _ in range(type.byte_width))
    if pat.is_binary(type) or pat.is_large_binary(type) or pat.is_binary_view(type):
        return rng.choice([b"", b"abc", b"ab\xff", b"bytes that do not fit inline"])
    if pat.is_date(type):
        return rng.choice([datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(1, 1, 1)])
    if not (pat.is_timestamp(type) or pat.is_time(type) or pat.is_duration(type)):
        return rng.choice(TEXTS)
    size = {"s": 1_000_000, "ms": 1_000, "us": 1}[type.unit]
    micros = rng.choice([0, 1_000_000, 5_000, 7, 86_399_999_999, 1_000_001]) // size * size
    if pat.is_time(type):
        return (EPOCH + datetime.timedelta(microseconds=micros)).time()
    length = datetime.timedelta(microseconds=micros * rng.choice([1, -1]))
    if pat.is_duration(type):
        return length
    return EPOCH + length if type.tz is None else (EPOCH + length).replace(tzinfo=datetime.timezone.utc)


def is_number(type: pa.DataType) -> bool:
    return bool(pat.is_integer(type) or pat.is_floating(type) or pat.is_decimal(type))


def fits(value: Any, type: pa.DataType) -> bool:
    """Whether a type of numbers has a number, or null, exactly."""
    if value is None:
        return True
    if isinstance(value, float) and not math.isfinite(value):
        return bool(pat.is_floating(type))
    exact = Fraction(value)
    if pat.is_floating(type):
        make = {16: np.float16, 32: np.float32, 64: np.float64}[type.bit_width]
        with np.errstate(over="ignore"):
            nearest = float(make(float(exact)))
        return math.isfinite(nearest) and Fraction(nearest) == exact
    scale, digits = (type.scale, type.precision) if pat.is_decimal(type) else (0, 0)
    whole = exact * Fraction(10) ** scale
    if whole.denominator != 1:
        return False
    signed = pat.is_signed_integer(type)
    limit = 10**digits if digits else 2 ** (type.bit_width - signed)
    return bool((-limit - (not digits) < whole if digits or signed else whole >= 0) and whole < limit)


def draw_array(rng: random.Random, type: pa.DataType, rows: int) -> tuple[pa.Array, list[Any]]:
    """An array of a type, sometimes a slice or encoded, and its values."""
    before = rng.choice([0, 0, 1, 3])
    values = [draw_value(rng, type) for _ in range(rows + before + rng.choice([0, 2]))]
    array = pa.array(values, type)
    if rng.random() < 0.2 and not pat.is_nested(type) and not pat.is_null(type):
        picks = [rng.randrange(len(values)) for _ in range(len(values))]
        array, values = pa.DictionaryArray.from_arrays(pa.array(picks, pa.int32()), array), [values[at] for at in picks]
    elif rng.random() < 0.1:
        ends = sorted(rng.sample(range(1, 2 * len(values) + 2), len(values)))
        values = [
            value for value, times in zip(values, np.diff([0, *ends]).tolist(), strict=True) for _ in range(times)
        ]
        array = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), array)
    return array.slice(before, rows), values[before : before + rows]


def is_same(given: Any, found: Any) -> bool:
    """Whether a value that was read back is exactly the one that was given; numbers of all types compare exactly."""
    if isinstance(given, dict):
        return (
            isinstance(found, dict) and given.keys() == found.keys() and all(is_same(given[k], found[k]) for k in given)
        )
    if isinstance(given, list | tuple):
        same_size = isinstance(found, type(given)) and len(given) == len(found)
        return same_size and all(is_same(value, other) for value, other in zip(given, found, strict=True))
    if isinstance(given, float) and math.isnan(given):
        return isinstance(found, float) and math.isnan(found)
    return bool(given == found) and isinstance(given, bool | str | bytes) == isinstance(found, bool | str | bytes)
