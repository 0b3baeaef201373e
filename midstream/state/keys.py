"""Key and band values -> int64 codes.

Integers, times, booleans and doubles have exact codes: equal codes mean equal values. Strings, binaries and decimals
are hashed, and a match of their codes is verified on the values.
"""

from __future__ import annotations

from collections.abc import Callable

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
    return find_coder(values.type)(values)


def find_coder(type: pa.DataType) -> Callable[[pa.Array | pa.ChunkedArray], Ints]:
    """What gives values of a type their codes."""
    code = _find_array_coder(type)

    def codes_of_all(values: pa.Array | pa.ChunkedArray) -> Ints:
        if isinstance(values, pa.ChunkedArray):
            return np.concatenate([code(chunk) for chunk in values.chunks] or [np.empty(0, np.int64)])
        return code(values)

    return codes_of_all


def _find_array_coder(type: pa.DataType) -> Callable[[pa.Array], Ints]:
    if pat.is_decimal(type):
        return _hash_decimals
    if is_hashed(type):
        return _hash_bytes
    if pat.is_floating(type):
        return _code_floats
    if pat.is_boolean(type):
        return _code_booleans
    return _code_narrow_integers if type.bit_width == 32 else _code_integers


def _hash_decimals(values: pa.Array) -> Ints:
    codes = np.empty(len(values), np.int64)
    hashing.hash_pairs(np.ascontiguousarray(pair_words(values)), codes)
    return codes


def _hash_bytes(values: pa.Array) -> Ints:
    codes = np.empty(len(values), np.int64)
    hashing.hash_bytes(*byte_offsets(values), codes)
    return codes


def _code_floats(values: pa.Array) -> Ints:
    codes = np.empty(len(values), np.int64)
    hashing.float_codes(values_of(values, "<i8"), codes)
    return codes


def _code_booleans(values: pa.Array) -> Ints:
    return values_of(values.cast(pa.uint8()), "|u1").astype(np.int64)


def _code_narrow_integers(values: pa.Array) -> Ints:
    """Of 32 bits, as dates and some times are."""
    return values_of(values, "<i4").astype(np.int64)


def _code_integers(values: pa.Array) -> Ints:
    return values_of(values, "<i8")


def floats_of(codes: Ints) -> NDArray[np.float64]:
    """The doubles whose codes these are."""
    smallest = np.int64(np.iinfo(np.int64).min)
    return np.where(codes < 0, -codes | smallest, codes).view(np.float64)
