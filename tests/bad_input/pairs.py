"""A small join of two streams, and tables for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import midstream as ms

TEXT = """
SELECT a.v AS av, b.v AS bv
FROM a [RANGE 10 MICROSECONDS], b [RANGE 10 MICROSECONDS]
WHERE a.k = b.k
"""
INT = pa.int64()
SCHEMA = pa.schema({"k": INT, "v": INT, "ts": INT})


def schema(key: pa.DataType = INT, time: pa.DataType = INT) -> pa.Schema:
    return pa.schema({"k": key, "v": pa.int64(), "ts": time})


def pair(
    text: str = TEXT, left: pa.Schema = SCHEMA, right: pa.Schema | None = None, delay: Any = 0, **options: Any
) -> ms.Engine:
    """An engine over streams a and b (each alias its own)."""
    query = ms.query(text, schemas={"a": left, "b": right or left}, event_time="ts", delay=delay)
    return ms.Engine(query, late="keep", **options)


def rows(keys: Sequence[object], times: Sequence[object], like: pa.Schema = SCHEMA, first: int = 0) -> pa.Table:
    """Rows with these keys and event times; `v` counts on from `first`."""
    numbers = list(range(first, first + len(keys)))
    arrays = [
        pa.array(list(keys), like.field("k").type),
        pa.array(numbers, like.field("v").type),
        pa.array(list(times), like.field("ts").type),
    ]
    return pa.table(arrays, schema=like)


def matches(table: pa.Table) -> list[tuple[object, ...]]:
    """The results' payload, sorted."""
    listed = [tuple(row.values())[:-2] for row in table.to_pylist()]
    return sorted(listed, key=repr)


def ask(engine: ms.Engine, pushes: Sequence[Mapping[str, pa.Table]]) -> list[list[tuple[object, ...]]]:
    return [matches(engine.push(dict(push))) for push in pushes]
