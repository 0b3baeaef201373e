"""Exact sums at their limits: totals of 192 bits, carries of floats, divisors beyond 32 bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.kernels import float_sums, sums, wide_integers

from .twins import Ints, ints

LARGEST_DOUBLE = float(np.finfo(np.float64).max)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TOTALS = st.one_of(st.integers(-(2**190), 2**190), st.integers(-(2**54), 2**54), st.integers(-(2**66), 2**66))
COUNTS = st.one_of(st.integers(1, 99), st.integers(2**31, 2**33), st.integers(1, 2**63 - 1))


def words_of(value: int, words: int) -> list[int]:
    """An integer as int64 words in two's complement, the lowest first."""
    bits = (value % 2 ** (64 * words)).to_bytes(8 * words, "little")
    return np.frombuffer(bits, np.int64).tolist()


def value_of(words: Ints) -> int:
    return int.from_bytes(np.ascontiguousarray(words).tobytes(), "little", signed=True)


def total_of(value: int, count: int) -> Ints:
    return np.array([[count, *words_of(value, 3)]], np.int64)


@settings(deadline=None)
@given(st.lists(st.integers(1 - 10**38, 10**38 - 1), min_size=1, max_size=9), TOTALS)
def test_integers_carry_through_all_words(values: list[int], before: int) -> None:
    totals = total_of(before, 2**62)
    words = np.array([words_of(value, 2) for value in values], np.int64)
    count = len(values)
    found = np.empty((count, sums.TOTAL_WORDS), np.int64)
    groups, ends = np.zeros(count, np.int64), np.arange(count)
    sums.add_integers(groups, np.ones(count, np.int64), words, ends, totals, found)
    assert [value_of(row[1:]) for row in found] == [before + sum(values[: end + 1]) for end in range(count)]
    assert totals[0, sums.COUNT] == 2**62 + count
    sums.add_integers(groups, -np.ones(count, np.int64), words[::-1].copy(), ends, totals, found)
    assert value_of(totals[0, 1:]) == before and totals[0, sums.COUNT] == 2**62


@settings(deadline=None)
@given(st.lists(st.tuples(TOTALS, st.integers(0, 2**40)), min_size=1, max_size=9), TOTALS)
def test_totals_of_totals(values: list[tuple[int, int]], before: int) -> None:
    totals = total_of(before, 2**62)
    words = np.concatenate([total_of(value, size) for value, size in values])
    count = len(values)
    found = np.empty((count, sums.TOTAL_WORDS), np.int64)
    groups, ends = np.zeros(count, np.int64), np.arange(count)
    sums.add_totals(groups, np.ones(count, np.int64), words, ends, totals, found)
    wanted = [before + sum(value for value, _ in values[: end + 1]) for end in range(count)]
    assert [value_of(row[1:]) for row in found] == [value_of(total_of(value, 0)[0, 1:]) for value in wanted]
    assert found[-1, sums.COUNT] == 2**62 + sum(size for _, size in values)
    sums.add_totals(groups, -np.ones(count, np.int64), words[::-1].copy(), ends, totals, found)
    assert value_of(totals[0, 1:]) == before and totals[0, sums.COUNT] == 2**62
    sums.add_totals(groups, np.zeros(count, np.int64), words, ends, totals, found)
    assert value_of(totals[0, 1:]) == before, "a sign of 0 changes nothing"


@settings(deadline=None)
@given(TOTALS, COUNTS)
def test_averages_are_those_of_python(total: int, count: int) -> None:
    found = np.empty(1)
    wide_integers.average_to_doubles(total_of(total, count), found)
    assert found[0] == total / count


def nearly_ties() -> list[tuple[int, int]]:
    """Totals and counts whose quotient is above a tie of two doubles by less than 2^-128."""
    found = []
    for tie in range(2**53 + 1, 2**53 + 401, 4):
        count = pow(-tie, -1, 2**66)
        if count < 2**63:
            found.append(((tie * count + 1) >> 66, count))
    assert found
    return found


def test_what_is_left_over_tells_on_which_side_of_a_tie_an_average_is() -> None:
    for total, count in nearly_ties():
        found = np.empty(1)
        wide_integers.average_to_doubles(total_of(total, count), found)
        assert found[0] == total / count != np.nextafter(total / count, 0)
        assert Fraction(total, count) - Fraction(total / count) < 0, "it is rounded up"
        state = new_sums([float(total)], 1)
        state.tallies[0, float_sums.VALUES] = count - 1
        assert add(state, [float(total)], 1, True, 1 << 30) == [total / count]


@settings(deadline=None)
@given(TOTALS, COUNTS, st.integers(0, 9), st.integers(1, 38))
def test_decimals_are_divided_as_by_hand(total: int, count: int, shift: int, precision: int) -> None:
    limit = np.array(words_of(10**precision, 2), np.int64)
    found, valid = np.empty((1, 2), np.int64), np.empty(1, np.bool_)
    wide_integers.divide_decimals(total_of(total, count), ints(count), 10**shift, limit, found, valid)
    magnitude = (2 * abs(total) * 10**shift + count) // (2 * count)
    assert valid[0] == (magnitude < 10**precision)
    if valid[0]:
        assert value_of(found[0]) == (magnitude if total >= 0 else -magnitude)


def new_sums(values: list[float], groups: int) -> float_sums.FloatSums:
    lowest, highest = float_sums.find_range(np.array(values).view(np.int64))
    chunks = np.zeros((groups, highest - lowest + 1), np.int64)
    return float_sums.FloatSums(chunks, np.zeros((groups, float_sums.TALLY_WORDS), np.int64), lowest)


def sum_of(state: float_sums.FloatSums, group: int) -> Fraction:
    digits = sum(value << 32 * (place + state.first) for place, value in enumerate(state.chunks[group].tolist()))
    return Fraction(digits, 2**1074)


def add(state: float_sums.FloatSums, values: list[float], sign: int, is_average: bool, carry_after: int) -> list[float]:
    """The sum or average of the group 0 after each value."""
    count = len(values)
    found = np.empty((count, 2), np.int64)
    float_sums.add_floats(
        np.zeros(count, np.int64),
        np.full(count, sign),
        np.array(values, np.float64).view(np.int64),
        np.arange(count),
        state,
        is_average,
        carry_after,
        found,
    )
    return np.ascontiguousarray(found[:, 0]).view(np.float64).tolist()


def nearest(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator + 0.0
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=12), st.booleans())
def test_floats_are_added_exactly_and_rounded_once(values: list[float], is_average: bool) -> None:
    state = new_sums(values, 1)
    found = add(state, values, 1, is_average, 1 << 30)
    exact = [sum(map(Fraction, values[: end + 1]), Fraction(0)) for end in range(len(values))]
    wanted = [nearest(total / (end + 1 if is_average else 1)) for end, total in enumerate(exact)]
    assert list(map(repr, found)) == list(map(repr, wanted))
    if state.chunks.size:
        assert sum_of(state, 0) == exact[-1]
    add(state, sorted(values), -1, is_average, 1 << 30)
    assert not state.chunks.any() and not state.tallies.any()


@pytest.mark.parametrize("is_negative", [False, True])
def test_chunks_hold_what_is_carried_late(is_negative: bool) -> None:
    """As after all but one of the changes that may come before a carry, each with the largest piece."""
    value = -LARGEST_DOUBLE if is_negative else LARGEST_DOUBLE
    state = new_sums([value], 1)
    most = float_sums.CARRY_AFTER
    state.chunks[:] = (-1 if is_negative else 1) * (most - 1) * (2**32 - 1)
    before = sum_of(state, 0)
    assert add(state, [value], 1, False, most) == [nearest(before + Fraction(value))]
    assert sum_of(state, 0) == before + Fraction(value)
    assert (state.chunks[0, :-1] >= 0).all() and (state.chunks[0, :-1] < 2**32).all()


def test_carries_come_before_a_chunk_overflows() -> None:
    """Chunks that have room for one more change and a carry, and several changes before a value is asked for."""
    state = new_sums([LARGEST_DOUBLE], 1)
    state.chunks[0, :-1] = 2**63 - 2**33
    before = sum_of(state, 0)
    count, found = 5, np.empty((1, 2), np.int64)
    words = np.full(count, LARGEST_DOUBLE).view(np.int64)
    groups, signs = np.zeros(count, np.int64), np.ones(count, np.int64)
    float_sums.add_floats(groups, signs, words, ints(count - 1), state, False, 1, found)
    assert sum_of(state, 0) == before + count * Fraction(LARGEST_DOUBLE)


def test_carries_come_after_so_many_changes() -> None:
    """Of many changes at one instant only the last one asks for the value."""
    values = [1e300, -1e-300, 3.5, -LARGEST_DOUBLE, 5e-324, 0.1] * 7
    for carry_after in (1, 2, 5, 1 << 30):
        state = new_sums(values, 2)
        found = np.empty((1, 2), np.int64)
        groups = np.repeat([0, 1], len(values))
        words = np.array(values + values).view(np.int64)
        ends = ints(len(words) - 1)
        float_sums.add_floats(groups, np.ones(len(words), np.int64), words, ends, state, False, carry_after, found)
        for group in (0, 1):
            assert sum_of(state, group) == sum(map(Fraction, values))
            assert (state.chunks[group, :-1] >= 0).all() and (state.chunks[group, :-1] < 2**32).all()
        assert found.tolist() == [[int(np.float64(nearest(sum(map(Fraction, values)))).view(np.int64)), len(values)]]


@settings(deadline=None)
@given(FINITE, st.integers(1, 2**62))
def test_averages_of_many_floats(value: float, count: int) -> None:
    """As if there were so many values already, all of them 0."""
    state = new_sums([value], 1)
    state.tallies[0, float_sums.VALUES] = count
    (found,) = add(state, [value], 1, True, 1 << 30)
    assert repr(found) == repr(nearest(Fraction(value) / (count + 1)))


def test_the_highest_chunk_takes_the_carries_of_all_values() -> None:
    """2^62 times the largest double."""
    state = new_sums([LARGEST_DOUBLE], 1)
    exact = Fraction(LARGEST_DOUBLE) * 2**62
    units = int(exact * 2**1074) >> 32 * state.first
    for place in range(state.chunks.shape[1] - 1):
        state.chunks[0, place] = units & 0xFFFFFFFF
        units >>= 32
    state.chunks[0, -1] = units
    state.tallies[0, float_sums.VALUES] = 2**62 - 1
    assert sum_of(state, 0) == exact
    (found,) = add(state, [LARGEST_DOUBLE], 1, True, 1 << 30)
    assert found == nearest((exact + Fraction(LARGEST_DOUBLE)) / 2**62)
    assert add(state, [LARGEST_DOUBLE], -1, False, 1 << 30) == [float("inf")]
    assert sum_of(state, 0) == exact


def test_the_range_of_chunks() -> None:
    bits = np.array([0.0, -0.0, np.inf, -np.inf, np.nan]).view(np.int64)
    assert float_sums.find_range(bits) == (0, -1), "nothing of these goes into a chunk"
    assert float_sums.find_range(np.array([5e-324]).view(np.int64)) == (0, 3)
    assert float_sums.find_range(np.array([LARGEST_DOUBLE, 5e-324]).view(np.int64)) == (0, 66)
