"""Families of comparable values: the Arrow types they come in, and pools to draw join values from."""

from __future__ import annotations

import datetime
import decimal
import random
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from .expr import Value

DECIMAL = pa.decimal128(10, 2)
WIDE_DECIMAL = pa.decimal128(14, 4)
EPOCH_2024 = 1_704_067_200_000_000
LETTERS = ("a", "b", "B", "aa", "", "é", "a b", "日本", "a rather long key that does not fit inline", "\U0001f600")
FLOATS = (0.0, -0.0, float("nan"), 1.0, 1.5, -2.25, 0.1, float("inf"), float("-inf"), 1e308, 5e-324, 3.0)
FLOATS += (1e-9, -1e-9, 1e-7, 1e9, 1e9 + 1e-7, 2.0**53, 1e16, -1e300)


@dataclass(frozen=True)
class Family:
    """Types that compare with each other. `ordered` ones also serve bands and inequalities."""

    name: str
    types: tuple[pa.DataType, ...]
    ordered: bool = False


FAMILIES = {
    family.name: family
    for family in (
        Family("int", (pa.int64(), pa.int64(), pa.int32(), pa.int16()), ordered=True),
        Family("int64", (pa.int64(),), ordered=True),
        Family("extreme", (pa.int64(),), ordered=True),
        Family("float", (pa.float64(),), ordered=True),
        Family("number", (pa.int64(), pa.float64(), pa.int32()), ordered=True),
        Family("huge number", (pa.int64(), pa.float64())),
        Family("decimal", (DECIMAL, DECIMAL, WIDE_DECIMAL), ordered=True),
        Family("decimal and int", (DECIMAL, pa.int64(), pa.int32())),
        Family("string", (pa.string(),), ordered=True),
        Family("bool", (pa.bool_(),)),
        Family("date", (pa.date32(),), ordered=True),
        Family("timestamp", (pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us")), ordered=True),
        Family("zoned", (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin")), ordered=True),
        Family("binary", (pa.binary(),)),
    )
}
KEY_FAMILIES: tuple[str, ...] = ("int64", "int64", "int", "int", "extreme", "float", "number", "huge number", "decimal")
KEY_FAMILIES += ("decimal and int", "string", "string", "bool", "date", "timestamp", "zoned", "binary")
BAND_FAMILIES = ("int64", "int64", "int", "float", "number", "timestamp", "extreme")
THETA_FAMILIES = ("int64", "int", "float", "number", "string", "decimal", "date", "timestamp")


class Pool:
    """About `size` values of a family, the same logical ones in each of its types."""

    def __init__(self, rng: random.Random, family: str, size: int) -> None:
        self.family = family
        self.size = size
        self.offset = rng.choice([0, 0, -(size // 2), 1000])
        self.plain = rng.random() < 0.5
        self.floats = rng.sample(FLOATS, min(size, len(FLOATS)))
        self.letters = rng.sample(LETTERS, min(size, len(LETTERS)))

    def values(self, type_: pa.DataType) -> list[Value]:
        indexes = range(self.offset, self.offset + self.size)
        if self.family == "extreme":
            edge = [2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1, 0, -1, 2**62, 1]
            return edge[: max(2, self.size)]
        if self.family == "huge number":
            huge = [2**53 + step for step in range(-1, 4)] + [2**63 - 1, -(2**63)]
            return [float(number) for number in huge] if type_ == pa.float64() else huge
        if types.is_integer(type_):
            return list(indexes)
        if type_ == pa.float64():
            if self.family == "float":
                return list(self.floats) if self.size <= len(FLOATS) else [index / 4 for index in indexes]
            return [float(index) for index in indexes] + ([] if self.plain else [0.5, -0.0, float("nan")])
        if types.is_decimal(type_):
            halves = [] if self.plain else [decimal.Decimal("0.50"), decimal.Decimal("-1.25")]
            return [decimal.Decimal(index) for index in indexes] + halves
        if type_ == pa.string():
            return list(self.letters) if self.size <= len(LETTERS) else [f"key {index:05d}" for index in indexes]
        if type_ == pa.bool_():
            return [True, False]
        if type_ == pa.date32():
            return [datetime.date(2024, 2, 27) + datetime.timedelta(days=index) for index in indexes]
        if types.is_timestamp(type_):
            return [EPOCH_2024 + index * 1_000_000 for index in indexes]
        return [
            b"\x00" * (index % 5) + bytes([index % 251]) + index.to_bytes(4, "big", signed=True) for index in indexes
        ]
