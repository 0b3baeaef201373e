"""Accepted rows of a stream -> what each of its inputs keeps of them.

Here filters and projections are applied, and keys become codes: what arrives at a base window is only what joins and
results need. A row whose key or band value is null can never join and goes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from midstream.cql.model import Column, Expr, Query, columns_of
from midstream.cql.plain import plain_type
from midstream.engine.expressions import Evaluator, compile_expression
from midstream.kernels.types import EARLIEST, SMALLEST
from midstream.state.arrow import validity_of
from midstream.state.indexes import Ints
from midstream.state.keys import find_coder, is_hashed
from midstream.state.window import PayloadName, WindowLayout, WindowRows


class Reading(NamedTuple):
    """What an input has read: which rows passed its filters, which have no null in a key, and which it has kept.

    None stands for all rows. `rows` are those that it has kept: all that can join, unless some were shed.
    """

    rows: WindowRows
    passed: NDArray[np.bool_] | None
    joinable: NDArray[np.bool_] | None
    kept: NDArray[np.bool_] | None

    def count_shed(self) -> int:
        """How many rows that could join were not kept."""
        if self.kept is None:
            return 0
        joinable = len(self.kept) if self.joinable is None else int(np.count_nonzero(self.joinable))
        return joinable - len(self.rows)

    def find_shed(self) -> NDArray[np.bool_]:
        """Which rows these are; only if there are any."""
        assert self.kept is not None
        return ~self.kept if self.joinable is None else self.joinable & ~self.kept


class _Coded(NamedTuple):
    """A key or the side of a band: the expression, made ready to run, and what gives its values their codes."""

    compute: Evaluator
    code: Callable[[pa.Array | pa.ChunkedArray], Ints]

    @classmethod
    def of(cls, expression: Expr) -> _Coded:
        return cls(compile_expression(expression), find_coder(expression.type))


class InputReader:
    """Reads the rows of one input."""

    def __init__(self, query: Query, number: int):
        self._input = query.inputs[number]
        schema = query.schemas[self._input.source]
        self._filters = [compile_expression(condition) for condition in self._input.filters]
        keys = {
            at: key_class.by_input[number]
            for at, key_class in enumerate(query.key_classes)
            if number in key_class.inputs
        }
        self._keys = {at: _Coded.of(expression) for at, expression in keys.items()}
        sides = {
            at: band.left if band.left_input == number else band.right
            for at, band in enumerate(query.bands)
            if number in (band.left_input, band.right_input)
        }
        self._bands = {at: _Coded.of(side) for at, side in sides.items()}
        payload: dict[PayloadName, pa.DataType] = {
            name: plain_type(schema.field(name).type) for name in self._input.columns
        }
        verified: dict[int, PayloadName] = {}
        self._computed: list[int] = []
        for at, expression in keys.items():
            if not is_hashed(expression.type):
                continue
            if isinstance(expression, Column) and payload.get(expression.name) == expression.type:
                verified[at] = expression.name
            else:
                verified[at] = at
                self._computed.append(at)
                payload[at] = expression.type
        #: What the input's base window keeps of each row.
        self.layout = WindowLayout(
            self._input.window,
            tuple(keys),
            tuple(self._bands),
            tuple(payload.items()),
            query.tracks_arrivals,
            verified,
        )
        read = [*self._input.filters, *keys.values(), *sides.values()]
        names = {column.name for expression in read for column in columns_of(expression)}
        names.update(self._input.columns)
        #: The columns of the source that this input reads.
        self.needed = tuple(name for name in schema.names if name in names)
        self._places = [((number, name), name) for name in self.needed]
        self._payload = [((number, name), name) for name in self._input.columns]

    def read(
        self,
        columns: Mapping[str, pa.Array],
        times: Ints | None,
        numbers: Numbers | None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Reading:
        """What the input keeps of accepted rows. `times` is None for a static table.

        `numbers` are those of all the rows, and needed only where the layout tracks arrivals. `allowed` are the rows
        that are not shed (None: all).
        """
        length = len(next(iter(columns.values()))) if times is None else len(times)
        named = {place: columns[name] for place, name in self._places}
        passed = self._passed(named, length) if self._filters else None
        if passed is not None:
            chosen = pa.array(passed)
            named = {place: values.filter(chosen) for place, values in named.items()}
            length = int(np.count_nonzero(passed))
        values = {at: key.compute.chunks(named, length) for at, key in self._keys.items()}
        bands = {at: side.compute.chunks(named, length) for at, side in self._bands.items()}
        valid = _all_valid([*values.values(), *bands.values()])
        stays = _all_set(valid, allowed if allowed is None or passed is None else allowed[passed])
        if stays is not None:
            chosen = pa.array(stays)
            named = {place: array.filter(chosen) for place, array in named.items()}
            values = {at: array.filter(chosen) for at, array in values.items()}
            bands = {at: array.filter(chosen) for at, array in bands.items()}
            length = int(np.count_nonzero(stays))
        kept = _chosen_of(passed, stays)
        payload: dict[PayloadName, pa.Array | pa.ChunkedArray] = {at: values[at] for at in self._computed}
        for place, name in self._payload:
            payload[name] = named[place]
        if times is None:
            times = np.full(length, EARLIEST)
        elif kept is not None:
            times = times[kept]
        starts, ends = self._input.window.intervals(times)
        arrived = WindowRows(
            starts,
            ends,
            {at: self._keys[at].code(array) for at, array in values.items()},
            {at: self._bands[at].code(array) for at, array in bands.items()},
            payload,
        )
        if self.layout.tracks_arrivals:
            assert numbers is not None
            numbers.give(arrived, kept)
        return Reading(arrived, passed, _chosen_of(passed, valid), kept)

    def find_key_codes(self, columns: Mapping[str, pa.Array], length: int) -> Iterator[Ints]:
        """The codes of each key of so many rows, filters or not; a null has the code 0."""
        named = {place: columns[name] for place, name in self._places}
        for key in self._keys.values():
            values = key.compute.chunks(named, length)
            codes, valid = key.code(values), _all_valid([values])
            yield codes.copy() if valid is None else np.where(valid, codes, 0)

    def _passed(self, named: Mapping[tuple[int, str], pa.Array], length: int) -> NDArray[np.bool_] | None:
        passed: NDArray[np.bool_] | None = None
        for condition in self._filters:
            mask = condition.mask(named, length)
            passed = mask.copy() if passed is None else passed & mask
        return None if passed is None or bool(passed.all()) else passed


class Numbers:
    """Arrival numbers of a stream's accepted rows, and the first one's place in the stream, for ROWS windows."""

    def __init__(self, arrivals: Ints, first_ordinal: int):
        self._arrivals = arrivals
        self._first_ordinal = first_ordinal

    @classmethod
    def of_table(cls, length: int) -> Numbers:
        """Those of a static table, whose rows were there before anything arrived."""
        return cls(np.full(length, SMALLEST), 0)

    def give(self, rows: WindowRows, kept: NDArray[np.bool_] | None) -> None:
        """Number the rows that were kept."""
        ordinals = np.arange(self._first_ordinal, self._first_ordinal + len(self._arrivals))
        rows.arrivals = self._arrivals if kept is None else self._arrivals[kept]
        rows.ordinals = ordinals if kept is None else ordinals[kept]
        rows.stream_arrivals = self._arrivals
        rows.first_ordinal = self._first_ordinal


def _all_set(first: NDArray[np.bool_] | None, second: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Where two masks are set; None is a mask with all rows."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _chosen_of(outer: NDArray[np.bool_] | None, inner: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Where a mask is set, and of those rows another one; None is a mask with all rows."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    chosen = outer.copy()
    chosen[outer] = inner
    return chosen


def _all_valid(arrays: list[pa.Array | pa.ChunkedArray]) -> NDArray[np.bool_] | None:
    """Where all arrays have values, or None if everywhere."""
    valid: NDArray[np.bool_] | None = None
    for array in arrays:
        own = validity_of(array)
        if own is not None:
            valid = own.copy() if valid is None else valid & own
    return None if valid is None or bool(valid.all()) else valid
