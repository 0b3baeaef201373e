"""Types: of comparison, of results, and what is refused with which words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from midstream.cql.functions import FunctionError, call, cast, common_type, comparison_type
from midstream.cql.model import Call, Cast, Column, Literal
from midstream.errors import MidstreamError
from tests.expressions.notation import parse

US = pa.timestamp("us")


def column(type: pa.DataType) -> Column:
    return Column(0, "x", type)


COMPARED = [
    (pa.int8(), pa.int64(), pa.int64()),
    (pa.int8(), pa.int8(), pa.int64()),
    (pa.uint32(), pa.int16(), pa.int64()),
    (pa.uint64(), pa.uint64(), pa.uint64()),
    (pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
    (pa.uint64(), pa.uint8(), pa.decimal128(20, 0)),
    (pa.float32(), pa.float32(), pa.float64()),
    (pa.int64(), pa.float32(), pa.float64()),
    (pa.decimal128(10, 2), pa.decimal128(8, 4), pa.decimal128(12, 4)),
    (pa.decimal128(10, 2), pa.int32(), pa.decimal128(12, 2)),
    (pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(38, 0)),
    (pa.decimal128(38, 6), pa.decimal128(38, 18), pa.decimal128(38, 6)),
    (pa.decimal128(38, 37), pa.int64(), pa.decimal128(38, 18)),
    (pa.decimal128(38, 38), pa.decimal128(20, 10), pa.decimal128(38, 28)),
    (pa.decimal256(30, 2), pa.int32(), pa.decimal128(30, 2)),
    (pa.decimal128(10, 2), pa.float32(), pa.float64()),
    (pa.string(), pa.string_view(), pa.string()),
    (pa.string(), pa.large_string(), pa.large_string()),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
    (pa.binary(4), pa.binary(), pa.binary()),
    (pa.large_binary(), pa.binary(), pa.large_binary()),
    (pa.bool_(), pa.bool_(), pa.bool_()),
    (pa.date32(), pa.date64(), pa.date32()),
    (pa.date32(), US, US),
    (pa.timestamp("ns"), pa.timestamp("s"), US),
    (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("ms", "UTC"), US),
    (pa.duration("ns"), pa.duration("s"), pa.duration("us")),
    (pa.time32("s"), pa.time64("ns"), pa.time64("us")),
    (pa.null(), pa.int8(), pa.int64()),
    (pa.null(), pa.null(), pa.bool_()),
]


@pytest.mark.parametrize(("a", "b", "type"), COMPARED, ids=str)
def test_comparison_type(a: pa.DataType, b: pa.DataType, type: pa.DataType) -> None:
    assert comparison_type(a, b) == type
    assert comparison_type(b, a) == type
    assert comparison_type(type, type) == type


def test_decimals_that_no_comparison_holds_are_refused() -> None:
    """Their values would be null in every comparison, and join with nothing."""
    wide = pa.decimal256(50, 2)
    for other in (wide, pa.int32(), pa.decimal128(10, 2)):
        with pytest.raises(FunctionError, match=r"decimal256\(50, 2\).*CAST\(... AS DECIMAL\(38, 2\)\)"):
            comparison_type(wide, other)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pa.string(), pa.int64()),
        (pa.bool_(), pa.int8()),
        (pa.string(), pa.bool_()),
        (US, pa.int64()),
        (pa.duration("us"), pa.int64()),
        (pa.string(), US),
        (pa.list_(pa.int8()), pa.list_(pa.int8())),
        (pa.struct([]), pa.int8()),
    ],
    ids=str,
)
def test_not_comparable(a: pa.DataType, b: pa.DataType) -> None:
    for first, second in ((a, b), (b, a)):
        with pytest.raises(FunctionError, match="cannot compare"):
            comparison_type(first, second)


def test_not_comparable_says_what_to_write() -> None:
    with pytest.raises(FunctionError, match=r"cannot compare string with int64; write CAST\(\.\.\. AS BIGINT\)"):
        comparison_type(pa.string(), pa.int64())


BERLIN = "Europe/Berlin"
COMMON = [
    ([pa.int8(), pa.int32()], pa.int32()),
    ([pa.int64(), pa.float32()], pa.float64()),
    ([pa.float32(), pa.float32()], pa.float32()),
    ([pa.timestamp("ns"), pa.timestamp("ns")], pa.timestamp("ns")),
    ([pa.timestamp("ns"), pa.date32()], US),
    ([pa.timestamp("ns", BERLIN), pa.timestamp("ns", BERLIN)], pa.timestamp("ns", BERLIN)),
    ([pa.timestamp("ms", BERLIN), pa.timestamp("us", BERLIN)], pa.timestamp("us", BERLIN)),
    ([pa.timestamp("s"), pa.timestamp("s", BERLIN), pa.timestamp("s", "UTC")], pa.timestamp("us", BERLIN)),
    ([pa.null(), pa.date64(), pa.timestamp("s", BERLIN)], pa.timestamp("us", BERLIN)),
    ([pa.date32(), pa.date64()], pa.date32()),
    ([pa.uint8(), pa.int8()], pa.int16()),
    ([pa.uint64(), pa.int8()], pa.decimal128(20, 0)),
    ([pa.int32(), pa.decimal128(3, 1)], pa.decimal128(11, 1)),
    ([pa.null(), pa.string(), pa.null()], pa.string()),
]


@pytest.mark.parametrize(("types", "type"), COMMON, ids=str)
def test_common_type(types: list[pa.DataType], type: pa.DataType) -> None:
    assert common_type(types) == type


def test_conversions_are_explicit() -> None:
    wide, narrow = column(pa.int64()), column(pa.int32())
    assert call("add", [narrow, wide]) == Call("add", (Cast(narrow, pa.int64()), wide), pa.int64())
    assert call("eq", [narrow, narrow]) == Call("eq", (narrow, narrow), pa.bool_())


def test_a_literal_takes_the_type_beside_it() -> None:
    assert call("lt", [column(pa.int64()), Literal(5, pa.int32())]).args[1] == Literal(5, pa.int64())  # type: ignore[union-attr]
    product = call("multiply", [column(pa.float64()), Literal(Decimal("2.5"), pa.decimal128(2, 1))])
    assert product == Call("multiply", (column(pa.float64()), Literal(2.5, pa.float64())), pa.float64())


def test_nanoseconds_are_compared_as_microseconds() -> None:
    moment = column(pa.timestamp("ns"))
    assert call("eq", [moment, moment]) == Call("eq", (Cast(moment, US), Cast(moment, US)), pa.bool_())


def test_zone_is_kept_by_arithmetic() -> None:
    moment = column(pa.timestamp("ms", "Europe/Berlin"))
    later = call("add", [moment, Literal(5, pa.duration("us"))])
    assert later.type == pa.timestamp("us", "Europe/Berlin")
    assert call("subtract", [moment, moment]).type == pa.duration("us")


def test_aliases_and_case_do_not_matter() -> None:
    x = column(pa.float64())
    assert call("POW", [x, x]) == call("power", [x, x])
    assert call("ifnull", [x, x]) == call("Coalesce", [x, x])
    assert call("||", [column(pa.string()), column(pa.string())]).type == pa.string()


REFUSED: list[tuple[str, str]] = [
    ('add(s("a"), 1)', r"\+ does not take string and int32; it takes numbers"),
    ("add(true, 1)", r"\+ does not take bool and int32"),
    ('add(ts("2020-01-01"), ts("2020-01-01"))', r"\+ does not take timestamp\[us\] and timestamp\[us\]"),
    ('multiply(ts("2020-01-01"), 2)', r"\* does not take"),
    ('negate(s("a"))', "- does not take string; it takes a number"),
    ("div(f64(1), 2)", "DIV does not take double and int32; it takes integers"),
    ('eq(1, s("1"))', r"=: cannot compare int32 with string; write CAST"),
    ("and_(1, true)", "AND takes booleans, not int32; write a comparison"),
    ("not_(1)", "NOT takes booleans"),
    ("case(1, 2, 3)", "CASE takes boolean conditions, not int32"),
    ('case(true, 1, s("a"))', "no common type of int32 and string; write CAST"),
    ('coalesce(1, s("a"))', "no common type"),
    ('eq(ts("2020-01-01"), "yesterday")', "'yesterday' is compared with a timestamp.*write it as 'YYYY-MM-DD"),
    ("like(1, 'a')", "LIKE does not take int32 and string"),
    ("like('a', upper('a'))", "LIKE takes a string literal"),
    ("like('a', 'a\\\\bc')", "a backslash must stand before"),
    ("round(f64(1), f64(1))", "round takes an integer literal"),
    ("round('a', 1)", "round takes a number, not string"),
    ("sqrt('a')", "sqrt takes a number, not string; write CAST"),
    ("year(1)", "year takes a date or timestamp, not int32"),
    ("year('2020-01-01')", "year takes a date or timestamp, not string"),
    ("date_trunc('fortnight', ts('2020-01-01'))", "date_trunc takes one of year, quarter.*, not 'fortnight'"),
    ("date_trunc(upper('a'), ts('2020-01-01'))", "as a string literal"),
    ("replace('a', upper('b'))", "replace takes what to search for as a string literal"),
    ("substring('a', 'b')", "substring takes an integer, not string"),
    ("upper(us(1))", r"upper takes a string, not duration\[us\]"),
    ("sqrt()", r"sqrt is written sqrt\(x\), and was given 0 arguments"),
    ("round(1, 2, 3)", r"round is written round\(x \[, digits\]\), and was given 3 arguments"),
    ("cast(date('2020-01-01'), 'int32')", r"CAST from date32\[day\] to INT is not possible"),
    ("cast(us(1), 'int64')", "CAST from duration.us. to BIGINT is not possible"),
    *(
        (f"{name}(null_of({type}), null_of({type}))", f"{name} does not take .*; it takes numbers, text")
        for name in ("greatest", "least")
        for type in ("list_", "map_", "struct", "interval")
    ),
    ("unix_micros(1)", "unix_micros takes a date or timestamp"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [("sqroot", "did you mean 'sqrt'"), ("lenght", "did you mean 'length'"), ("zzzzzz", "there are: add, subtract")],
)
def test_unknown_function(name: str, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        call(name, [column(pa.int64())])


def test_errors_are_ours() -> None:
    assert issubclass(FunctionError, MidstreamError)


def test_in_takes_constants() -> None:
    with pytest.raises(FunctionError, match="IN takes a list of constants"):
        call("in", [column(pa.int64()), column(pa.int64())])


def test_cast_to_its_own_type_is_nothing() -> None:
    x: Any = column(pa.int64())
    assert cast(x, pa.int64()) is x
