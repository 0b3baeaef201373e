"""Shares: known cases of the literature, rates, ties, and what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.model import Query
from midstream.spark.routing.shares import rates_of, shares_for
from tests.oracle.cases import make_case
from tests.oracle.run import make_query

SCHEMA = pa.schema({"x": pa.int64(), "y": pa.int64(), "z": pa.int64(), "ts": pa.int64()})


def query(streams: str, where: str = "", window: str = "[RANGE 1 HOUR]") -> Query:
    """A query over streams such as ``abc``, one letter each."""
    names = f" {window} CROSS JOIN ".join(streams) + f" {window}"
    text = f"SELECT {streams[0]}.ts FROM {names}" + (f" WHERE {where}" if where else "")
    return ms.query(text, schemas=dict.fromkeys(streams, SCHEMA), event_time="ts")


ONE_KEY = query("abcd", "a.x = b.x AND b.x = c.x AND c.x = d.x")
CHAIN = query("abc", "a.x = b.x AND b.y = c.y")
TRIANGLE = query("abc", "a.x = b.x AND b.y = c.y AND c.z = a.z")
STAR = query("fabc", "f.x = a.x AND f.y = b.y AND f.z = c.z")
THETA = query("ab", "a.x < b.x")
KEY_AND_THETA = query("abc", "a.x = b.x AND b.y < c.y")


@pytest.mark.parametrize(
    ("query", "cells", "rates", "sizes"),
    [
        (ONE_KEY, 12, None, (12,)),
        (CHAIN, 4, None, (2, 2)),
        (CHAIN, 4, {"a": 10}, (4, 1)),
        (CHAIN, 4, {"c": 10}, (1, 4)),
        (CHAIN, 8, None, (4, 2)),
        (CHAIN, 7, None, (7, 1)),
        (TRIANGLE, 8, None, (2, 2, 2)),
        (TRIANGLE, 27, None, (3, 3, 3)),
        (TRIANGLE, 1, None, (1, 1, 1)),
        (TRIANGLE, 64, None, (4, 4, 4)),
        (STAR, 8, None, (2, 2, 2)),
        (STAR, 8, {"a": 100}, (8, 1, 1)),
        (THETA, 16, None, (4, 4)),
        (THETA, 16, {"a": 16}, (16, 1)),
        (THETA, 16, {"b": 4}, (2, 8)),
        (KEY_AND_THETA, 4, None, (2, 2)),
        (KEY_AND_THETA, 4, {"c": 0.1}, (4, 1)),
        (query("a"), 6, None, (6,)),
        (query("abc"), 8, None, (2, 2, 2)),
    ],
)
def test_known_cases(query: Query, cells: int, rates: dict[str, float] | None, sizes: tuple[int, ...]) -> None:
    assert shares_for(query, cells, rates).sizes == sizes


def test_one_key_needs_no_copies() -> None:
    shares = shares_for(ONE_KEY, 8)
    assert [shares.copies(number) for number in range(4)] == [1, 1, 1, 1]


def test_rows_are_copied_along_dimensions_that_they_have_no_key_for() -> None:
    assert [shares_for(CHAIN, 4).copies(number) for number in range(3)] == [2, 1, 2]
    assert [shares_for(TRIANGLE, 8).copies(number) for number in range(3)] == [2, 2, 2]
    assert [shares_for(THETA, 16, {"a": 16}).copies(number) for number in range(2)] == [1, 16]


@pytest.mark.parametrize("seed", range(60))
def test_no_other_grid_sends_fewer_rows(seed: int) -> None:
    """Over random queries, against all grids of small shares."""
    found = make_query(make_case(40_000 + seed, windows="mixed", rows=4))
    rates = {alias: 1 + 3 * (place * seed % 5) for place, alias in enumerate(found.aliases)}
    for cells in (1, 2, 6, 8):
        shares = shares_for(found, cells, rates)
        assert math.prod(shares.sizes) == cells
        dimensions = shares.dimensions
        assert all(any(number in dimension.inputs for dimension in dimensions) for number in range(len(found.inputs)))

        def sent(sizes: tuple[int, ...], found: Query = found, dimensions: Any = dimensions) -> int:
            return sum(
                rates[alias]
                * math.prod(s for s, dimension in zip(sizes, dimensions, strict=True) if i not in dimension.inputs)
                for i, alias in enumerate(found.aliases)
            )

        if len(dimensions) <= 5:
            divisors = [divisor for divisor in range(1, cells + 1) if cells % divisor == 0]
            grids = itertools.product(divisors, repeat=len(dimensions))
            assert sent(shares.sizes) == min(sent(sizes) for sizes in grids if math.prod(sizes) == cells)


def test_many_cells_are_laid_out_in_no_time() -> None:
    where = " AND ".join(f"f.{key} = {stream}.{key}" for stream, key in zip("abc", "xyz", strict=True))
    shares = shares_for(query("fabcd", f"{where} AND f.x < d.y"), 1024)
    assert math.prod(shares.sizes) == 1024


def test_a_rate_is_of_an_alias_or_of_a_stream() -> None:
    text = "SELECT a.x FROM s [RANGE 1 HOUR] a, s [RANGE 1 HOUR] b, t [RANGE 1 HOUR] WHERE a.x = b.x AND b.x = t.x"
    found = ms.query(text, schemas={"s": SCHEMA, "t": SCHEMA}, event_time="ts")
    assert rates_of(found, {"B": 5, "S": 3}) == (3, 5, 1)
    assert rates_of(found, None) == (1, 1, 1)


@pytest.mark.parametrize(
    "rates", [{"a": 0}, {"a": -1}, {"a": float("nan")}, {"a": float("inf")}, {"a": "2"}, {"a": True}]
)
def test_rates_are_positive_numbers(rates: dict[str, Any]) -> None:
    with pytest.raises(ms.QueryError, match="is not a rate for 'a'; give a positive number"):
        shares_for(CHAIN, 4, rates)


def test_a_rate_of_an_unknown_stream() -> None:
    with pytest.raises(ms.QueryError, match="rates: unknown stream 'q'; aliases in FROM: a, b, c"):
        shares_for(CHAIN, 4, {"q": 2})


@pytest.mark.parametrize("cells", [0, -1, 2.0, True, "4", 2**31])
def test_numbers_of_partitions(cells: Any) -> None:
    with pytest.raises(ms.QueryError, match="is not a number of partitions"):
        shares_for(CHAIN, cells)


def test_rows_windows_need_one_cell() -> None:
    rows = query("ab", "a.x = b.x", "[ROWS 5]")
    assert shares_for(rows, 1).sizes == (1,)
    with pytest.raises(ms.QueryError, match=r"\[ROWS 5\] of 'a' .* give partitions=1, run the query embedded"):
        shares_for(rows, 2)
