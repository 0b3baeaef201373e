"""Golden pairs: a query's text and the model, or the error, that it must give.

A fixture file has cases of this form; settings are optional, and without them every stream's event time is ``ts``::

    === what the case is about
    event_time: orders = ts, payments = ts
    delay: orders = 5 seconds
    assume_zone: Europe/Berlin
    step: 1 minute
    SELECT ...
    ---
    what `describe` prints, or "error: " and the message

Run this file as a program to write what the parser gives today into the fixtures; then read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from midstream.cql import describe, query
from midstream.errors import QueryError

FIXTURES = Path(__file__).parent / "fixtures"
FEWEST_CASES = 40
SEPARATOR = re.compile(r"^---\n", re.MULTILINE)

TIME = pa.timestamp("us")
SCHEMAS = {
    "orders": pa.schema(
        {
            "id": pa.int64(),
            "customer": pa.string(),
            "total": pa.float64(),
            "items": pa.int32(),
            "day": pa.date32(),
            "paid": pa.bool_(),
            "ts": TIME,
        }
    ),
    "payments": pa.schema(
        {
            "order_id": pa.int64(),
            "customer": pa.string(),
            "total": pa.float64(),
            "items": pa.int32(),
            "price": pa.decimal128(10, 2),
            "day": pa.date32(),
            "ts": pa.timestamp("ns"),
        }
    ),
    "Shipments": pa.schema(
        {
            "orderId": pa.int32(),
            "carrier": pa.dictionary(pa.int32(), pa.string()),
            "weight": pa.float32(),
            "offset": pa.int64(),
            "ts": TIME,
        }
    ),
    "ticks": pa.schema({"id": pa.uint32(), "small": pa.int8(), "at": pa.int64(), "day": pa.date32()}),
    "carriers": pa.schema({"carrier": pa.large_string(), "rate": pa.float64()}),
    "visits": pa.schema({"id": pa.int64(), "ts": pa.timestamp("ms", "Europe/Berlin")}),
    "baskets": pa.schema(
        {
            "id": pa.int64(),
            "goods": pa.list_(pa.string()),
            "place": pa.struct({"lat": pa.float64()}),
            "notes": pa.map_(pa.string(), pa.string()),
            "huge": pa.decimal256(50, 2),
            "fine": pa.decimal128(38, 18),
            "count": pa.uint64(),
            "ts": TIME,
        }
    ),
    "words": pa.schema({"having": pa.int64(), "limit": pa.int64(), "ts": TIME}),
    "twins": pa.schema([("x", pa.int64()), ("X", pa.int64()), ("ts", TIME)]),
}


@dataclass(frozen=True)
class Case:
    title: str
    event_time: str | dict[str, str] | None
    delay: int | str | dict[str, str]
    assume_zone: str | None
    step: str | None
    text: str
    expected: str


def read_cases(path: Path) -> Iterator[Case]:
    for block in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        settings: dict[str, str] = {}
        while match := re.match(r"(event_time|delay|assume_zone|step): *(.*)\n", rest):
            settings[match.group(1)] = match.group(2)
            rest = rest[match.end() :]
        text, expected = SEPARATOR.split(rest, maxsplit=1)
        event_time = _setting(settings.get("event_time", "ts"))
        yield Case(
            title,
            None if event_time == "none" else event_time,
            _setting(settings.get("delay", "0 s")),
            settings.get("assume_zone"),
            settings.get("step"),
            text.removesuffix("\n"),
            expected.strip("\n"),
        )


def _setting(text: str) -> str | dict[str, str]:
    if "=" not in text:
        return text
    return {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in text.split(","))}


def outcome(case: Case) -> str:
    try:
        return describe(query(case.text, SCHEMAS, case.event_time, case.delay, case.assume_zone, step=case.step))
    except QueryError as error:
        return f"error: {error}"


CASES = [(path.stem, case) for path in sorted(FIXTURES.glob("*.txt")) for case in read_cases(path)]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{file}: {case.title}") for file, case in CASES])
def test_a_text_gives_its_model(case: Case) -> None:
    assert outcome(case) == case.expected


def test_the_fixtures_are_found() -> None:
    assert len(CASES) >= FEWEST_CASES
    assert len({(file, case.title) for file, case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{file}: {case.title}") for file, case in CASES])
def test_every_error_says_where(case: Case) -> None:
    if case.expected.startswith("error: "):
        place = re.search(r" at line \d+, column \d+(;|$)", case.expected)
        argument = re.match("error: query: (event_time names|delay |assume_zone=|step)", case.expected)
        assert place or argument


def rewrite() -> None:
    for path in FIXTURES.glob("*.txt"):
        preamble = path.read_text().partition("=== ")[0]
        blocks = re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]
        written = []
        for block, case in zip(blocks, read_cases(path), strict=True):
            head = SEPARATOR.split(block, maxsplit=1)[0].rstrip("\n")
            written.append(f"=== {head}\n---\n{outcome(case)}\n\n")
        path.write_text(preamble + "".join(written).rstrip("\n") + "\n")


if __name__ == "__main__":
    rewrite()
