"""Seeded workloads over the shapes of join that the literature measures.

::

    common key      A.k = B.k = C.k = D.k
    chain           A - B - C - D               each edge its own column
    star            A - B, A - C, A - D         the hub has one column per spoke
    clique          every pair                  N sources with N - 1 columns each
    band            |A.x - B.x| <= width, ...   values near each other, along a chain

Every stream has an event time `ts` (int64 microseconds), its join columns with uniform values, and a payload `v` that
numbers its rows, so that a result shows which rows it is made of. All shapes take the same arguments: `streams`, and
for each of them `rows`, `keys` (how many values a join column has) and `rate` (rows a second); `window` in seconds,
`seed`, and `string_keys` for keys that are text. Rows are `1 / rate` seconds apart and streams are shifted against each
other so that their rows alternate. `jitter` moves event times at random and keeps their order; `disorder` lets rows
arrive up to that many seconds late, which a query needs a `delay` for. The same arguments give the same rows, and a
stream's rows do not depend on how many streams come after it.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.lab.workload import Workload, batches

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Workload", "band", "batches", "chain", "clique", "common_key", "star"]

EVENT_TIME = "ts"
PAYLOAD = "v"

Integers = npt.NDArray[np.int64]


class Times(TypedDict, total=False):
    """Keywords of every shape: the window and the order of its rows, in seconds, and where random numbers begin."""

    seed: int
    window: float
    jitter: float
    disorder: float


class Keyed(Times, total=False):
    """Keywords of shapes that join by equality."""

    string_keys: bool


@dataclass(frozen=True)
class _Settings:
    """What all shapes have in common."""

    rows: int
    keys: int
    rate: float
    seed: int = 0
    string_keys: bool = False
    window: float = 1.0
    jitter: float = 0.0
    disorder: float = 0.0

    def __post_init__(self) -> None:
        for name, smallest in (("rows", 0), ("keys", 1), ("window", 0), ("jitter", 0), ("disorder", 0)):
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, not {getattr(self, name)}")
        if self.rate <= 0:
            raise ValueError(f"rate must be above 0, not {self.rate}")


def common_key(
    streams: int = 4, rows: int = 10_000, keys: int = 1_000, rate: float = 1_000.0, **others: Unpack[Keyed]
) -> Workload:
    """All streams equal on one key.

    >>> print(common_key(streams=3, rows=4, keys=2, rate=1.0, window=2.5).text)
    SELECT A.v AS A_v, B.v AS B_v, C.v AS C_v
    FROM A [RANGE 2500000 MICROSECONDS], B [RANGE 2500000 MICROSECONDS], C [RANGE 2500000 MICROSECONDS]
    WHERE A.k = B.k AND B.k = C.k
    """
    names = _make_names(streams)
    predicates = [f"{left}.k = {right}.k" for left, right in pairwise(names)]
    return _make_workload(_Settings(rows, keys, rate, **others), dict.fromkeys(names, ("k",)), predicates)


def chain(
    streams: int = 4, rows: int = 10_000, keys: int = 1_000, rate: float = 1_000.0, **others: Unpack[Keyed]
) -> Workload:
    """Each stream equal to the next one on a column of their own.

    >>> print(chain(streams=3, rows=4).text.splitlines()[-1])
    WHERE A.to_B = B.to_A AND B.to_C = C.to_B
    """
    names = _make_names(streams)
    return _join_by_edges(_Settings(rows, keys, rate, **others), names, list(pairwise(names)))


def star(
    streams: int = 4, rows: int = 10_000, keys: int = 1_000, rate: float = 1_000.0, **others: Unpack[Keyed]
) -> Workload:
    """The first stream equal to each of the others on a column of their own.

    >>> print(star(streams=3, rows=4).text.splitlines()[-1])
    WHERE A.to_B = B.to_A AND A.to_C = C.to_A
    """
    names = _make_names(streams)
    return _join_by_edges(_Settings(rows, keys, rate, **others), names, [(names[0], spoke) for spoke in names[1:]])


def clique(
    streams: int = 4, rows: int = 10_000, keys: int = 1_000, rate: float = 1_000.0, **others: Unpack[Keyed]
) -> Workload:
    """Every pair of streams equal on a column of its own, `streams - 1` columns in each stream.

    >>> print(clique(streams=3, rows=4).text.splitlines()[-1])
    WHERE A.to_B = B.to_A AND A.to_C = C.to_A AND B.to_C = C.to_B
    """
    names = _make_names(streams)
    return _join_by_edges(_Settings(rows, keys, rate, **others), names, list(combinations(names, 2)))


def band(
    streams: int = 3,
    rows: int = 10_000,
    keys: int = 1_000,
    rate: float = 1_000.0,
    *,
    width: int = 1,
    **others: Unpack[Times],
) -> Workload:
    """Each stream within `width` of the next one; values are uniform over `keys` integers.

    >>> print(band(streams=3, rows=4, width=5).text.splitlines()[-1])
    WHERE A.x BETWEEN B.x - 5 AND B.x + 5 AND B.x BETWEEN C.x - 5 AND C.x + 5
    """
    if width < 0:
        raise ValueError(f"width must be at least 0, not {width}")
    names = _make_names(streams)
    predicates = [f"{left}.x BETWEEN {right}.x - {width} AND {right}.x + {width}" for left, right in pairwise(names)]
    return _make_workload(_Settings(rows, keys, rate, **others), dict.fromkeys(names, ("x",)), predicates)


def _make_names(streams: int) -> tuple[str, ...]:
    """A, B, C, ... and S26, S27, ... after the alphabet."""
    if streams < 1:
        raise ValueError(f"streams must be at least 1, not {streams}")
    letters = tuple(string.ascii_uppercase[:streams])
    return letters + tuple(f"S{number}" for number in range(len(letters), streams))


def _join_by_edges(settings: _Settings, names: tuple[str, ...], edges: list[tuple[str, str]]) -> Workload:
    """Equalities between pairs of streams; the column of X for Y is called `to_Y`."""
    columns: dict[str, list[str]] = {name: [] for name in names}
    for first, second in edges:
        columns[first].append(f"to_{second}")
        columns[second].append(f"to_{first}")
    predicates = [f"{first}.to_{second} = {second}.to_{first}" for first, second in edges]
    return _make_workload(settings, {name: tuple(found) for name, found in columns.items()}, predicates)


def _make_workload(settings: _Settings, columns: Mapping[str, tuple[str, ...]], predicates: list[str]) -> Workload:
    names = tuple(columns)
    lines = [
        "SELECT " + ", ".join(f"{name}.{PAYLOAD} AS {name}_{PAYLOAD}" for name in names),
        "FROM " + ", ".join(f"{name} [RANGE {_write_duration(settings.window)}]" for name in names),
    ]
    if predicates:
        lines.append("WHERE " + " AND ".join(predicates))
    tables = {
        name: _make_table(settings, columns[name], np.random.default_rng([settings.seed, number]), number / len(names))
        for number, name in enumerate(names)
    }
    schemas = {name: table.schema for name, table in tables.items()}
    return Workload("\n".join(lines), schemas, tables, EVENT_TIME)


def _write_duration(seconds: float) -> str:
    whole = round(seconds)
    if whole == seconds:
        return f"{whole} SECOND" if whole == 1 else f"{whole} SECONDS"
    return f"{round(seconds * 1e6)} MICROSECONDS"


def _make_table(settings: _Settings, columns: tuple[str, ...], rng: np.random.Generator, shift: float) -> pa.Table:
    """The rows of one stream; `shift` is its share of the distance between two rows."""
    data: dict[str, pa.Array] = {EVENT_TIME: pa.array(_draw_event_times(settings, rng, shift))}
    for column, values in zip(columns, _draw_values(settings, rng, len(columns)), strict=True):
        data[column] = _write_strings(values) if settings.string_keys else pa.array(values)
    data[PAYLOAD] = pa.array(np.arange(settings.rows, dtype=np.int64))
    table = pa.table(data)
    if settings.disorder == 0:
        return table
    arrival = np.asarray(table[EVENT_TIME]) + rng.uniform(0, settings.disorder * 1e6, settings.rows)
    return table.take(pa.array(np.argsort(arrival, kind="stable")))


def _draw_event_times(settings: _Settings, rng: np.random.Generator, shift: float) -> Integers:
    exact = (np.arange(settings.rows, dtype=np.float64) + shift) * (1e6 / settings.rate)
    if settings.jitter:
        exact = np.sort(exact + rng.uniform(0, settings.jitter * 1e6, settings.rows))
    return np.floor(exact).astype(np.int64)


def _draw_values(settings: _Settings, rng: np.random.Generator, columns: int) -> Iterator[Integers]:
    for _ in range(columns):
        yield rng.integers(0, settings.keys, settings.rows, dtype=np.int64)


def _write_strings(values: Integers) -> pa.Array:
    """The values as text of one width; only distinct ones are written out."""
    distinct, positions = np.unique(values, return_inverse=True)
    return pa.array([f"key-{value:010d}" for value in distinct.tolist()], pa.string()).take(pa.array(positions))
