"""How many states are complete right after a plan changes, as analysed for JISC (Aly, Aref, Ouzzani, Mahmoud, 2014).

A left-deep plan of n joins has positions 1 to n: the stream that enters at the k-th join from below is at position k,
and both streams of the lowest join are at position 1. Two streams, at positions I < J, exchange their places. The state
of join k holds the streams at positions 1 to k, so exactly the states from I to J - 1 are new, and

    C_n = n - (J - I)

are complete. The root counts, though it keeps no state in Midstream: its inputs are always the same, so it is always
among the complete ones.

Close positions change more often: the pair (i, j) has a probability in proportion to 1 / (j - i). There are n - d pairs
at distance d, so with H the n-th harmonic number the weights sum to

    sum of (n - d) / d  =  n (H - 1)

and the distance D = J - I has the moments

    E[D]   =  sum of (n - d)    / (n (H - 1))  =  (n - 1)  / (2 (H - 1))
    E[D²]  =  sum of d (n - d)  / (n (H - 1))  =  (n² - 1) / (6 (H - 1))

from which mean and variance of C_n follow; both agree with the paper's Proposition 1. Since H grows as ln n, the share
of complete states goes to 1, but slowly: 0.82 at 20 joins, 0.90 at 200, 0.93 at 2,000.

The model gives position 1 the weight of one stream although two are there, and leaves out their exchange with each
other, which changes no state. Both make the true share of complete states of a random exchange a little different.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from midstream.errors import EngineError


def expected_complete_states(joins: int) -> Fraction:
    """E[C_n]: the mean number of complete states, ``(2 n H - 3 n + 1) / (2 H - 2)``.

    >>> expected_complete_states(2), expected_complete_states(3)
    (Fraction(1, 1), Fraction(9, 5))
    >>> round(float(expected_complete_states(20)), 2)
    16.34
    """
    spread = sum_harmonic(_check_joins(joins)) - 1
    return joins - Fraction(joins - 1) / (2 * spread)


def variance_of_complete_states(joins: int) -> Fraction:
    """Var[C_n], ``(2 n² H - 5 n² + 6 n - 2 H - 1) / (12 (H - 1)²)``.

    >>> variance_of_complete_states(2), variance_of_complete_states(3)
    (Fraction(0, 1), Fraction(4, 25))
    """
    spread = sum_harmonic(_check_joins(joins)) - 1
    return Fraction(joins**2 - 1) / (6 * spread) - (Fraction(joins - 1) / (2 * spread)) ** 2


def probability_of_distance(joins: int, distance: int) -> Fraction:
    """The probability that the two positions are so far apart, which is the number of incomplete states.

    >>> [str(probability_of_distance(3, distance)) for distance in (1, 2)]
    ['4/5', '1/5']
    """
    if not 1 <= distance < _check_joins(joins):
        return Fraction(0)
    return Fraction(joins - distance, distance) / (joins * (sum_harmonic(joins) - 1))


@lru_cache(maxsize=256)
def sum_harmonic(number: int) -> Fraction:
    """1 + 1/2 + ... + 1/n.

    >>> sum_harmonic(4)
    Fraction(25, 12)
    """
    return _sum_reciprocals(1, number + 1)


def _sum_reciprocals(begin: int, end: int) -> Fraction:
    """The sum of 1/r for begin <= r < end, by halves, so that the fractions stay short for as long as possible."""
    if end - begin < 1:
        return Fraction(0)
    if end - begin == 1:
        return Fraction(1, begin)
    middle = (begin + end) // 2
    return _sum_reciprocals(begin, middle) + _sum_reciprocals(middle, end)


def _check_joins(joins: int) -> int:
    if joins < 2:
        raise EngineError(f"completeness: {joins} join(s); an exchange that can change a state needs at least 2")
    return joins
