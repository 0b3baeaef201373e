"""Groups, DISTINCT, set operations, min and max over types that Arrow itself does little with, against Python."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms

from ..restless import restless

#: Values by type, in their order.
VALUES: dict[pa.DataType, list[Any]] = {
    pa.decimal32(5, -2): [Decimal("-12E+2"), Decimal("0E+2"), Decimal("1E+2"), Decimal("999E+2")],
    pa.decimal32(7, 2): [Decimal("-1.25"), Decimal("0.00"), Decimal("1.25"), Decimal("99999.99")],
    pa.decimal64(12, -2): [Decimal("-12E+2"), Decimal("0E+2"), Decimal("1E+2"), Decimal("99999999E+2")],
    pa.decimal64(15, 3): [Decimal("-1.250"), Decimal("0.000"), Decimal("1.250"), Decimal("999999999999.999")],
    pa.decimal128(12, -2): [Decimal("-12E+2"), Decimal("0E+2"), Decimal("1E+2"), Decimal("99E+2")],
    pa.decimal256(12, -2): [Decimal("-12E+2"), Decimal("0E+2"), Decimal("1E+2"), Decimal("99E+2")],
    pa.decimal256(38, 3): [Decimal("-" + "9" * 35 + ".999"), Decimal("0.000"), Decimal("9" * 35 + ".999")],
    pa.uint8(): [0, 1, 128, 255],
    pa.uint64(): [0, 1, 2**63 - 1, 2**63, 2**64 - 1],
    pa.int8(): [-128, -1, 0, 127],
    pa.time32("s"): [datetime.time(0), datetime.time(1), datetime.time(23, 59, 59)],
    pa.duration("us"): [datetime.timedelta(-3), datetime.timedelta(0), datetime.timedelta(0, 1)],
    pa.date64(): [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)],
    pa.binary(3): [b"\0\0\0", b"abc", b"abd", b"\xff\xff\xff"],
    pa.large_binary(): [b"", b"\0", b"a", b"\xff" * 20],
    pa.string_view(): ["", "a", "a longer text than twelve", "b"],
    pa.bool_(): [False, True],
}
Bag = list[Any]
Expected = Callable[[Bag, Bag], Counter[tuple[Any, ...]]]


def find_extremes(a: Bag, b: Bag) -> Counter[tuple[Any, ...]]:
    values = [value for value in a if value is not None]
    return Counter([(min(values, default=None), max(values, default=None), len(set(values)), len(values))])


#: Queries over two streams, and what they give for the values of both in one window.
QUERIES: dict[str, Expected] = {
    "SELECT DISTINCT {x} AS x FROM a {w}": lambda a, b: Counter((x,) for x in set(a)),
    "SELECT {x} AS x, count(*) AS c FROM a {w} GROUP BY {x}": lambda a, b: Counter(Counter(a).items()),
    "SELECT min({x}) AS l, max({x}) AS h, count(DISTINCT {x}) AS d, count({x}) AS c FROM a {w}": find_extremes,
    "SELECT {x} AS x FROM a {w} EXCEPT ALL SELECT {x} AS x FROM b {w}": lambda a, b: Counter(
        (x,) for x in (Counter(a) - Counter(b)).elements()
    ),
    "SELECT {x} AS x FROM a {w} INTERSECT SELECT {x} AS x FROM b {w}": lambda a, b: Counter(
        (x,) for x in set(a) & set(b)
    ),
}

#: What gives the value of x, in its type.
WAYS = ["x", "coalesce(x, x)", "CASE WHEN ts >= 0 THEN x END", "if(ts < 0, NULL, x)", "nullif(x, NULL)", "least(x, x)"]


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("type", VALUES, ids=str)
def test_values_of_any_type(type: pa.DataType, text: str) -> None:
    """All rows are in one tumbling window, in several pushes; in between the engine is stored and restored."""
    rng = random.Random(f"{type} {text}")
    for is_packed in (False, True):
        schema = pa.schema({"x": type, "ts": pa.int64()})
        streams = "ab" if " b " in text else "a"
        asked = text.format(w="[TUMBLE 1 SECOND]", x=rng.choice(WAYS))
        query = ms.query(asked, schemas=dict.fromkeys(streams, schema), event_time="ts")
        engine, drawn = ms.Engine(query), {"a": Bag(), "b": Bag()}
        for at in range(4):
            push = {}
            for name in streams:
                values = rng.choices([*VALUES[type], None], k=rng.randint(1, 5))
                drawn[name] += values
                push[name] = pa.table({"x": pa.array(values, type), "ts": [1_000 * at] * len(values)}, schema=schema)
            with restless() if is_packed else nullcontext():
                assert engine.push(push).num_rows == 0
            if at == 1:
                engine = ms.Engine.restore(query, engine.snapshot().to_bytes())
        found = Counter(tuple(result.values())[:-2] for result in engine.finish().to_pylist())
        assert found == QUERIES[text](drawn["a"], drawn["b"])
