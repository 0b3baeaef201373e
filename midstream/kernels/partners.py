"""Partners of rows in a hash multimap: whether a row has one, how many it has, and which of them were waiting for it.

A partner is an entry with the key of a row and an interval that intersects the row's.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.buckets import newest_entry
from midstream.kernels.caching import kernel
from midstream.kernels.chains import AHEAD_BUCKET, AHEAD_SLOT, KEPT, first_hashes
from midstream.kernels.hashing import bucket_hash, secrets_of
from midstream.kernels.memory import prefetch
from midstream.kernels.types import EVICTED, NO_REASON, Combos


@njit(inline="always")
def _follow(slots, entry, head, key, start, end):
    """Whether a chain leads to an entry with this key whose interval intersects this one."""
    mask = slots.shape[0] - 1
    found = False
    while entry >= head and not found:
        slot = entry & mask
        found = slots[slot, 0] == key and slots[slot, 1] <= end and slots[slot, 2] >= start
        entry = slots[slot, 3]
    return found


@kernel
def find_partners(chains, head, keys, intervals, found):
    """Set ``found[i]`` where an entry has the key of row i and an interval that intersects the row's.

    Rows that are found already are passed over.
    """
    buckets, slots, seed = chains
    starts, ends = intervals
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    size = keys.size
    kept = first_hashes(keys, 0, AHEAD_BUCKET, secrets)
    for row in range(size):
        if row + AHEAD_BUCKET < size:
            coming = bucket_hash(keys[row + AHEAD_BUCKET], secrets)
            kept[(row + AHEAD_BUCKET) & (KEPT - 1)] = coming
            prefetch(buckets, coming & bucket_mask)
        if row + AHEAD_SLOT < size:
            prefetch(slots, newest_entry(buckets, kept[(row + AHEAD_SLOT) & (KEPT - 1)]) & slot_mask)
        if not found[row]:
            entry = newest_entry(buckets, kept[row & (KEPT - 1)])
            found[row] = _follow(slots, entry, head, keys[row], starts[row], ends[row])


@kernel
def split(chains, head, keys, intervals):
    """The places of the rows that have a partner, as in `find_partners`, and of those that have none."""
    buckets, slots, seed = chains
    starts, ends = intervals
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    size = keys.size
    places = np.empty(size, np.int64)
    having = 0
    lacking = size
    kept = first_hashes(keys, 0, AHEAD_BUCKET, secrets)
    for row in range(size):
        if row + AHEAD_BUCKET < size:
            coming = bucket_hash(keys[row + AHEAD_BUCKET], secrets)
            kept[(row + AHEAD_BUCKET) & (KEPT - 1)] = coming
            prefetch(buckets, coming & bucket_mask)
        if row + AHEAD_SLOT < size:
            prefetch(slots, newest_entry(buckets, kept[(row + AHEAD_SLOT) & (KEPT - 1)]) & slot_mask)
        entry = newest_entry(buckets, kept[row & (KEPT - 1)])
        if _follow(slots, entry, head, keys[row], starts[row], ends[row]):
            places[having] = row
            having += 1
        else:
            lacking -= 1
            places[lacking] = row
    return places[:having], places[having:][::-1].copy()


@kernel
def take(chains, ring, keys, intervals):
    """Take out the entries that match a row, as in `find_partners`, each once: a copy of them, which are evicted."""
    buckets, slots, seed = chains
    starts, ends = intervals
    secrets = secrets_of(seed)
    slot_mask = slots.shape[0] - 1
    taken = np.empty(64, np.int64)
    count = 0
    for row in range(keys.size):
        entry = newest_entry(buckets, bucket_hash(keys[row], secrets))
        while entry >= ring.head:
            slot = entry & slot_mask
            if slots[slot, 0] == keys[row] and slots[slot, 1] <= ends[row] and slots[slot, 2] >= starts[row]:
                slots[slot, 2] = EVICTED
                if count == taken.size:
                    taken = np.concatenate((taken, np.empty(count, np.int64)))
                taken[count] = slot
                count += 1
            entry = slots[slot, 3]
    width = ring.members.shape[1]
    found = Combos(np.empty((count, width), np.int64), np.empty(count, np.int64), np.empty(count, np.int64))
    for place in range(count):
        slot = taken[place]
        for k in range(width):
            found.rows[place, k] = ring.members[slot, k]
        found.starts[place] = ring.starts[slot]
        found.ends[place] = ring.ends[slot]
        ring.ends[slot] = EVICTED
    return found


@kernel
def count_partners(chains, head, keys, intervals, places, enough, counts):
    """Count in ``counts[i]`` the entries that match the row at ``places[i]``, as in `find_partners`; they are 0 before.

    It ends after the row with which `enough` of them were found. Which slots it passes depends on the secret seed, but
    not where it ends. Returns how many rows and slots were visited, and how many entries matched.
    """
    buckets, slots, seed = chains
    starts, ends = intervals
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    size = places.size
    found = 0
    visited = 0
    kept = np.empty(KEPT, np.int64)
    for i in range(min(AHEAD_BUCKET, size)):
        kept[i] = bucket_hash(keys[places[i]], secrets)
    for i in range(size):
        if found >= enough:
            return i, visited, found
        if i + AHEAD_BUCKET < size:
            coming = bucket_hash(keys[places[i + AHEAD_BUCKET]], secrets)
            kept[(i + AHEAD_BUCKET) & (KEPT - 1)] = coming
            prefetch(buckets, coming & bucket_mask)
        if i + AHEAD_SLOT < size:
            prefetch(slots, newest_entry(buckets, kept[(i + AHEAD_SLOT) & (KEPT - 1)]) & slot_mask)
        row = places[i]
        entry = newest_entry(buckets, kept[i & (KEPT - 1)])
        while entry >= head:
            slot = entry & slot_mask
            visited += 1
            if slots[slot, 0] == keys[row] and slots[slot, 1] <= ends[row] and slots[slot, 2] >= starts[row]:
                counts[i] += 1
            entry = slots[slot, 3]
        found += counts[i]
    return size, visited, found


@kernel
def wake(chains, head, keys, intervals, reasons, reason):
    """The ids of the entries that wait for this reason and match a row, each once; they wait for nothing any more.

    An entry matches a row as in `find_partners`; ``reasons`` is a ring with what each entry waits for.
    """
    buckets, slots, seed = chains
    starts, ends = intervals
    secrets = secrets_of(seed)
    slot_mask = slots.shape[0] - 1
    woken = np.empty(64, np.int64)
    count = 0
    for row in range(keys.size):
        entry = newest_entry(buckets, bucket_hash(keys[row], secrets))
        while entry >= head:
            slot = entry & slot_mask
            is_match = slots[slot, 0] == keys[row] and slots[slot, 1] <= ends[row] and slots[slot, 2] >= starts[row]
            if is_match and reasons[slot] == reason:
                reasons[slot] = NO_REASON
                if count == woken.size:
                    woken = np.concatenate((woken, np.empty(count, np.int64)))
                woken[count] = entry
                count += 1
            entry = slots[slot, 3]
    return woken[:count].copy()


@kernel
def find_lacking(places, arrived, keys, intervals, reasons, reason):
    """Give this reason to each row that has none yet and has no partner; how many there are.

    A partner has the row's key and an interval that intersects the row's. It may be in one of the places, each of which
    is a multimap with the first id that counts: the neighbour's window, its hidden rows, an index of what arrives now.
    Or it is among the keys, starts and ends that `arrived`, which are looked at one after the other.
    """
    (window, window_head), (hidden, hidden_head), (chunk, chunk_head) = places
    window_buckets, window_slots, window_seed = window
    hidden_buckets, hidden_slots, hidden_seed = hidden
    chunk_buckets, chunk_slots, chunk_seed = chunk
    other_keys, other_starts, other_ends = arrived
    starts, ends = intervals
    secrets, hidden_secrets, chunk_secrets = secrets_of(window_seed), secrets_of(hidden_seed), secrets_of(chunk_seed)
    bucket_mask = window_buckets.size - 1
    slot_mask = window_slots.shape[0] - 1
    size = keys.size
    lacking = 0
    kept = first_hashes(keys, 0, AHEAD_BUCKET, secrets)
    for row in range(size):
        if row + AHEAD_BUCKET < size:
            coming = bucket_hash(keys[row + AHEAD_BUCKET], secrets)
            kept[(row + AHEAD_BUCKET) & (KEPT - 1)] = coming
            prefetch(window_buckets, coming & bucket_mask)
        if row + AHEAD_SLOT < size:
            prefetch(window_slots, newest_entry(window_buckets, kept[(row + AHEAD_SLOT) & (KEPT - 1)]) & slot_mask)
        if reasons[row] != NO_REASON:
            continue
        key, start, end = keys[row], starts[row], ends[row]
        entry = newest_entry(window_buckets, kept[row & (KEPT - 1)])
        found = _follow(window_slots, entry, window_head, key, start, end)
        for other in range(other_keys.size):
            if found:
                break
            found = other_keys[other] == key and other_starts[other] <= end and other_ends[other] >= start
        if not found:
            entry = newest_entry(hidden_buckets, bucket_hash(key, hidden_secrets))
            found = _follow(hidden_slots, entry, hidden_head, key, start, end)
        if not found:
            entry = newest_entry(chunk_buckets, bucket_hash(key, chunk_secrets))
            found = _follow(chunk_slots, entry, chunk_head, key, start, end)
        if not found:
            reasons[row] = reason
            lacking += 1
    return lacking
