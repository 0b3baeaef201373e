"""States: what groups are from one change to the next, and the values that each of them has.

Text that many states share, as their key or as the largest value of their group, is kept once. All states of a close
together may have more of it than one array holds, so values are taken by state, for as many states as one looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from midstream.state.columns import PayloadColumn
from midstream.state.indexes import Ints
from midstream.state.sizes import cut_into_pieces

#: Keys and aggregates of some states, as expressions read them.
Values = dict[tuple[int, str], pa.Array]


class KeptValues(NamedTuple):
    """Values that a column keeps, by the id that each state has there; a negative id stands for null."""

    column: PayloadColumn
    ids: Ints

    def to_array(self) -> pa.Array:
        """The values of all states, which together fit into one array."""
        is_null = self.ids < 0
        if not is_null.any():
            return self.column.take(self.ids.reshape(-1, 1), 0)
        there = np.flatnonzero(~is_null)
        if len(there) == 0:
            return pa.nulls(len(self.ids), self.column.type)
        places = np.zeros(len(self.ids), np.int64)
        places[there] = np.arange(len(there))
        return self.column.take(self.ids[there].reshape(-1, 1), 0).take(pa.array(places, mask=is_null))


#: The values of one key or aggregate by state: an array, or what keeps them, where they may be large.
StateValues: TypeAlias = pa.Array | KeptValues


def choose(values: StateValues, states: Ints | slice) -> StateValues:
    """The values of some states."""
    if isinstance(values, KeptValues):
        return KeptValues(values.column, values.ids[states])
    if isinstance(states, slice):
        return values.slice(states.start, states.stop - states.start)
    return values.take(pa.array(states))


class States(NamedTuple):
    """States by group and time: the group of each, its first and last moment, and its keys and aggregates."""

    groups: Ints
    firsts: Ints
    lasts: Ints
    values: dict[tuple[int, str], StateValues]

    def take(self, states: Ints | slice) -> Values:
        """The keys and aggregates of some states, each of which fits into one array."""
        chosen = {name: choose(values, states) for name, values in self.values.items()}
        return {
            name: values.to_array() if isinstance(values, KeptValues) else values for name, values in chosen.items()
        }

    def pieces(self) -> Iterator[slice]:
        """States that follow each other, as many as have values of moderate size."""
        kept = self._kept()
        ids = [np.maximum(values.ids, 0) for values in kept]
        yield from cut_into_pieces(
            [(values.column, place) for place, values in enumerate(kept)],
            np.stack(ids, axis=1) if ids else np.empty((len(self.groups), 0), np.int64),
        )

    @property
    def largest(self) -> int:
        """The bytes of the largest values of a state, or more."""
        return sum(values.column.largest for values in self._kept())

    def _kept(self) -> list[KeptValues]:
        """The values that may be large, and are there at all."""
        return [values for values in self.values.values() if isinstance(values, KeptValues) and values.column.largest]
