"""Base windows -> the tables of a snapshot, and back.

A snapshot fits a query that reads the same rows by the same predicates. Its windows may be smaller than they were, its
outputs may be others as long as the columns were kept (`stored_types` compares their types), and its plan is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.cql.describe import expression_text, window_text
from midstream.cql.model import Query, Window, WindowKind
from midstream.engine.input.arrivals import InputReader
from midstream.engine.input.event_time import ends_of
from midstream.engine.snapshot.format import Snapshot, same_or_reason
from midstream.engine.snapshot.stored_types import check_types, in_type, types_as_json
from midstream.errors import SnapshotError
from midstream.kernels import rings as kernels
from midstream.kernels.types import LARGEST
from midstream.state.arrow import single
from midstream.state.indexes import Ints
from midstream.state.window import Arrived, BaseWindow, PayloadName


def described(query: Query) -> dict[str, Any]:
    """What of a query has to stay the same for its windows to be of use, as JSON."""
    aliases = query.aliases
    return {
        "inputs": [[one.alias, one.source, one.event_time] for one in query.inputs],
        "filters": [[expression_text(expr, aliases) for expr in one.filters] for one in query.inputs],
        "keys": [
            [str(one.type), *(expression_text(expr, aliases) for _, expr in one.keys)] for one in query.key_classes
        ],
        "bands": [
            [expression_text(band.left, aliases), expression_text(band.right, aliases), band.low, band.high]
            for band in query.bands
        ],
        "thetas": [expression_text(theta.expr, aliases) for theta in query.thetas],
        "time": str(query.time_type),
        **({"assumed zones": query.assumed_zones} if query.assumed_zones else {}),
    }


def query_as_json(query: Query) -> dict[str, Any]:
    """What a snapshot tells of its query, for `check_query`."""
    return {
        "query": described(query),
        "types": types_as_json(query),
        "windows": windows_as_json(query),
        "outputs": [[one.name, expression_text(one.expr, query.aliases)] for one in query.outputs],
    }


def check_query(query: Query, snapshot: Snapshot) -> None:
    """Refuse a snapshot that a query cannot go on with."""
    stored = snapshot.meta
    check_zones(query, stored["query"].get("assumed zones", {}))
    check_types(query, stored["types"])
    difference = same_or_reason(stored["query"], described(query))
    if difference is not None:
        raise SnapshotError(f"restore: the snapshot is of another query; {difference}")
    check_windows(query, stored["windows"])
    same_outputs = stored["outputs"] == query_as_json(query)["outputs"]
    if snapshot.held.num_rows and not (same_outputs and snapshot.held.schema.equals(query.output_schema)):
        columns = ", ".join(f"{text} AS {name}" for name, text in stored["outputs"])
        raise SnapshotError(
            f"restore: the snapshot holds {snapshot.held.num_rows:,} results back, and they have other columns than "
            f"the query; go on with SELECT {columns} until they are out, then change it"
        )


def window_table(window: BaseWindow, watermark: int) -> pa.Table:
    """The live rows of a base window."""
    rows = window.held(kernels.alive(window.ends, window.head, window.tail, watermark))
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {"start": pa.array(rows.starts)}
    arrays.update({f"code {number}": pa.array(codes) for number, codes in rows.codes.items()})
    arrays.update({f"band {number}": pa.array(codes) for number, codes in rows.band_codes.items()})
    if rows.arrivals is not None:
        arrays.update({"arrival": pa.array(rows.arrivals), "ordinal": pa.array(rows.ordinals)})
    arrays.update({_stored_name(name): values for name, values in rows.payload.items()})
    return pa.table(arrays)


def _stored_name(name: PayloadName) -> str:
    """What a payload column is called in a snapshot's table: all of the user's names follow one word of ours."""
    return f"key {name}" if isinstance(name, int) else f"value {name}"


def windows_as_json(query: Query) -> list[list[Any]]:
    """The windows of the inputs, to compare with later."""
    return [[one.window.kind.value, one.window.size] for one in query.inputs]


def check_zones(query: Query, stored: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse to read times without a zone in another zone than the rows that are there were read in."""
    for stream in query.streams:
        before, after = (" ".join(zones.get(stream, {}).values()) for zones in (stored, query.assumed_zones))
        if before != after:
            right = f"assume_zone={before!r}" if before else "no assume_zone"
            raise SnapshotError(
                f"restore: event times of {stream!r} without a zone were read in {before or 'UTC'} and would be read "
                f"in {after or 'UTC'}; give {right}, as before"
            )


def check_windows(query: Query, stored: Sequence[Sequence[Any]]) -> None:
    """Refuse a window that is larger than the stored one: rows that it needs are gone."""
    for one, (kind, size) in zip(query.inputs, stored, strict=True):
        before = Window(WindowKind(kind), size)
        limits = (WindowKind.RANGE, WindowKind.ROWS)
        same_kind = one.window.kind is before.kind and one.window.size <= before.size
        if not same_kind and not (before.kind is WindowKind.UNBOUNDED and one.window.kind in limits[:1]):
            raise SnapshotError(
                f"restore: the window of {one.alias!r} was [{window_text(before)}] and would become "
                f"[{window_text(one.window)}]; rows that it needs are gone: keep the window or make it smaller"
            )


def stored_rows(reader: InputReader, alias: str, table: pa.Table, watermark: int, next_ordinal: int) -> Arrived:
    """The rows of a snapshot's table that are alive in the input's window."""
    layout = reader.layout
    missing = [name for name, _ in layout.payload if _stored_name(name) not in table.column_names]
    if missing:
        raise SnapshotError(
            f"restore: the snapshot did not keep column {missing[0]!r} of {alias!r}; "
            "select only columns that the query read when the snapshot was made"
        )
    starts = _integers(table, "start")
    if layout.window.kind is WindowKind.RANGE:
        ends = ends_of(starts, layout.window.size)
        kept = ends >= watermark
    else:
        ends = np.full(len(starts), LARGEST)
        kept = np.ones(len(starts), np.bool_)
    if layout.window.kind is WindowKind.ROWS:
        kept = _integers(table, "ordinal") >= next_ordinal - layout.window.size
    if not kept.all():
        table, starts, ends = table.filter(pa.array(kept)), starts[kept], ends[kept]
    rows = Arrived(
        starts,
        ends,
        {number: _integers(table, f"code {number}") for number in layout.classes},
        {number: _integers(table, f"band {number}") for number in layout.bands},
        {name: in_type(table.column(_stored_name(name)), type, alias, str(name)) for name, type in layout.payload},
    )
    if layout.tracks_arrivals:
        rows.arrivals, rows.ordinals = _integers(table, "arrival"), _integers(table, "ordinal")
        rows.stream_arrivals, rows.first_ordinal = np.empty(0, np.int64), next_ordinal
    return rows


def _integers(table: pa.Table, name: str) -> Ints:
    return np.array(single(table.column(name)).to_numpy(zero_copy_only=False), np.int64)
