"""Literals mean what they say, however a minus is written and whatever equal-looking ones stand beside them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

import midstream as ms

SCHEMA = pa.schema({"d": pa.float64(), "k": pa.int64(), "ts": pa.int64()})
WINDOW = "[RANGE 1 SECOND]"


def compute(expressions: Sequence[str]) -> list[str | None]:
    """What one query makes of expressions, as texts, over one row in which `d` is null."""
    columns = ", ".join(f"CAST({text} AS STRING) AS x{at}" for at, text in enumerate(expressions))
    query = ms.query(f"SELECT {columns} FROM a {WINDOW}", schemas={"a": SCHEMA}, event_time="ts")
    (found,) = ms.Engine(query).push({"a": [{"d": None, "k": 1, "ts": 1}]}).to_pylist()
    return [found[f"x{at}"] for at in range(len(expressions))]


def draw_literal(rng: random.Random) -> tuple[str, str]:
    """A literal, perhaps with signs before it, and what it is as text; zeros come often."""
    digits = rng.choice([1, 2, 17, 28, 29, 38])
    number = rng.choice([0, 1, 10**digits - 1, rng.randrange(10**digits)])
    is_float = rng.random() < 0.4
    if is_float:
        value: Decimal | float = float(rng.choice([0, 0, 1, 2.5, 0.25]))
        written = f"{value}D"
    else:
        value = Decimal((0, tuple(map(int, str(number))), -rng.randrange(len(str(number)) + 1)))
        written = f"{value:f}BD"
    for _ in range(rng.randrange(3)):
        value = value.copy_negate() if isinstance(value, Decimal) else -value
        forms = [f"-({written})", f"(- ({written}))", f"( -{written} )"]
        written = rng.choice(forms[:2] if written.startswith("-") else forms)  # -- begins a comment
    # A double tells -0.0 from 0.0, a decimal does not.
    shown = str(value) if isinstance(value, float) else f"{value if value else value.copy_abs():f}"
    return written, shown


@pytest.mark.parametrize("seed", range(20))
def test_literals_side_by_side_are_what_each_says(seed: int) -> None:
    rng = random.Random(f"literals {seed}")
    drawn = [draw_literal(rng) for _ in range(12)]
    assert compute([written for written, _ in drawn]) == [shown for _, shown in drawn]
    floats = [
        (f"coalesce(a.d, {written})", shown) for written, shown in drawn if "D" in written and "BD" not in written
    ]
    assert compute([written for written, _ in floats] or ["1"]) == ([shown for _, shown in floats] or ["1"])


def test_a_decimal_has_no_negative_zero() -> None:
    assert compute(["coalesce(a.d, -0.0)", "CAST(-0.0 AS DOUBLE)", "-0.0D", "0.0D"]) == ["0.0", "0.0", "-0.0", "0.0"]


PLUS, MINUS = (f"CAST(coalesce(a.d, {zero}) AS STRING)" for zero in ("0.0D", "-0.0D"))


def test_predicates_that_differ_in_the_sign_of_zero_are_both_tested() -> None:
    query = ms.query(
        f"SELECT a.ts AS x FROM a {WINDOW}, b {WINDOW} WHERE a.k = b.k "
        f"AND concat(b.k, {PLUS}) <> '1-0.0' AND concat(b.k, {MINUS}) <> '1-0.0'",
        schemas=dict.fromkeys("ab", SCHEMA),
        event_time="ts",
    )
    rows = [{"d": None, "k": 1, "ts": 1}]
    assert ms.Engine(query).push({"a": rows, "b": rows}).num_rows == 0


def test_aggregates_and_keys_that_differ_in_the_sign_of_zero_are_told_apart() -> None:
    text = "SELECT {} FROM a [TUMBLE 5 MILLISECONDS]"
    query = ms.query(text.format(f"max({PLUS}) AS p, max({MINUS}) AS m"), schemas={"a": SCHEMA}, event_time="ts")
    engine = ms.Engine(query)
    engine.push({"a": [{"d": None, "k": 1, "ts": 1}]})
    assert [list(result.values())[:2] for result in engine.finish().to_pylist()] == [["0.0", "-0.0"]]
    with pytest.raises(ms.QueryError, match="neither a key of GROUP BY nor inside an aggregate"):
        ms.query(text.format(f"{MINUS} AS m") + f" GROUP BY {PLUS}", schemas={"a": SCHEMA}, event_time="ts")


def draw_moment(rng: random.Random) -> str:
    """A text that is nearly a date or a moment, and mostly one."""
    text = f"{rng.choice([1, 1970, 2024, 9999, 10_000, 12]):0{rng.choice([4, 4, 4, 4, 3])}}"
    for sign, most in (("-", 13), ("-", 32), (rng.choice([" ", "T", "T", "  "]), 25), (":", 60), (":", 60)):
        if rng.random() < 0.15:
            break
        text += f"{sign}{rng.randint(0 if sign == ':' else 1, most):0{rng.choice([1, 2])}}"
    if text.count(":") == 2 and rng.random() < 0.5:
        text += "." + "".join(rng.choices("0123456789", k=rng.randint(0, 9)))
    if ":" in text and rng.random() < 0.5:
        text += rng.choice(["Z", " Z", "UTC", "+02:00", "-2", " +0230", "-18:00", "+18:01", "+01:60", " Berlin", "z"])
    return rng.choice(["", " ", "\t"]) + text + rng.choice(["", "", " ", "x"])


@pytest.mark.parametrize("seed", range(20))
def test_literals_of_times_are_read_as_cast_reads_them(seed: int) -> None:
    rng = random.Random(f"times {seed}")
    texts = [draw_moment(rng) for _ in range(12)]
    for name in ("DATE", "TIMESTAMP"):
        for text, value in zip(texts, compute([f"CAST('{text}' || '' AS {name})" for text in texts]), strict=True):
            column = "CAST(a.k AS TIMESTAMP)" if name == "TIMESTAMP" else "CAST(CAST(a.k AS TIMESTAMP) AS DATE)"
            try:
                found = compute([f"{name} '{text}'", f"coalesce({column} = '{text}', FALSE)"])[0]
            except ms.QueryError as refusal:
                assert value is None or len(value.split("-")[0]) > 4, (text, str(refusal))
            else:
                assert found == value, text
