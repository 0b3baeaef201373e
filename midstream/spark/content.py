"""Rows -> a hash of what they hold, by which they are spread.

It never depends on where a row stands: a batch that is run again, cut in another way or not, sends a row to the same
cells. Other than the codes of keys it is free to change between versions, because a spread row meets all its partners
wherever it goes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from midstream.engine.keys import codes_of, is_hashed
from midstream.kernels import hashing
from midstream.state.arrow import validity_of
from midstream.state.indexes import Ints


def row_codes(columns: Iterable[pa.Array], length: int) -> Ints:
    """A code for each row of columns of this length.

    >>> one, other, again = row_codes([pa.array([1, 2, 1]), pa.array(["a", None, "a"])], 3).tolist()
    >>> one == again, one == other
    (True, False)
    """
    codes = np.zeros(length, np.int64)
    for values in columns:
        more = _codes(values)
        if more is not None:
            hashing.combine(codes, more)
    return codes


def _codes(values: pa.Array) -> Ints | None:
    """Codes that depend on the values alone, nulls included; None for types that have none (lists, structs)."""
    type = values.type
    if pat.is_integer(type) and type.bit_width < 64:
        values = values.cast(pa.int64())
    elif pat.is_floating(type):
        values = values.cast(pa.float64())
    elif not _has_codes(type):
        return None
    codes = codes_of(values)
    valid = validity_of(values)
    return codes if valid is None else np.where(valid, codes, 0)


def _has_codes(type: pa.DataType) -> bool:
    if pat.is_decimal(type):
        return bool(pat.is_decimal128(type))
    if pat.is_temporal(type):
        return type.bit_width in (32, 64)
    return bool(is_hashed(type) or pat.is_boolean(type) or pat.is_integer(type))
