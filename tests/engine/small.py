"""Small queries of every shape with their predicates in Python, random pushes, and random plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import midstream as ms
from midstream.cql.model import Query

Row = Mapping[str, Any]
Predicate = tuple[tuple[int, ...], Callable[..., bool]]
ALIASES = "abcdefg"
SCHEMA = pa.schema(
    {"k": pa.int64(), "x": pa.int64(), "y": pa.int64(), "v": pa.int64(), "s": pa.string(), "ts": pa.int64()}
)
RANGES = "RANGE 30 MICROSECONDS", "RANGE 45 MICROSECONDS", "RANGE 30 MICROSECONDS", "RANGE 60 MICROSECONDS"


def same(left: int, right: int, left_column: str, right_column: str) -> Predicate:
    return (left, right), lambda first, second: first[left_column] == second[right_column]


def near(left: int, right: int, low: int, high: int) -> Predicate:
    return (left, right), lambda first, second: low <= first["v"] - second["v"] <= high


@dataclass(frozen=True)
class Small:
    """A query text over inputs a, b, ... and the same predicates, closed under equality, in Python."""

    name: str
    windows: tuple[str, ...]
    where: str
    predicates: tuple[Predicate, ...]

    @property
    def size(self) -> int:
        return len(self.windows)

    def query(self, windows: tuple[str, ...] | None = None, delay: int = 8) -> Query:
        inputs = ", ".join(
            f"{alias} [{window}]" for alias, window in zip(ALIASES, windows or self.windows, strict=False)
        )
        return ms.query(
            f"SELECT * FROM {inputs} WHERE {self.where}",
            schemas=dict.fromkeys(ALIASES[: self.size], SCHEMA),
            event_time="ts",
            delay=f"{delay} microseconds",
        )

    def tests_of(self, new: int, known: tuple[int, ...]) -> list[Predicate]:
        """The predicates among these inputs that a row of input `new` is asked by."""
        return [(inputs, test) for inputs, test in self.predicates if new in inputs and {*inputs} <= {*known}]


def every_pair(size: int, test: Callable[[int, int], Predicate]) -> tuple[Predicate, ...]:
    return tuple(test(i, j) for i in range(size) for j in range(i + 1, size))


COMMON = every_pair(4, lambda i, j: same(i, j, "k", "k"))
COMMON_TEXT = "a.k = b.k AND b.k = c.k AND c.k = d.k"
CASES = (
    Small("common", RANGES, COMMON_TEXT, COMMON),
    Small(
        "strings",
        RANGES[:3],
        "a.s = b.s AND b.s = c.s",
        every_pair(3, lambda i, j: same(i, j, "s", "s")),
    ),
    Small(
        "chain",
        RANGES,
        "a.y = b.x AND b.y = c.x AND c.y = d.x",
        (same(0, 1, "y", "x"), same(1, 2, "y", "x"), same(2, 3, "y", "x")),
    ),
    Small(
        "star",
        RANGES,
        "a.k = b.k AND a.x = c.k AND a.y = d.k",
        (same(0, 1, "k", "k"), same(0, 2, "x", "k"), same(0, 3, "y", "k")),
    ),
    Small(
        "clique",
        RANGES[:3],
        "a.x = b.x AND a.y = c.y AND b.v = c.v",
        (same(0, 1, "x", "x"), same(0, 2, "y", "y"), same(1, 2, "v", "v")),
    ),
    Small(
        "composite",
        RANGES,
        "a.k = b.k AND a.x = b.x AND b.k = c.k AND c.y = d.y AND c.x = d.x",
        (
            *every_pair(3, lambda i, j: same(i, j, "k", "k")),
            same(0, 1, "x", "x"),
            same(2, 3, "y", "y"),
            same(2, 3, "x", "x"),
        ),
    ),
    Small(
        "band",
        RANGES[:3],
        "a.v - b.v BETWEEN -1 AND 1 AND c.v >= b.v AND c.v <= b.v + 2 AND a.k = c.k",
        (near(0, 1, -1, 1), near(2, 1, 0, 2), same(0, 2, "k", "k")),
    ),
    Small(
        "theta",
        RANGES[:3],
        "a.v + b.v = c.v AND a.k <> b.k",
        (
            ((0, 1, 2), lambda first, second, third: first["v"] + second["v"] == third["v"]),
            ((0, 1), lambda first, second: None not in (first["k"], second["k"]) and first["k"] != second["k"]),
        ),
    ),
    Small("rows", ("ROWS 5", RANGES[1], "ROWS 9", "ROWS 12"), COMMON_TEXT, COMMON),
    Small(
        "mixed",
        ("UNBOUNDED", "ROWS 6", RANGES[0]),
        "a.y = b.x AND b.y = c.x",
        (same(0, 1, "y", "x"), same(1, 2, "y", "x")),
    ),
)


def draw_rows(rng: random.Random, times: list[int]) -> pa.Table:
    numbers = [{name: rng.randrange(5) for name in "kxyv"} for _ in times]
    columns: dict[str, list[Any]] = {name: [row[name] for row in numbers] for name in "kxyv"}
    columns["k"] = [None if rng.random() < 0.05 else value for value in columns["k"]]
    columns["s"] = ["key" * value for value in columns["x"]]
    return pa.table({**columns, "ts": times}, schema=SCHEMA)


def draw_pushes(
    rng: random.Random, small: Small, count: int, pace: int = 8, most: int = 3, droughts: float = 0.0
) -> Iterator[dict[str, pa.Table]]:
    """Pushes with some disorder, some of them to a few streams only.

    With this probability, one of the streams runs dry at a push, also before the first, and has no rows for a while.
    """
    now = 100
    dry_until = dict.fromkeys(ALIASES[: small.size], -1)
    for number in range(count):
        if droughts and rng.random() < (0.5 if number == 0 else droughts):
            dry_until[rng.choice(ALIASES[: small.size])] = number + rng.randrange(5, 25)
        streams = [alias for alias in ALIASES[: small.size] if rng.random() < 0.6 and dry_until[alias] < number]
        push = {
            stream: draw_rows(rng, [now + rng.randrange(-4, 5) for _ in range(rng.randint(0, most))])
            for stream in streams
        }
        now += rng.randrange(pace)
        yield push


def draw_plan(rng: random.Random, size: int) -> str:
    """A plan of any shape, cross products included."""
    nodes = rng.sample(ALIASES[:size], size)
    while len(nodes) > 1:
        left, right = nodes.pop(rng.randrange(len(nodes))), nodes.pop(rng.randrange(len(nodes)))
        nodes.append(f"({left} {right})")
    return nodes[0]


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
