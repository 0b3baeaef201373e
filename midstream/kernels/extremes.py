"""The least of a group's values while results come and go: a tournament.

The values of a group are the leaves of a tree in an array: node i has the children 2i and 2i + 1, and the root is 1.
Every node names the place of the least live value below it, so a value that comes or goes changes at most the nodes on
its way to the root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.pairs import COUNT, NO_PAIR, PLACE

NO_PLACE = -1


class Contest(NamedTuple):
    """Pairs that are compared: where those of each group that has changes begin, their keys, and their ids."""

    begins: np.ndarray
    keys: np.ndarray
    ids: np.ndarray


@njit(inline="always")
def _winner(left, right, keys):
    """Of two places, either of which may be missing, the one with the lesser key."""
    is_left = right == NO_PLACE or (left != NO_PLACE and keys[left] <= keys[right])
    return left if is_left else right


@kernel
def find_least(groups, signs, ids, ends, pairs, contest, out):
    """Count the results of pairs; `out` gets the place of the group's least live pair after each end, or `NO_PLACE`."""
    begins, keys, contestants = contest
    tree = np.empty(16, np.int64)
    number, first, leaves, asked = -1, 0, 0, 0
    for change in range(groups.size):
        if change == 0 or groups[change] != groups[change - 1]:
            number += 1
            first = begins[number]
            leaves = begins[number + 1] - first
            if tree.size < 2 * max(leaves, 1):
                tree = np.empty(4 * leaves, np.int64)
            tree[1] = NO_PLACE
            for leaf in range(leaves):
                is_live = pairs[contestants[first + leaf], COUNT] > 0
                tree[leaves + leaf] = first + leaf if is_live else NO_PLACE
            for node in range(leaves - 1, 0, -1):
                tree[node] = _winner(tree[2 * node], tree[2 * node + 1], keys)
        sign, pair = signs[change], ids[change]
        if sign != 0 and pair != NO_PAIR:
            pairs[pair, COUNT] += sign
            if pairs[pair, COUNT] == (1 if sign > 0 else 0):
                place = pairs[pair, PLACE]
                node = leaves + place - first
                tree[node] = place if sign > 0 else NO_PLACE
                node >>= 1
                while node > 0:
                    winner = _winner(tree[2 * node], tree[2 * node + 1], keys)
                    if winner == tree[node]:
                        break
                    tree[node] = winner
                    node >>= 1
        if asked < ends.size and ends[asked] == change:
            out[asked] = tree[1]
            asked += 1
