"""Kernels against their naive twins: Python's integers, decimals, strings and dates, value by value."""

from __future__ import annotations

import math
import random
import re
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.cql.functions import call, cast
from midstream.cql.model import Column, Expr, Literal
from midstream.engine.expressions import compile_expression


def run(expr: Expr, *columns: pa.Array) -> list[Any]:
    """Columns are called a, b, c."""
    batch = {(0, name): column for name, column in zip("abc", columns, strict=False)}
    array = compile_expression(expr)(batch, len(columns[0]))
    array.validate(full=True)
    assert array.type == expr.type
    result: list[Any] = array.to_pylist()
    return result


def column(name: str, type: pa.DataType) -> Column:
    return Column(0, name, type)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "modulo"])
@pytest.mark.parametrize("rows", [200, 5000])
def test_integer_arithmetic(width: int, name: str, rows: int) -> None:
    source = random.Random(width)
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    root = int(high**0.5)
    edge = [low, low + 1, -1, 0, 1, high - 1, high, root, root + 1, -root, -root - 1, high // 2 + 1, low // 2]
    numbers = [source.choice(edge) if source.random() < 0.5 else source.randint(low, high) for _ in range(2 * rows)]
    a, b = numbers[:rows], numbers[rows:]
    type = getattr(pa, f"int{width}")()
    expected = []
    for x, y in zip(a, b, strict=True):
        exact = {"add": x + y, "subtract": x - y, "multiply": x * y}.get(name)
        if name == "modulo":
            exact = None if y == 0 else int(math.copysign(1, x)) * (abs(x) % abs(y))
        expected.append(exact if exact is not None and low <= exact <= high else None)
    expr = call(name, [column("a", type), column("b", type)])
    assert expr.type == type
    assert run(expr, pa.array(a, type), pa.array(b, type)) == expected


@pytest.mark.parametrize("rows", [10, 5000])
def test_large_batches_without_overflow(rows: int) -> None:
    a, b = np.arange(rows) - rows // 2, np.arange(rows) * 3
    for name, expected in (("add", a + b), ("subtract", a - b), ("multiply", a * b)):
        expr = call(name, [column("a", pa.int64()), column("b", pa.int64())])
        assert run(expr, pa.array(a), pa.array(b)) == expected.tolist()


def decimals(source: random.Random, precision: int, scale: int, count: int) -> list[Decimal | None]:
    found: list[Decimal | None] = []
    for _ in range(count):
        digits = source.randint(1, precision)
        number = source.choice([0, 1, 5, 10**digits - 1, source.randrange(10**digits)])
        found.append(
            None if source.random() < 0.1 else Decimal((source.randrange(2), tuple(map(int, str(number))), -scale))
        )
    return found


def half_up(exact: Fraction, scale: int) -> int:
    scaled = abs(exact) * 10**scale
    whole: int = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    return whole if exact >= 0 else -whole


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "modulo"])
def test_decimal_arithmetic(seed: int, name: str) -> None:
    source = random.Random(f"{seed}{name}")
    types = []
    for _ in range(2):
        precision = source.choice([1, 5, 9, 15, 18, 20, 30, 38])
        types.append(pa.decimal128(precision, source.randint(0, precision)))
    a, b = (decimals(source, type.precision, type.scale, 40) for type in types)
    expr = call(name, [column("a", types[0]), column("b", types[1])])
    result = run(expr, pa.array(a, types[0]), pa.array(b, types[1]))
    scale, limit = expr.type.scale, 10**expr.type.precision
    for x, y, found in zip(a, b, result, strict=True):
        if x is None or y is None or (y == 0 and name in ("divide", "modulo")):
            assert found is None
            continue
        p, q = Fraction(x), Fraction(y)
        if name == "modulo":
            exact = p - q * (abs(p / q).__floor__() * (1 if p * q >= 0 else -1))
        else:
            exact = {"add": p + q, "subtract": p - q, "multiply": p * q}[name] if name != "divide" else p / q
        number = half_up(exact, scale)
        more = scale + 1 + types[1].scale - types[0].scale if name == "divide" else 0
        wide = name == "modulo" and abs(p) * 10 ** max(types[0].scale, types[1].scale) >= 10**70
        if abs(number) >= limit or wide or (more > 0 and abs(p) * 10 ** (types[0].scale + more) >= 10**70):
            assert found is None
        else:
            assert found is not None, f"{x} {name} {y} at {expr.type}"
            assert Fraction(found) == Fraction(number, 10**scale), f"{x} {name} {y}"


@pytest.mark.parametrize("seed", range(40))
def test_decimal_rescaling(seed: int) -> None:
    source = random.Random(seed)
    before, after = (
        pa.decimal128(precision, source.randint(0, precision)) for precision in source.choices(range(1, 39), k=2)
    )
    values = decimals(source, before.precision, before.scale, 40)
    for expr in (cast(column("a", before), after), call("round", [column("a", before), Literal(2, pa.int32())])):
        for value, found in zip(values, run(expr, pa.array(values, before)), strict=True):
            if value is None:
                assert found is None
                continue
            number = half_up(Fraction(value), expr.type.scale)
            fits = abs(number) < 10**expr.type.precision
            assert found == (Decimal(number).scaleb(-expr.type.scale, WIDE) if fits else None)
    text = run(cast(column("a", before), pa.string()), pa.array(values, before))
    assert text == [None if value is None else f"{value if value else abs(value):f}" for value in values]


with localcontext() as _context:
    _context.prec = 80
    WIDE = _context.copy()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_floats_as_text_and_back(values: list[float]) -> None:
    array = pa.array(values, pa.float64())
    text = run(cast(column("a", pa.float64()), pa.string()), array)
    back = run(cast(column("a", pa.string()), pa.float64()), pa.array(text, pa.string()))
    for before, written, after in zip(values, text, back, strict=True):
        assert after == before or (math.isnan(before) and math.isnan(after))
        if math.isfinite(before) and before:
            assert ("E" in written) == (not 1e-3 <= abs(before) < 1e7)
            assert Decimal(written) == Decimal(repr(before))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=20), st.integers(-3, 8))
def test_rounding_of_floats(values: list[float], digits: int) -> None:
    """A sum of the shortest digits decides; from 16 digits on a float may stand for more than one tie."""
    values = [float(f"{value:.{max(digits, 0) + 1}f}") for value in values]
    expr = call("round", [column("a", pa.float64()), Literal(digits, pa.int32())])
    for value, found in zip(values, run(expr, pa.array(values)), strict=True):
        if len(Decimal(repr(value)).normalize().as_tuple().digits) <= 15:
            exact = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, WIDE)
            assert found == float(exact)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e20, 1e20), min_size=1, max_size=20), st.integers(0, 12))
def test_floats_as_decimals(values: list[float], scale: int) -> None:
    type = pa.decimal128(38, scale)
    found = run(cast(column("a", pa.float64()), type), pa.array(values))
    assert found == [Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE) for value in values]


def naive_substring(text: str, position: int, count: int) -> str:
    start = position - 1 if position > 0 else (len(text) + position if position < 0 else 0)
    return text[max(start, 0) : max(start + count, 0)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=6), st.integers(-8, 8), st.integers(-3, 8)), min_size=1, max_size=20))
def test_substring(rows: list[tuple[str, int, int]]) -> None:
    texts, positions, counts = (list(cells) for cells in zip(*rows, strict=True))
    expected = [naive_substring(*row) for row in rows]
    for type in (pa.string(), pa.large_string()):
        parts = [column("a", type), column("b", pa.int64()), column("c", pa.int64())]
        columns = [pa.array(texts, type), pa.array(positions, pa.int64()), pa.array(counts, pa.int64())]
        assert run(call("substring", parts), *columns) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.text("abé", max_size=6), st.text("abé", max_size=3)), min_size=1, max_size=20))
def test_search_for_a_column(rows: list[tuple[str, str]]) -> None:
    texts, wanted = (pa.array(list(cells), pa.string()) for cells in zip(*rows, strict=True))
    args = [column("a", pa.string()), column("b", pa.string())]
    assert run(call("contains", args), texts, wanted) == [b in a for a, b in rows]
    assert run(call("startswith", args), texts, wanted) == [a.startswith(b) for a, b in rows]
    assert run(call("endswith", args), texts, wanted) == [a.endswith(b) for a, b in rows]


PIECES = {
    "a": "a",
    "é": "é",
    "%": ".*",
    "_": ".",
    "\\%": "%",
    "\\_": "_",
    "\\\\": r"\\",
    ".": r"\.",
    "\n": "\n",
    "(": r"\(",
}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("aé%_\\.(\n", max_size=5), min_size=1, max_size=10),
    st.lists(st.sampled_from(sorted(PIECES)), max_size=5),
)
def test_like(texts: list[str], pieces: list[str]) -> None:
    pattern = re.compile("".join(PIECES[piece] for piece in pieces), re.DOTALL)
    expr = call("like", [column("a", pa.string()), Literal("".join(pieces), pa.string())])
    assert run(expr, pa.array(texts, pa.string())) == [pattern.fullmatch(text) is not None for text in texts]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.datetimes(), min_size=1, max_size=20))
def test_fields_of_timestamps(moments: list[datetime]) -> None:
    array = pa.array(moments, pa.timestamp("us"))
    for name in ("year", "month", "day", "hour", "minute", "second"):
        assert run(call(name, [column("a", array.type)]), array) == [getattr(moment, name) for moment in moments]
    week = call("date_trunc", [Literal("week", pa.string()), column("a", array.type)])
    later = [moment for moment in moments if moment.year > 1]
    if later:
        found = run(week, pa.array(later, array.type))
        days = [datetime(moment.year, moment.month, moment.day) for moment in later]
        assert found == [day - timedelta(days=day.weekday()) for day in days]
    text = run(cast(column("a", array.type), pa.string()), array)
    assert run(cast(column("a", pa.string()), array.type), pa.array(text, pa.string())) == moments


CYCLE, CYCLE_DAYS = 400, 146_097
DAY = 86_400_000_000
LOWEST, HIGHEST = -(2**63), 2**63 - 1
LAST_YEAR = 32_767
MOMENTS = st.integers(LOWEST, HIGHEST) | st.sampled_from([LOWEST, HIGHEST]).flatmap(
    lambda end: st.integers(0, 370 * DAY).map(lambda less: end + less if end < 0 else end - less)
)


def calendar(micros: int) -> tuple[int, date]:
    """Years to add and a day that Python knows: its calendar repeats every 400 years."""
    cycles, days = divmod(micros // DAY, CYCLE_DAYS)
    return cycles * CYCLE, date(1970, 1, 1) + timedelta(days=days)


def start_of(unit: str, micros: int) -> int:
    fixed = {"day": DAY, "hour": DAY // 24, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000}
    if unit in fixed:
        return micros - micros % fixed[unit]
    _, day = calendar(micros)
    first = {
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "quarter": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "year": day.replace(month=1, day=1),
    }[unit]
    return (micros // DAY - (day - first).days) * DAY


@settings(max_examples=300, deadline=None)
@given(st.lists(MOMENTS, min_size=1, max_size=20))
def test_moments_to_the_ends_of_64_bits(moments: list[int]) -> None:
    array = pa.array(moments, pa.timestamp("us"))
    a = column("a", array.type)
    years, days = zip(*map(calendar, moments), strict=True)
    assert run(call("year", [a]), array) == [years + day.year for years, day in zip(years, days, strict=True)]
    assert run(call("quarter", [a]), array) == [(day.month + 2) // 3 for day in days]
    assert run(call("month", [a]), array) == [day.month for day in days]
    assert run(call("day", [a]), array) == [day.day for day in days]
    assert run(call("dayofweek", [a]), array) == [day.isoweekday() % 7 + 1 for day in days]
    assert run(call("second", [a]), array) == [moment // 1_000_000 % 60 for moment in moments]
    for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"):
        found = run(call("unix_micros", [call("date_trunc", [Literal(unit, pa.string()), a])]), array)
        starts = [start_of(unit, moment) for moment in moments]
        assert found == [start if start >= LOWEST else None for start in starts], unit
    text = run(cast(a, pa.string()), array)
    is_known = [abs(years + day.year) <= LAST_YEAR for years, day in zip(years, days, strict=True)]
    assert [value is not None for value in text] == is_known
    dates = run(cast(cast(a, pa.date32()), pa.string()), array)
    assert dates == [None if value is None else value.split(" ")[0] for value in text]


@settings(max_examples=300, deadline=None)
@given(st.lists(MOMENTS.filter(lambda moment: moment >= 0) | st.integers(HIGHEST, HIGHEST + 2_000 * 366 * DAY)))
def test_texts_of_moments_to_the_ends_of_64_bits(moments: list[int]) -> None:
    written = []
    for moment in moments:
        years, day = calendar(moment)
        rest = timedelta(microseconds=moment % DAY)
        written.append(f"{years + day.year:04}-{day:%m-%d} {datetime(1, 1, 1) + rest:%H:%M:%S.%f}")
    read = cast(column("a", pa.string()), pa.timestamp("us"))
    found = run(call("unix_micros", [read]), pa.array(written, pa.string()))
    assert found == [moment if moment <= HIGHEST else None for moment in moments]
