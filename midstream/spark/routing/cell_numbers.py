"""Numbers for cells, chosen so that Spark puts cell j into partition ``j mod P`` of any P partitions.

``groupBy(cell)`` sends an int to partition ``pmod(hash(int), P)``, where `hash` is Murmur3 for 32 bits with seed 42.
On ints it is a bijection, made of steps that each can be undone. So every cell j gets the int whose hash is exactly j:
with as many partitions as cells every partition has one cell, and a cell's number does not depend on how many cells
there are.
"""

from __future__ import annotations

_SEED = 42
_WORD = 0xFFFFFFFF
_KEY_FIRST, _KEY_SECOND = 0xCC9E2D51, 0x1B873593
_ROUND_ADDED = 0xE6546B64
_FINAL_FIRST, _FINAL_SECOND = 0x85EBCA6B, 0xC2B2AE35
_INT_BYTES = 4


def spark_hash(value: int) -> int:
    """What Spark's ``hash`` gives for an int column.

    >>> spark_hash(1)
    -559580957
    """
    key = _rotate(value * _KEY_FIRST & _WORD, 15) * _KEY_SECOND & _WORD
    state = (_rotate(_SEED ^ key, 13) * 5 + _ROUND_ADDED) & _WORD
    state ^= _INT_BYTES
    state = (state ^ state >> 16) * _FINAL_FIRST & _WORD
    state = (state ^ state >> 13) * _FINAL_SECOND & _WORD
    return _signed(state ^ state >> 16)


def cell_number(cell: int) -> int:
    """The int that stands for a cell in Spark: its hash is the cell's number.

    >>> cell_number(0), spark_hash(cell_number(5))
    (-1693959553, 5)
    """
    if not 0 <= cell < 2**31:
        raise ValueError(f"cell {cell} is not between 0 and 2147483647")
    # The steps of `spark_hash` backwards. A shift by 13 is undone by shifts by 13 and 26, one by 16 by itself.
    state = (cell ^ cell >> 16) * pow(_FINAL_SECOND, -1, 2**32) & _WORD
    state = (state ^ state >> 13 ^ state >> 26) * pow(_FINAL_FIRST, -1, 2**32) & _WORD
    state = state ^ state >> 16 ^ _INT_BYTES
    state = _rotate((state - _ROUND_ADDED) * pow(5, -1, 2**32) & _WORD, 32 - 13)
    key = (state ^ _SEED) * pow(_KEY_SECOND, -1, 2**32) & _WORD
    return _signed(_rotate(key, 32 - 15) * pow(_KEY_FIRST, -1, 2**32) & _WORD)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word
