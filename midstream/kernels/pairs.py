"""Pairs of a group and a value of it, by id: how often each is there, and which ones a group has.

A pair is *live* while its count is above 0, and *held* while a stored record refers to it: from the time that its
result is known, which may be before it begins, until it has gone. The pairs of a group are a chain, the newest first.
"""

from __future__ import annotations

from midstream.kernels.caching import kernel

# The words of a pair: how many results have it now, how many records refer to it, the next older pair of its group,
# and its place among the pairs that are compared in a step.
COUNT, RECORDS, OLDER, PLACE = 0, 1, 2, 3
PAIR_WORDS = 4
NO_PAIR = -1
# Links are ids and 1 more, so that rows of zeros are in no chain and groups of zeros have none.
_NOT_LINKED, _LAST = 0, -1


@kernel
def hold(groups, ids, pairs, newest):
    """Count a record for every id, and link new pairs to their groups; how many pairs are held that were not before."""
    more = 0
    for row in range(ids.size):
        pair = ids[row]
        if pair == NO_PAIR:
            continue
        if pairs[pair, OLDER] == _NOT_LINKED:
            group = groups[row]
            pairs[pair, OLDER] = _LAST if newest[group] == 0 else newest[group]
            newest[group] = pair + 1
        more += pairs[pair, RECORDS] == 0
        pairs[pair, RECORDS] += 1
    return more


@kernel
def release(signs, ids, pairs):
    """Discount the records of results that have gone; how many pairs are no longer held."""
    fewer = 0
    for change in range(ids.size):
        if signs[change] < 0 and ids[change] != NO_PAIR:
            pairs[ids[change], RECORDS] -= 1
            fewer += pairs[ids[change], RECORDS] == 0
    return fewer


@kernel
def count_distinct(groups, signs, ids, ends, pairs, distinct, out):
    """Count the results of pairs and the live pairs of groups; `out` gets the latter after each end."""
    asked = 0
    for change in range(groups.size):
        group, sign, pair = groups[change], signs[change], ids[change]
        if sign != 0 and pair != NO_PAIR:
            pairs[pair, COUNT] += sign
            if sign > 0 and pairs[pair, COUNT] == 1:
                distinct[group] += 1
            elif sign < 0 and pairs[pair, COUNT] == 0:
                distinct[group] -= 1
        if asked < ends.size and ends[asked] == change:
            out[asked] = distinct[group]
            asked += 1


@kernel
def list_pairs(groups, pairs, newest, begins, out):
    """The held pairs of some groups, those of the group i from ``begins[i]`` on, each of which learns its place."""
    found = 0
    for number in range(groups.size):
        begins[number] = found
        link = newest[groups[number]]
        while link > 0:
            pair = link - 1
            if pairs[pair, RECORDS] > 0:
                out[found] = pair
                pairs[pair, PLACE] = found
                found += 1
            link = pairs[pair, OLDER]
    begins[groups.size] = found
    return found


@kernel
def link(begins, pairs, newest):
    """Link the pairs of all groups anew: those of the group i have the ids from ``begins[i]`` on."""
    for group in range(begins.size - 1):
        for pair in range(begins[group], begins[group + 1]):
            pairs[pair, OLDER] = _LAST if pair == begins[group] else pair
        newest[group] = begins[group + 1] if begins[group + 1] > begins[group] else 0
