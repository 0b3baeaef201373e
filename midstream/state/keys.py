"""Key and band values -> int64 codes.

Integers, times, booleans and doubles have exact codes: equal codes mean equal values. Strings, binaries and decimals
are hashed, and a match of their codes is verified on the values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from midstream.kernels import hashing
from midstream.state.arrow import byte_offsets, values_of
from midstream.state.columns import pair_words
from midstream.state.indexes import Ints


def is_hashed(type: pa.DataType) -> bool:
    """Whether codes of this type have to be verified on the values."""
    return bool(
        pat.is_decimal(type)
        or pat.is_string(type)
        or pat.is_large_string(type)
        or pat.is_binary(type)
        or pat.is_large_binary(type)
    )


def codes_of(values: pa.Array | pa.ChunkedArray) -> Ints:
    """The codes of key values; what stands at a null means nothing."""
    if isinstance(values, pa.ChunkedArray):
        return np.concatenate([codes_of(chunk) for chunk in values.chunks] or [np.empty(0, np.int64)])
    type = values.type
    if pat.is_decimal(type):
        codes = np.empty(len(values), np.int64)
        hashing.hash_pairs(np.ascontiguousarray(pair_words(values)), codes)
        return codes
    if is_hashed(type):
        codes = np.empty(len(values), np.int64)
        hashing.hash_bytes(*byte_offsets(values), codes)
        return codes
    if pat.is_floating(type):
        codes = np.empty(len(values), np.int64)
        hashing.float_codes(values_of(values, "<i8"), codes)
        return codes
    if pat.is_boolean(type):
        return values_of(values.cast(pa.uint8()), "|u1").astype(np.int64)
    if type.bit_width == 32:
        return values_of(values, "<i4").astype(np.int64)
    return values_of(values, "<i8")


def floats_of(codes: Ints) -> NDArray[np.float64]:
    """The doubles whose codes these are."""
    smallest = np.int64(np.iinfo(np.int64).min)
    return np.where(codes < 0, -codes | smallest, codes).view(np.float64)
