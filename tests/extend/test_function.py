"""A function from outside: defined here, given to the query, and used under the contract of all strategies."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import midstream as ms
from midstream.cql import Function, given_function

from ..migrate.changes import MIXED
from ..migrate.migrating import check_block
from ..oracle.spec import Case

QUOTA = 60
TEXT, BOOL = pa.string(), pa.bool_()
#: The same as functions of ours, so that the oracle knows what they give.
TWINS = {
    "upper": given_function("own_upper", [TEXT], TEXT, pc.utf8_upper),
    "trim": given_function("own_trim", [TEXT], TEXT, lambda text: pc.utf8_trim(text, characters=" ")),
    "contains": given_function(
        "own_contains",
        [TEXT, TEXT],
        BOOL,
        lambda texts, parts: pa.array(
            [
                None if text is None or part is None else part in text
                for text, part in zip(texts.to_pylist(), parts.to_pylist(), strict=True)
            ],
            BOOL,
        ),
    ),
}
CALLED = re.compile(rf"\b({'|'.join(TWINS)})\(", re.IGNORECASE)
ROW = {"k": int, "x": int, "s": str, "ts": int}


def with_own_functions(case: Case) -> Any:
    """The query of a case that calls one of the functions, with the twin in its place; None if it calls none."""
    text = CALLED.sub(lambda found: f"own_{found.group(1)}(", case.text)
    return None if text == case.text else ms.query(text, functions=list(TWINS.values()), **case.query_arguments())


def test_it_keeps_the_contract() -> None:
    tally = check_block(8_000_000, MIXED, QUOTA, make_query=with_own_functions)
    assert tally.count(MIXED) >= QUOTA and tally.results > 0


def engine_of(select: str, where: str, *functions: Function) -> ms.Engine:
    text = f"SELECT {select} FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE {where}"
    return ms.Engine(ms.query(text, {"a": ROW, "b": ROW}, "ts", functions=functions))


SEVEN = given_function("seven", [], pa.int64(), lambda: pa.array([7]))
PARITY = given_function("parity", [pa.int64()], pa.int64(), lambda x: pc.bit_wise_and(x, 1))
NEAR = given_function("near", [pa.int64(), pa.int64()], BOOL, lambda x, y: pc.less_equal(pc.abs(pc.subtract(x, y)), 1))
USES = {
    "key": ("parity(a.x) = parity(b.x)", "a.x % 2 = b.x % 2"),
    "filter": ("a.k = b.k AND parity(a.x) = 1", "a.k = b.k AND a.x % 2 = 1"),
    "theta": ("near(a.x, b.x)", "(a.x - b.x <= 1 AND b.x - a.x <= 1) OR FALSE"),
    "without arguments": ("a.k = b.k AND a.x + seven() > 9", "a.k = b.k AND a.x + 7 > 9"),
    "constant": ("a.x = b.x + parity(7)", "a.x = b.x + 1"),
    "beside a constant": ("a.k = b.k AND near(a.x, 3)", "a.k = b.k AND a.x BETWEEN 2 AND 4"),
}


@pytest.mark.parametrize("use", USES)
def test_wherever_an_expression_may_be(use: str) -> None:
    rows = [{"k": number % 3, "x": number % 5, "s": "", "ts": number} for number in range(12)]
    rows.append({"k": 1, "x": None, "s": "", "ts": 12})
    own, ours = USES[use]
    found = engine_of("a.x, b.x AS y, parity(b.x) AS p", own, PARITY, NEAR, SEVEN).push({"a": rows, "b": rows})
    expected = engine_of("a.x, b.x AS y, b.x % 2 AS p", ours).push({"a": rows, "b": rows})
    order = [(name, "ascending") for name in expected.column_names]
    assert found.num_rows > 0 and found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def check_refused(message: str, text: str, *functions: Any) -> None:
    with pytest.raises(ms.QueryError, match=message):
        ms.query(f"SELECT {text} FROM a [ROWS 1]", {"a": ROW}, "ts", functions=functions)


def test_what_cannot_be_called_is_refused() -> None:
    check_refused("unknown function 'partiy' .*did you mean 'parity'", "partiy(a.x)", PARITY)
    check_refused(r"parity is written parity\(BIGINT\), and was given 2 arguments", "parity(a.x, 1)", PARITY)
    check_refused(
        "functions has 'abs', which there is already", "a.x", given_function("abs", [TEXT], TEXT, pc.utf8_upper)
    )
    for name in ("sum", "COUNT", "avg", "mean", "min", "max", "median", "collect_list"):
        check_refused(
            f"functions has '{name.lower()}', which is an aggregate; give it another name",
            f"{name}(a.x)",
            given_function(name, [pa.int64()], pa.int64(), pc.negate),
        )
    check_refused("functions has .*make one with midstream.cql.given_function", "a.x", abs)


def test_types_that_only_a_function_of_its_own_takes() -> None:
    days = given_function("days", [pa.date64()], pa.int64(), lambda x: pc.divide(x.cast(pa.int64()), 86_400_000))
    rows = {"a": [{"k": 86_400 * 3 + 5, "x": 2, "s": "ab", "ts": 0}]}
    query = ms.query("SELECT days(CAST(a.k AS TIMESTAMP)) AS d FROM a [ROWS 1]", {"a": ROW}, "ts", functions=[days])
    assert ms.Engine(query).push(rows)["d"].to_pylist() == [3]
    pair = given_function("pair", [pa.binary(2)], pa.int64(), lambda x: pc.binary_length(x).cast(pa.int64()))
    check_refused("pair is written .*, and was given string", "pair(a.s)", pair)


def test_what_it_gives_is_checked() -> None:
    short = given_function("short", [pa.int64()], pa.int64(), lambda x: x.slice(1))
    engine = engine_of("short(a.x) AS n", "a.k = b.k", short)
    rows = [{"k": 1, "x": 2, "s": "", "ts": 0}]
    with pytest.raises(
        ms.EngineError, match="function short: it gave 0 values of int64; give a pyarrow array of 1 int"
    ):
        engine.push({"a": rows, "b": rows})
