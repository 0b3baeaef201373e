"""Base windows -> the tables of a snapshot, and back.

A snapshot fits a query that reads the same rows by the same predicates. Its windows may be smaller than they were, its
outputs may be others as long as the columns were kept (`stored_types` compares their types), and its plan is free.

A query that gives its results out in steps has to have the same outputs and operators as well, and goes on in the steps
of the snapshot: rows were kept as long as these need them, and the results of closed steps are out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.cql.describe import aggregate_text, combination_text, expression_text
from midstream.cql.durations import duration_text
from midstream.cql.model import Grouping, Query
from midstream.cql.windows import window_of
from midstream.engine.input.arrivals import InputReader
from midstream.engine.snapshot.format import Snapshot, same_or_reason
from midstream.engine.snapshot.stored_types import check_types, in_type, types_as_json
from midstream.errors import QueryError, SnapshotError
from midstream.kernels import rings as kernels
from midstream.kernels.types import EARLIEST, FIRST_ID
from midstream.state import sizes
from midstream.state.arrow import make_contiguous
from midstream.state.expiry import expiry_of
from midstream.state.indexes import Ints
from midstream.state.row_parts import select_rows
from midstream.state.sizes import can_be_large, cut_by_size, row_bytes
from midstream.state.window import BaseWindow, PayloadName, WindowLayout, WindowRows


def describe_query(query: Query) -> dict[str, Any]:
    """What of a query has to stay the same for its windows to be of use, as JSON."""
    aliases = query.aliases
    return {
        "inputs": [[relation.alias, relation.source, relation.event_time] for relation in query.inputs],
        "filters": [[expression_text(expr, aliases) for expr in relation.filters] for relation in query.inputs],
        "keys": [
            [str(key_class.type), *(expression_text(expr, aliases) for _, expr in key_class.keys)]
            for key_class in query.key_classes
        ],
        "bands": [
            [expression_text(band.left, aliases), expression_text(band.right, aliases), band.low, band.high]
            for band in query.bands
        ],
        "thetas": [expression_text(theta.expr, aliases) for theta in query.thetas],
        "time": str(query.time_type),
        **({"assumed zones": query.assumed_zones} if query.assumed_zones else {}),
        **(_describe_operators(query) if query.step is not None else {}),
        **(_describe_combination(query) if query.combination is not None else {}),
    }


def _describe_combination(query: Query) -> dict[str, Any]:
    """The set operations of a query and what stands above the joins of its branches, as JSON."""
    assert query.combination is not None
    return {
        "combined": combination_text(query.combination),
        "inputs of branches": [len(part.inputs) for part in query.parts],
        **({"branches": [_describe_operators(part) for part in query.parts]} if query.step is not None else {}),
    }


def _describe_operators(query: Query) -> dict[str, Any]:
    """What stands above the joins of a query with steps, as JSON."""
    grouping = query.grouping or Grouping((), ())
    aliases = query.aliases
    return {
        "distinct": query.is_distinct,
        "grouped": query.grouping is not None,
        "group keys": [[str(key.type), expression_text(key, aliases)] for key in grouping.keys],
        "aggregates": [[str(aggregate.type), aggregate_text(aggregate, aliases)] for aggregate in grouping.aggregates],
        "having": None if grouping.having is None else expression_text(grouping.having, aliases),
        "outputs": [
            [output.name, str(output.expr.type), expression_text(output.expr, aliases)] for output in query.outputs
        ],
    }


def query_as_json(query: Query) -> dict[str, Any]:
    """What a snapshot tells of its query, for `check_query`."""
    return {
        "query": describe_query(query),
        "types": types_as_json(query),
        "windows": windows_as_json(query),
        "outputs": [
            [output.name, expression_text(output.expr, branch.aliases)]
            for branch in query.branches
            for output in branch.outputs
        ],
        **({"step": query.step} if query.step is not None else {}),
    }


def check_query(query: Query, snapshot: Snapshot) -> Query:
    """The query as it goes on from a snapshot, in the steps of then; an error if it cannot."""
    stored = snapshot.meta
    _check_step(query, stored.get("step"))
    check_zones(query, stored["query"].get("assumed zones", {}))
    check_types(query, stored["types"])
    difference = same_or_reason(stored["query"], describe_query(query))
    if difference is not None:
        raise SnapshotError(f"restore: the snapshot is of another query; {difference}")
    check_windows(query, stored["windows"])
    same_outputs = stored["outputs"] == query_as_json(query)["outputs"]
    if snapshot.held.num_rows and not (same_outputs and snapshot.held.schema.equals(query.output_schema)):
        columns = ", ".join(f"{text} AS {name}" for name, text in stored["outputs"])
        former = "the former query" if query.parts else f"SELECT {columns}"
        raise SnapshotError(
            f"restore: the snapshot holds {snapshot.held.num_rows:,} results back, and they have other columns than "
            f"the query; go on with {former} until they are out, then change it"
        )
    return query if query.step is None else query.with_step(stored["step"])


def _check_step(query: Query, stored: int | None) -> None:
    """Refuse to go from a plain join to steps or back, and to other steps than those of a snapshot."""
    if stored is None and query.step is not None:
        raise SnapshotError(
            "restore: the snapshot is of a plain join, and the query has DISTINCT, groups, set operations or TUMBLE "
            "windows, for which rows may be gone; go on with the join, or start with a new engine"
        )
    if stored is None:
        return
    before = duration_text(stored)
    if query.step is None:
        raise SnapshotError(
            f"restore: the snapshot is of a query with steps of {before}, and the query is a plain join; go on with "
            "the former query, or start with a new engine"
        )
    if query.step_is_given and query.step != stored:
        raise SnapshotError(
            f"restore: the snapshot was taken in steps of {before} and step= says {duration_text(query.step)}; "
            f"give step={before!r}, or leave it out"
        )
    for relation in query.inputs:
        if not relation.window.fits_into(stored):
            raise SnapshotError(
                f"restore: the snapshot was taken in steps of {before}, which is not a multiple of "
                f"[{relation.window.text}] of {relation.alias!r}; keep the former window"
            )


def living_rows(window: BaseWindow, horizon: int) -> WindowRows:
    """The rows of a base window that have not ended before this time."""
    return window.held(kernels.alive(window.ends, window.head, window.tail, horizon))


def make_window_table(layout: WindowLayout, parts: Sequence[WindowRows], horizon: int, next_ordinal: int) -> pa.Table:
    """Those rows of an input that `read_stored_rows` takes back; its stream's next row has the place `next_ordinal`.

    Rows of a window that counts them are in the order of their stream, in which they enter.
    """
    rule, tables = expiry_of(layout.window, FIRST_ID), []
    for rows in parts:
        kept = rule.still_valid(rows.ends, rows.ordinals, horizon, next_ordinal)
        tables.append(_make_table(select_rows(rows, np.flatnonzero(kept))))
    table = pa.concat_tables(tables)
    if layout.tracks_arrivals and np.any(np.diff(_integers(table, "ordinal")) < 0):
        return table.sort_by("ordinal")
    return table


def cut_by_content(table: pa.Table) -> pa.Table:
    """The same rows in pieces that follow from their values alone, none much larger than one may be."""
    lengths = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        if can_be_large(column.type):
            lengths += np.concatenate([np.empty(0, np.int64), *(row_bytes(chunk) for chunk in column.chunks)])
    cuts = cut_by_size(lengths, sizes.PIECE_BYTES)
    pieces = [table.slice(cut.start, cut.stop - cut.start).combine_chunks() for cut in cuts]
    return pa.concat_tables(pieces) if pieces else table


def _make_table(rows: WindowRows) -> pa.Table:
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
    return [[relation.window.kind.value, relation.window.size] for relation in query.inputs]


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
    for relation, (kind, size) in zip(query.inputs, stored, strict=True):
        try:
            before = window_of(kind, size)
        except QueryError as problem:
            raise SnapshotError(
                f"restore: input {relation.alias!r}: {problem}; go on with the Midstream that wrote the snapshot"
            ) from None
        if not before.covers(relation.window):
            may_shrink = before.slides or before.counts_rows
            raise SnapshotError(
                f"restore: the window of {relation.alias!r} was [{before.text}] and would become "
                f"[{relation.window.text}]; rows that it needs are gone: keep the window"
                f"{' or make it smaller' if may_shrink else ''}"
            )


def read_stored_rows(reader: InputReader, alias: str, table: pa.Table, horizon: int, next_ordinal: int) -> WindowRows:
    """The rows of a snapshot's table that are alive in the input's window."""
    layout = reader.layout
    missing = [name for name, _ in layout.payload if _stored_name(name) not in table.column_names]
    if missing:
        raise SnapshotError(
            f"restore: the snapshot did not keep column {missing[0]!r} of {alias!r}; "
            "select only columns that the query read when the snapshot was made"
        )
    # Snapshots of earlier versions have static rows that start at the smallest int64, which is no time any more.
    starts, ends = layout.window.intervals(np.maximum(_integers(table, "start"), EARLIEST))
    ordinals = _integers(table, "ordinal") if layout.tracks_arrivals else None
    kept = expiry_of(layout.window, FIRST_ID).still_valid(ends, ordinals, horizon, next_ordinal)
    if not kept.all():
        table, starts, ends = table.filter(pa.array(kept)), starts[kept], ends[kept]
    rows = WindowRows(
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
    return np.array(make_contiguous(table.column(name)).to_numpy(zero_copy_only=False), np.int64)
