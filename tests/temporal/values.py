"""Column types and few values of each, so that equal ones meet often; some are at the edge of what their type holds."""

from __future__ import annotations

import datetime
import decimal
import random

import pyarrow as pa

from ..oracle.expr import Value

NAN, INF = float("nan"), float("inf")
MONEY = pa.decimal128(10, 2)
WIDE = pa.decimal128(38, 10)
FULL = pa.decimal128(38, 0)
INTEGERS = (0, 1, 2, 3, -1)

#: Lists of values to draw a few from, by type.
POOLS: dict[pa.DataType, tuple[tuple[Value, ...], ...]] = {
    pa.int32(): (INTEGERS, (0, 1, 2**31 - 1, -(2**31))),
    pa.int64(): (INTEGERS, (0, 1, 2**63 - 1, -(2**63), 2**62, -(2**62), -1), (2**53, 2**53 + 1, 1, -(2**53))),
    pa.float64(): (
        (0.0, -0.0, 1.0, 1.5, -2.25, 0.1, 0.2, 0.3),
        (0.0, NAN, -0.0, NAN, INF, -INF),
        (NAN, 1.0, -0.0, 0.0, INF),
        (1e308, -1e308, 1e300, 5e-324, -5e-324, 1e-300, 1.0, 0.0),
        (1e16, 1.0, -1e16, 1e-9, 0.1, 2.0**53, -0.1),
        (NAN, -0.0, 1e308, INF, -1e308),
    ),
    MONEY: (
        tuple(decimal.Decimal(text) for text in ("0.00", "1.25", "-1.25", "0.01", "10.10")),
        (decimal.Decimal("99999999.99"), decimal.Decimal("-99999999.99"), decimal.Decimal("0.01")),
    ),
    WIDE: tuple(
        tuple(decimal.Decimal(text) for text in texts)
        for texts in (
            ("0.0000000001", "1.0000000000", "-2.5000000000", "0.3333333333"),
            ("9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0.0000000001"),
            ("900000000000000000000000.5", "100000000000000000000000.5", "-0.0000000001"),
        )
    ),
    FULL: ((decimal.Decimal(10**38 - 1), decimal.Decimal(1), decimal.Decimal(-(10**38) + 1), decimal.Decimal(0)),),
    pa.string(): (
        ("a", "b", "B", ""),
        ("é", "日本", "a longer text that does not fit inline", "a"),
        ("z", "\U0001f600", "\uffff"),
    ),
    pa.bool_(): ((True, False),),
    pa.date32(): ((datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), datetime.date(1, 1, 1)),),
    pa.timestamp("us"): ((0, -1, 1, 1_704_067_200_000_000, -62_135_596_800_000_000),),
    pa.timestamp("us", "UTC"): ((0, -1_000_000, 1_704_067_200_000_001),),
    pa.timestamp("ms"): ((0, -1_000, 1_704_067_200_000_000),),
    pa.time64("us"): ((datetime.time(0), datetime.time(23, 59, 59, 999_999), datetime.time(1)),),
    pa.int16(): (INTEGERS, (0, 2**15 - 1, -(2**15))),
    pa.uint64(): ((0, 1, 2**64 - 1, 2**63),),
    pa.float32(): ((0.0, -0.0, NAN, 1.5), (INF, NAN, -0.0, 0.25), (2.0**127, 2.0**-149, 1.0, -(2.0**127))),
    pa.binary(): ((b"", b"a", b"\0", b"\0\xff more bytes than fit inline"),),
    pa.large_string(): (("a", "b", "", "a longer text that does not fit inline"),),
}
NUMERIC: tuple[pa.DataType, ...] = (pa.int32(), pa.int64(), pa.int64(), pa.int16(), pa.uint64(), MONEY, WIDE, FULL)
NUMERIC += (pa.float64(), pa.float64(), pa.float64(), pa.float64(), pa.float32())
#: What expressions may compute with.
ARITHMETIC = (pa.int16(), pa.int32(), pa.int64(), pa.float64())
ANY = (*POOLS, pa.float64(), pa.float64(), pa.float64(), pa.float64())
JOINED = (pa.int64(), pa.int64(), pa.int32(), pa.string(), pa.float64(), MONEY, pa.bool_(), pa.date32())


def draw_pool(rng: random.Random, type_: pa.DataType, most: int) -> list[Value]:
    """A few values of a type."""
    pool = rng.choice(POOLS[type_])
    return rng.sample(pool, min(len(pool), rng.randint(2, most)))
