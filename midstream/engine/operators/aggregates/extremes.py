"""min and max: when changes are applied, the values of their groups are compared by keys, which are int64.

NaN is the largest number; text and binaries are ordered by their bytes. Numbers and times are their own keys. The key
of any other value is its place in the order of all those that are compared.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from midstream.engine.operators.aggregates.pairs import Pairs
from midstream.engine.operators.interner import are_hashed, coded_type
from midstream.engine.operators.states import KeptValues, StateValues
from midstream.kernels import extremes
from midstream.kernels import pairs as pair_kernels
from midstream.state.arrow import unscaled
from midstream.state.indexes import Ints
from midstream.state.keys import codes_of
from midstream.state.sizes import can_be_large


class Extreme(Pairs):
    """min or max."""

    def __init__(self, argument: pa.DataType, is_max: bool):
        super().__init__(argument)
        self._is_max = is_max

    def apply(self, groups: Ints, signs: Ints, words: Ints, ends: Ints) -> StateValues:
        ids = words[:, 0].copy()
        ids[signs == 0] = pair_kernels.NO_PAIR
        changed = groups[np.flatnonzero(np.diff(groups, prepend=-1))]
        begins, listed = self.list_pairs(changed)
        values = self.interner.take_wide(1, listed)
        keys = order_keys(values)
        contest = extremes.Contest(begins, ~keys if self._is_max else keys, listed)
        places = np.empty(len(ends), np.int64)
        extremes.find_least(groups, signs, ids, ends, self.rows.array, contest, places)
        self.release(signs, ids)
        has_none = places == extremes.NO_PLACE
        if can_be_large(values.type):
            chosen = np.append(listed, pair_kernels.NO_PAIR)[np.where(has_none, len(listed), places)]
            return KeptValues(self.interner.columns[1], chosen)
        return values.take(pa.array(places, mask=has_none))


def order_keys(values: pa.Array) -> Ints:
    """Integers in the order of values, none of which is null."""
    type = values.type
    if are_hashed(type) or pat.is_null(type):
        keys: Ints = np.empty(len(values), np.int64)
        sortable = unscaled(values) if pat.is_decimal(type) else values
        keys[pc.sort_indices(sortable).to_numpy()] = np.arange(len(values))
        return keys
    keys = codes_of(values.cast(coded_type(type)))
    return keys ^ np.iinfo(np.int64).min if pat.is_uint64(type) else keys
