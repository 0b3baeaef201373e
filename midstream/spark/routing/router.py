"""Tables of one source -> their rows by lane and cell: the live part of a `Routing`.

A row goes to its *home* cell, whose coordinate is 0 in all dimensions in which the row is copied, and to the cells that
differ from it in these dimensions only. Rows are sorted by home once, and the copies are slices of the same arrays::

    rows -> filters, null keys -> codes -> home cells -> order by home -> one take -> slices for homes and copies

Rows with hot keys are treated in the same way in groups of their own, because they are copied in other dimensions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from midstream.cql.model import columns_of
from midstream.cql.names import find_spellings, list_names
from midstream.engine.expressions import compile_expression
from midstream.engine.input.binding import TableBinding
from midstream.engine.input.computed_text import find_computed_text
from midstream.engine.input.event_time import judge
from midstream.errors import InputError
from midstream.kernels import partition
from midstream.kernels.types import SMALLEST
from midstream.spark.routing.content import row_codes
from midstream.spark.routing.lanes import Step
from midstream.spark.routing.rules import Routing
from midstream.state.arrow import validity_of, values_of
from midstream.state.indexes import Ints
from midstream.state.keys import codes_of

Mask = NDArray[np.bool_]
Columns = Mapping[str, pa.Array]

# Seeds keep the dimensions apart. Those of keys are part of a checkpoint's routing (`routing.HASH_FORMAT`); where rows
# are spread their place is free, as long as the same row goes to the same cells when a batch is run again.
_KEY_SEED, _ROW_SEED = 0x51ED270B7A103D05, 0x2545F4914F6CDD1D


@dataclass(frozen=True)
class Part:
    """The rows of lane `routing.lanes[lane]` for one cell (0, 1, ...); the first `home` of them are at home there."""

    lane: int
    cell: int
    rows: pa.Table
    home: int


@dataclass(frozen=True)
class Split:
    """A table taken apart, without parts that have no rows.

    Every row of the table is either home in exactly one part, or dropped (by a filter or a null key, in all lanes), or
    refused: `refused` counts such rows by the reason, a null event time or one out of range. `newest` is the latest
    event time of all but these, in microseconds; a filter does not hide it, because Spark's watermark goes by it too.
    """

    parts: tuple[Part, ...]
    rows: int
    dropped: int
    refused: dict[str, int]
    newest: int | None = None

    @property
    def rejected(self) -> int:
        """The number of rows without a usable event time."""
        return sum(self.refused.values())


class Router:
    """Splits the tables of one source, a stream or a static table of the query.

    >>> import midstream as ms
    >>> from midstream.spark.routing.rules import routing_for
    >>> schema = pa.schema({"id": pa.int64(), "ts": pa.int64()})
    >>> text = "SELECT a.id FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.id = b.id"
    >>> query = ms.query(text, schemas={"a": schema, "b": schema}, event_time="ts")
    >>> split = Router(routing_for(query, 2), "a").split(pa.table({"id": [1, 2, 3, None], "ts": [5, 6, 7, 8]}))
    >>> [(part.cell, part.rows.column("id").to_pylist(), part.home) for part in split.parts], split.dropped
    ([(0, [3], 1), (1, [1, 2], 2)], 1)
    """

    def __init__(self, routing: Routing, source: str):
        query = routing.query
        found = find_spellings(source, query.schemas)
        if not found:
            raise InputError(f"routing: unknown stream {source!r}; streams: {list_names(query.schemas)}")
        self._lanes = [_LaneRouter(routing, at) for at, lane in enumerate(routing.lanes) if lane.source == found[0]]
        self._event_time = self._lanes[0].event_time
        needed = dict.fromkeys(name for lane in self._lanes for name in lane.needed)
        zones = query.assumed_zones.get(found[0])
        texts = find_computed_text(query).get(found[0], ())
        self._binding = TableBinding(found[0], query.schemas[found[0]], tuple(needed), zones, texts)

    def split(self, table: pa.Table | pa.RecordBatch) -> Split:
        """The rows of a table by lane and cell."""
        columns, refused = self._accepted(self._binding.columns(table))
        length = table.num_rows - sum(refused.values())
        parts: list[Part] = []
        homed = np.zeros(length, np.bool_)
        for place, lane in enumerate(self._lanes):
            rows = lane.rows(columns, length, homed if place > 0 else None)
            parts += lane.parts(columns, rows)
            homed |= _mask(rows, length)
        dropped = length - int(np.count_nonzero(homed))
        return Split(tuple(parts), table.num_rows, dropped, refused, self._newest(columns) if length else None)

    def _newest(self, columns: dict[str, pa.Array]) -> int | None:
        if self._event_time is None:
            return None
        return int(values_of(columns[self._event_time], "<i8").max())

    def _accepted(self, columns: dict[str, pa.Array]) -> tuple[dict[str, pa.Array], dict[str, int]]:
        """The rows that have an event time, as an engine would judge them without a watermark."""
        if self._event_time is None:
            return columns, {}
        judged = judge(columns[self._event_time], int(SMALLEST))
        if judged.taken is None:
            return columns, {}
        chosen = pa.array(judged.taken)
        refused = {reason: int(np.count_nonzero(rows)) for reason, rows in judged.refused.items()}
        return {name: values.filter(chosen) for name, values in columns.items()}, refused


@dataclass(frozen=True)
class _Rows:
    """Rows that travel: their places (None: all), codes by step, and marks.

    Rows with equal marks are sent in the same way. Bit 0 is set for rows that are at home in another lane, bit i + 1
    for those whose key of step i is hot. None: no row is marked.
    """

    places: Ints | None
    length: int
    codes: dict[int, Ints]
    marks: Ints | None


class _LaneRouter:
    def __init__(self, routing: Routing, at: int):
        self._at = at
        self._lane = lane = routing.lanes[at]
        self._cells = routing.cells
        self._number = lane.inputs[0]
        self._schema = routing.cell_query.schemas[lane.name]
        self._filters = [compile_expression(expr) for expr in lane.filters]
        self._keys = {
            place: compile_expression(step.key) for place, step in enumerate(lane.steps) if step.key is not None
        }
        self._hot = {place: np.array(step.hot, np.int64) for place, step in enumerate(lane.steps) if step.hot}
        self.event_time = lane.event_time
        read = [*lane.filters, *(step.key for step in lane.steps if step.key is not None)]
        #: The columns of the source that are read here.
        self.needed = tuple(
            dict.fromkeys([*lane.columns, *(column.name for expr in read for column in columns_of(expr))])
        )

    # Which rows travel -----------------------------------------------------------------------------------------------

    def rows(self, columns: Columns, length: int, homed: Mask | None) -> _Rows:
        """The rows that filters and keys leave; `homed` tells which have their home in another lane."""
        places = self._kept(columns, length)
        if places is not None:
            length = len(places)
        keys = {}
        for place, evaluator in self._keys.items():
            read = {
                (self._number, column.name): _take(columns[column.name], places)
                for column in columns_of(evaluator.expr)
            }
            keys[place] = evaluator.chunks(read, length)
        joinable = _where_all_valid(keys.values())
        if joinable is not None:
            chosen = pa.array(joinable)
            keys = {place: values.filter(chosen) for place, values in keys.items()}
            places = np.flatnonzero(joinable) if places is None else places[joinable]
            length = len(places)
        codes = {place: codes_of(values) for place, values in keys.items()}
        return _Rows(places, length, codes, self._marks(places, length, codes, homed))

    def _kept(self, columns: Columns, length: int) -> Ints | None:
        kept = _where_all_valid([columns[name] for name in self._lane.keys])
        named = {(self._number, name): values for name, values in columns.items()}
        for evaluator in self._filters:
            mask = evaluator.mask(named, length)
            kept = mask if kept is None else kept & mask
        return None if kept is None or bool(kept.all()) else np.flatnonzero(kept)

    def _marks(self, places: Ints | None, length: int, codes: dict[int, Ints], homed: Mask | None) -> Ints | None:
        if homed is None and not self._hot:
            return None
        marks = np.zeros(length, np.int64)
        if homed is not None:
            marks |= homed if places is None else homed[places]
        for place, wanted in self._hot.items():
            partition.mark(codes[place], wanted, 2 << place, marks)
        return marks if marks.any() else None

    # Where they go ---------------------------------------------------------------------------------------------------

    def parts(self, columns: Columns, rows: _Rows) -> list[Part]:
        """The rows by cell, home rows first."""
        homes: dict[int, list[pa.RecordBatch]] = {}
        copies: dict[int, list[pa.RecordBatch]] = {}
        for marks, group in _groups(rows):
            steps = enumerate(self._lane.steps)
            copied = [_strides(step) for place, step in steps if _is_copied(step, _is_hot(marks, place))]
            offsets = [sum(strides) for strides in itertools.product(*copied)]
            for cell, batch in self._by_home(columns, group, marks):
                for offset in offsets:
                    is_home = offset == 0 and not marks & 1
                    (homes if is_home else copies).setdefault(cell + offset, []).append(batch)
        return [
            Part(self._at, cell, pa.Table.from_batches(own + more), sum(home.num_rows for home in own))
            for cell in sorted({*homes, *copies})
            for own, more in [(homes.get(cell, []), copies.get(cell, []))]
        ]

    def _by_home(self, columns: Columns, rows: _Rows, marks: int) -> list[tuple[int, pa.RecordBatch]]:
        """Rows with equal marks by their home cells, as slices of one batch."""
        if rows.length == 0:
            return []
        cells = self._homes(columns, rows, marks)
        if cells is None:
            return [(0, self._batch(columns, rows.places))]
        order, begins = partition.group(cells, self._cells)
        batch = self._batch(columns, order if rows.places is None else rows.places[order])
        bounds = itertools.pairwise(begins.tolist())
        return [(cell, batch.slice(begin, end - begin)) for cell, (begin, end) in enumerate(bounds) if end > begin]

    def _homes(self, columns: Columns, rows: _Rows, marks: int) -> Ints | None:
        """The home cells; None if all rows are copied in every dimension, so that cell 0 is their home."""
        cells: Ints | None = None
        row_codes: Ints | None = None
        for place, step in enumerate(self._lane.steps):
            is_hot = _is_hot(marks, place)
            if _is_copied(step, is_hot):
                continue
            cells = np.zeros(rows.length, np.int64) if cells is None else cells
            if step.key is not None and not is_hot:
                codes, seed = rows.codes[place], _KEY_SEED
            else:
                row_codes = self._row_codes(columns, rows) if row_codes is None else row_codes
                codes, seed = row_codes, _ROW_SEED
            partition.add_coordinates(codes, np.int64(seed ^ step.dimension), step.share, step.stride, cells)
        return cells

    def _row_codes(self, columns: Columns, rows: _Rows) -> Ints:
        return row_codes((_take(columns[name], rows.places) for name in self._lane.columns), rows.length)

    def _batch(self, columns: Columns, places: Ints | None) -> pa.RecordBatch:
        arrays = [_take(columns[name], places) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _is_hot(marks: int, place: int) -> bool:
    return bool(marks & 2 << place)


def _is_copied(step: Step, is_hot: bool) -> bool:
    return not step.spreads and (step.key is None or is_hot)


def _strides(step: Step) -> range:
    return range(0, step.share * step.stride, step.stride)


def _groups(rows: _Rows) -> list[tuple[int, _Rows]]:
    """The rows in groups of equal marks."""
    if rows.marks is None:
        return [(0, rows)]
    groups = []
    order, begins = partition.group(rows.marks, int(rows.marks.max()) + 1)
    for marks, (begin, end) in enumerate(itertools.pairwise(begins.tolist())):
        if begin < end:
            chosen = order[begin:end]
            codes = {place: codes[chosen] for place, codes in rows.codes.items()}
            places = chosen if rows.places is None else rows.places[chosen]
            groups.append((marks, _Rows(places, end - begin, codes, None)))
    return groups


def _mask(rows: _Rows, length: int) -> Mask:
    mask = np.full(length, rows.places is None)
    if rows.places is not None:
        mask[rows.places] = True
    return mask


def _where_all_valid(arrays: Iterable[pa.Array | pa.ChunkedArray]) -> Mask | None:
    """Where all arrays have values, or None if everywhere."""
    valid: Mask | None = None
    for array in arrays:
        own = validity_of(array)
        if own is not None:
            valid = own if valid is None else valid & own
    return valid


def _take(values: pa.Array, places: Ints | None) -> pa.Array:
    return values if places is None else pc.take(values, pa.array(places), boundscheck=False)
