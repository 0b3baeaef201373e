"""Getting the kernels ready: small joins that use every one of them once.

Kernels are compiled the first time that they are called on a machine and then come from a cache on disk; loading one
from there takes a few milliseconds. Doing both when the first engine of a process is made keeps them out of the first
pushes and out of the first migration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from midstream import kernels

_logger = logging.getLogger("midstream")

_SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.int64(),
        "x": pa.int64(),
        "n": pa.int32(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "f": pa.float64(),
    }
)
_QUERIES = (
    "a.k = b.k AND b.k = c.k AND c.k = d.k",
    "a.s = b.s AND b.d = c.d AND c.k = d.k AND c.x = d.x",
    "abs(a.x - b.x) <= 1 AND abs(a.k - b.k) <= 9 AND a.f >= c.f - 1.0 AND a.f <= c.f + 1.0"
    " AND b.x + c.x <> d.x AND abs(c.x - d.x) <= 1",
)
_RANGE, _ROWS = "[RANGE 9 MICROSECONDS]", "[ROWS 3]"


def compile_notice() -> str | None:
    """What to tell a user before the kernels are compiled, or None if they are in the cache."""
    folder = Path(kernels.__file__).parent / "__pycache__"
    if any(folder.glob("*.nbi")):
        return None
    return "compiling kernels; this happens once per installation and takes about a minute"


def warm_up(run: Callable[[str, dict[str, pa.Schema], list[dict[str, pa.Table]]], None]) -> None:
    """Run small queries, given as text, schemas and pushes, through `run`."""
    notice = compile_notice()
    if notice is not None:
        _logger.warning("midstream: %s", notice)
    names = "abcd"
    columns = ", ".join(f"{name}.s AS {name}_s, {name}.d AS {name}_d, {name}.n AS {name}_n" for name in names)
    pushes = [{name: _rows(place) for name in names} for place in range(10)]
    for window, where in [*((_RANGE, where) for where in _QUERIES), (_ROWS, _QUERIES[0])]:
        streams = ", ".join(f"{name} {window}" for name in names)
        run(f"SELECT a.k, {columns} FROM {streams} WHERE {where}", dict.fromkeys(names, _SCHEMA), pushes)


def _rows(place: int) -> pa.Table:
    numbers = [place, place + 1]
    return pa.table(
        {
            "ts": [2 * place, 2 * place + 1],
            "k": [1, 100 + place],
            "x": numbers,
            "n": pa.array(numbers, pa.int32()),
            "s": ["one", None if place == 3 else "one"],
            "d": pa.array([1, 1], pa.decimal128(9, 2)),
            "f": [1.0, 2.0],
        },
        schema=_SCHEMA,
    )
