"""Which of the rows that arrive have no partner, in one pass over everything where one may be."""

from __future__ import annotations

from numba import njit

from midstream.kernels.caching import kernel
from midstream.kernels.chains import AHEAD_BUCKET, AHEAD_SLOT, KEPT, first_buckets
from midstream.kernels.hashing import bucket_hash, secrets_of
from midstream.kernels.memory import prefetch
from midstream.kernels.types import NO_REASON


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
def find_lacking(places, arrived, keys, intervals, reasons, reason):
    """Give this reason to each row that has none yet and has no partner; how many there are.

    A partner has the row's key and an interval that intersects the row's. It may be in one of the places, each of which
    is a multimap with the first id that counts: the neighbour's window, its hidden rows, an index of what arrives now.
    Or it is among the keys, starts and ends that `arrived`, which are looked at one after the other.
    """
    window, hidden, chunk = places
    window_buckets, window_slots, window_seed = window.chains
    hidden_buckets, hidden_slots, hidden_seed = hidden.chains
    chunk_buckets, chunk_slots, chunk_seed = chunk.chains
    window_head, hidden_head, chunk_head = window.head, hidden.head, chunk.head
    other_keys, other_starts, other_ends = arrived
    starts, ends = intervals
    secrets, hidden_secrets, chunk_secrets = secrets_of(window_seed), secrets_of(hidden_seed), secrets_of(chunk_seed)
    bucket_mask = window_buckets.size - 1
    slot_mask = window_slots.shape[0] - 1
    size = keys.size
    lacking = 0
    kept = first_buckets(keys, 0, AHEAD_BUCKET, secrets, bucket_mask)
    for row in range(size):
        if row + AHEAD_BUCKET < size:
            coming = bucket_hash(keys[row + AHEAD_BUCKET], secrets) & bucket_mask
            kept[(row + AHEAD_BUCKET) & (KEPT - 1)] = coming
            prefetch(window_buckets, coming)
        if row + AHEAD_SLOT < size:
            prefetch(window_slots, window_buckets[kept[(row + AHEAD_SLOT) & (KEPT - 1)]] & slot_mask)
        if reasons[row] != NO_REASON:
            continue
        key, start, end = keys[row], starts[row], ends[row]
        found = _follow(window_slots, window_buckets[kept[row & (KEPT - 1)]], window_head, key, start, end)
        for other in range(other_keys.size):
            if found:
                break
            found = other_keys[other] == key and other_starts[other] <= end and other_ends[other] >= start
        if not found:
            entry = hidden_buckets[bucket_hash(key, hidden_secrets) & (hidden_buckets.size - 1)]
            found = _follow(hidden_slots, entry, hidden_head, key, start, end)
        if not found:
            entry = chunk_buckets[bucket_hash(key, chunk_secrets) & (chunk_buckets.size - 1)]
            found = _follow(chunk_slots, entry, chunk_head, key, start, end)
        if not found:
            reasons[row] = reason
            lacking += 1
    return lacking
