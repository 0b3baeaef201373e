"""Codes: equal values have equal codes, doubles keep their order, bytes are read at any place."""

from __future__ import annotations

import itertools
import struct

import numpy as np
import pyarrow as pa
import pytest
from numba import njit

from midstream.kernels import hashing
from midstream.state.keys import codes_of, floats_of

from .twins import INT64S, Ints, ints, naive_bucket_hash, naive_mix

TINY = 5e-324
DOUBLES = [
    float("-inf"), -1.7976931348623157e308, -1e10, -1.5, -1.0, -2.2250738585072014e-308, -2.225e-308, -TINY,
    0.0,
    TINY, 2.225e-308, 2.2250738585072014e-308, 1.0, 1.0 + 2**-52, 1.5, 1e10, 1.7976931348623157e308, float("inf"),
]  # fmt: skip


@njit
def mix_all(values: Ints) -> Ints:
    out = np.empty(values.size, np.int64)
    for i in range(values.size):
        out[i] = hashing.mix(values[i])
    return out


def to_signed(value: int) -> int:
    value %= 2**64
    return value - 2**64 if value >= 2**63 else value


def naive_hash(data: bytes) -> int:
    state = len(data)
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        state = naive_mix(state ^ to_signed(int.from_bytes(data[at : at + 8], "little")))
    return naive_mix(state ^ int.from_bytes(data[whole:], "little"))


def test_mix_is_its_naive_twin_and_keeps_values_apart() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([ints(*INT64S), np.arange(-3000, 3000), rng.integers(-(2**63), 2**63 - 1, 2000)])
    codes = mix_all(values)
    assert codes.tolist() == [naive_mix(value) for value in values.tolist()]
    assert len(np.unique(codes)) == len(np.unique(values))
    assert len(np.unique(codes & 1023)) > 990, "small integers spread over the buckets"


@njit
def bucket_hashes(codes: Ints, seed: int) -> Ints:
    secrets = hashing.secrets_of(seed)
    out = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        out[i] = hashing.bucket_hash(codes[i], secrets)
    return out


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 123_456_789_012_345])
def test_the_bucket_hash_is_its_naive_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.concatenate([ints(*INT64S), np.arange(-300, 300), rng.integers(-(2**63), 2**63 - 1, 500)])
    found = bucket_hashes(codes, seed)
    assert found.tolist() == [naive_bucket_hash(code, seed) for code in codes.tolist()]
    assert found.min() >= 0 and found.max() < 2**32


def unmix_all(codes: list[int]) -> Ints:
    """The values whose `mix` these are: what somebody who knows it could choose as keys."""
    inverse = pow(0xD6E8FEB86659FD93, -1, 2**64)
    found = []
    for code in codes:
        bits = code % 2**64
        for _ in range(2):
            bits = (bits ^ bits >> 32) * inverse % 2**64
        found.append(to_signed(bits ^ bits >> 32))
    return np.array(found, np.int64)


def test_codes_of_every_kind_spread_over_the_buckets_under_every_seed() -> None:
    """Entries that share a bucket with a random one: about one and a half, of 1,024 entries in 2,048 buckets."""
    row = np.arange(1024)
    chosen = unmix_all((row << 20).tolist())
    assert (mix_all(chosen) & 2047 == 0).all()
    kinds = [row, row << 20, row << 32, row << 48, row * 1_000_000, row.astype(np.float64).view(np.int64), chosen]
    for seed in range(100):
        for codes in kinds:
            counts = np.bincount(bucket_hashes(codes, seed) & 2047)
            assert (counts**2).sum() / 1024 < 2, (seed, codes[:4])


def test_codes_made_to_meet_in_the_open_part_of_the_hash_meet_no_more_often_on_average() -> None:
    """Halves that are 0 or equal after the first step: single seeds are unlucky, all together are not."""
    inverse = pow(0xD6E8FEB86659FD93, -1, 2**64)
    row = range(1024)
    for halves in ([half << 32 for half in row], list(row), [half << 32 | half for half in row]):
        stepped_back = [half * inverse % 2**64 for half in halves]
        codes = np.array([to_signed(bits ^ bits >> 32) for bits in stepped_back], np.int64)
        lengths = [float((np.bincount(bucket_hashes(codes, seed) & 2047) ** 2).sum()) / 1024 for seed in range(1, 401)]
        assert np.mean(lengths) < 2 and np.median(lengths) < 2


@pytest.mark.parametrize("offset", range(9))
def test_bytes_of_every_length_at_every_place(offset: int) -> None:
    rng = np.random.default_rng(offset)
    strings = [bytes(rng.integers(0, 256, length, np.uint8)) for length in range(41)]
    data = np.frombuffer(b"\xff" * offset + b"".join(strings) + b"\xff" * 9, np.uint8)[:].copy()
    offsets = offset + np.cumsum([0, *map(len, strings)])
    codes = np.empty(41, np.int64)
    hashing.hash_bytes(offsets, data, codes)
    assert codes.tolist() == [naive_hash(string) for string in strings]


@pytest.mark.parametrize("length", range(1, 41))
def test_bytes_that_differ_anywhere_have_other_codes(length: int) -> None:
    """No proof that there are no collisions, but no byte of a string may be lost."""
    strings = {bytes(at == k for k in range(length)) for at in range(length)}
    strings |= {b"\0" * length, b"\xff" * length, b"a" * length, b"a" * (length - 1) + b"b"}
    codes = codes_of(pa.array(sorted(strings), pa.binary()))
    assert len(set(codes.tolist())) == len(strings)


def test_strings_that_differ_only_in_length_have_other_codes() -> None:
    for byte in (b"\0", b"a", b"\xff"):
        codes = codes_of(pa.array([byte * length for length in range(41)], pa.binary()))
        assert len(set(codes.tolist())) == 41


@pytest.mark.parametrize("type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_codes_do_not_depend_on_slices_or_offset_width(type: pa.DataType) -> None:
    texts = ["", "a", "ab", "abcdefgh", "abcdefghi", "ä" * 20, "", "a"]
    array = pa.array([text.encode() for text in texts], pa.binary()).cast(type)
    codes = codes_of(array).tolist()
    assert codes == [naive_hash(text.encode()) for text in texts]
    for begin in range(len(texts)):
        assert codes_of(array.slice(begin)).tolist() == codes[begin:]
    assert len(codes_of(array.slice(0, 0))) == 0


def test_pairs() -> None:
    rng = np.random.default_rng(4)
    words = np.concatenate([rng.integers(-3, 3, (40, 2)), rng.choice(ints(*INT64S), (40, 2))])
    codes = np.empty(80, np.int64)
    hashing.hash_pairs(words, codes)
    assert codes.tolist() == [naive_mix(naive_mix(high) ^ low) for high, low in words.tolist()]
    assert len(set(codes.tolist())) == len(set(map(tuple, words.tolist())))


def test_composite_codes_know_the_order_of_their_parts() -> None:
    values = np.array(list(itertools.product(range(-4, 5), repeat=2)), np.int64)
    codes = values[:, 0].copy()
    hashing.combine(codes, np.ascontiguousarray(values[:, 1]))
    assert codes.tolist() == [naive_mix(naive_mix(high) ^ low) for high, low in values.tolist()]
    assert len(set(codes.tolist())) == len(values)


def test_codes_of_doubles_are_in_their_order() -> None:
    codes = codes_of(pa.array([*DOUBLES, float("nan")], pa.float64())).tolist()
    assert codes == sorted(codes) and len(set(codes)) == len(codes)
    assert codes_of(pa.array([0.0, -0.0])).tolist() == [0, 0]
    rng = np.random.default_rng(5)
    values = rng.integers(-(2**63), 2**63 - 1, 3000).view(np.float64)
    values = np.sort(values[~np.isnan(values)])
    random_codes = codes_of(pa.array(values))
    assert (np.diff(random_codes) >= 0).all()
    assert (np.equal(values[1:], values[:-1]) == (np.diff(random_codes) == 0)).all()


def test_every_nan_has_one_code() -> None:
    patterns = [0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000000, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF]
    bits = np.array([to_signed(pattern) for pattern in patterns], np.int64)
    codes = np.empty(len(bits), np.int64)
    hashing.float_codes(bits, codes)
    assert len(set(codes.tolist())) == 1 and codes[0] > struct.unpack("<q", struct.pack("<d", float("inf")))[0]


def test_doubles_come_back_from_their_codes() -> None:
    back = floats_of(codes_of(pa.array(DOUBLES))).tolist()
    assert [struct.pack("<d", double) for double in back] == [struct.pack("<d", double) for double in DOUBLES]
    assert np.isnan(floats_of(codes_of(pa.array([float("nan")])))[0])
