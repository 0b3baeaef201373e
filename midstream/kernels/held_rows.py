"""Probes of a hash multimap by sets of rows: with those rows of a window that a set has, or for entries with such rows.

The index of a window leads to all of its rows. Where a set has few of them, most keys have none in it: a filter of the
keys that it may have spares the way to the others.

What a tuple has is taken out of it before the loops: inside of them, every access would count references.
"""

from __future__ import annotations

import numpy as np

from midstream.kernels.buckets import newest_entry
from midstream.kernels.caching import kernel
from midstream.kernels.chains import AHEAD_BUCKET, AHEAD_SLOT, KEPT
from midstream.kernels.distinct import table_size
from midstream.kernels.hashing import bucket_hash, filter_hash, secrets_of
from midstream.kernels.memory import prefetch
from midstream.kernels.types import AFRESH, COUNT, EVICTED, NEXT, ROW, VISITED

#: In the place of a hash: the key is passed over.
_NOWHERE = -1


@kernel
def probe(chains, keys, combos, out, cursor, layout, held, filter):
    """As that of `chains`, with the rows of a window that are in a set; keys that a filter lacks are passed over."""
    buckets, slots, seed = chains
    rows, starts, ends = combos
    out_rows, out_starts, out_ends = out
    entry_at, probe_at = layout
    bits, base, low, high = held
    key_counts, shift = filter
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    is_run = bits.size == 0
    takes_all = key_counts.size == 0
    probe_width = rows.shape[1]
    size = keys.size
    capacity = out_starts.size
    count = cursor[COUNT]
    visited = 0
    row = cursor[ROW]
    entry = cursor[NEXT]
    kept = np.empty(KEPT, np.int64)
    for coming in range(row, min(row + AHEAD_BUCKET, size)):
        hashed = _NOWHERE
        if takes_all or key_counts[filter_hash(keys[coming], shift)] > 0:
            hashed = bucket_hash(keys[coming], secrets)
        kept[coming & (KEPT - 1)] = hashed
    while row < size:
        coming = row + AHEAD_BUCKET
        if coming < size:
            hashed = _NOWHERE
            if takes_all or key_counts[filter_hash(keys[coming], shift)] > 0:
                hashed = bucket_hash(keys[coming], secrets)
                prefetch(buckets, hashed & bucket_mask)
            kept[coming & (KEPT - 1)] = hashed
        if row + AHEAD_SLOT < size:
            hashed = kept[(row + AHEAD_SLOT) & (KEPT - 1)]
            if hashed != _NOWHERE:
                prefetch(slots, newest_entry(buckets, hashed) & slot_mask)
        hashed = kept[row & (KEPT - 1)]
        if hashed == _NOWHERE:
            row += 1
            continue
        key = keys[row]
        start = starts[row]
        end = ends[row]
        if entry == AFRESH:
            entry = newest_entry(buckets, hashed)
        while entry >= low:
            slot = entry & slot_mask
            visited += 1
            is_match = slots[slot, 0] == key and slots[slot, 1] <= end and slots[slot, 2] >= start
            if is_match and entry < high and (is_run or bits[entry - base]):
                if count == capacity:
                    cursor[ROW] = row
                    cursor[NEXT] = entry
                    cursor[COUNT] = count
                    cursor[VISITED] += visited
                    return False
                out_rows[count, entry_at] = entry
                for k in range(probe_width):
                    out_rows[count, probe_at + k] = rows[row, k]
                out_starts[count] = max(start, slots[slot, 1])
                out_ends[count] = min(end, slots[slot, 2])
                count += 1
            entry = slots[slot, 3]
        entry = AFRESH
        row += 1
    cursor[ROW] = row
    cursor[NEXT] = AFRESH
    cursor[COUNT] = count
    cursor[VISITED] += visited
    return True


@kernel
def find(chains, keys, held, filter):
    """The ids of all rows of a set that have one of these keys, each once; keys that a filter lacks are passed over."""
    buckets, slots, seed = chains
    bits, base, low, high = held
    key_counts, shift = filter
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    is_run = bits.size == 0
    takes_all = key_counts.size == 0
    size = keys.size
    seen = np.zeros(table_size(size), np.int64)
    seen_mask = seen.size - 1
    found = np.empty(size + 64, np.int64)
    count = 0
    kept = np.empty(KEPT, np.int64)
    for row in range(-AHEAD_BUCKET, size):
        coming = row + AHEAD_BUCKET
        if coming < size:
            hashed = _NOWHERE
            if takes_all or key_counts[filter_hash(keys[coming], shift)] > 0:
                hashed = bucket_hash(keys[coming], secrets)
                prefetch(buckets, hashed & bucket_mask)
            kept[coming & (KEPT - 1)] = hashed
        coming = row + AHEAD_SLOT
        if 0 <= coming < size:
            hashed = kept[coming & (KEPT - 1)]
            if hashed != _NOWHERE:
                prefetch(slots, newest_entry(buckets, hashed) & slot_mask)
        if row < 0:
            continue
        hashed = kept[row & (KEPT - 1)]
        if hashed == _NOWHERE:
            continue
        key = keys[row]
        at = hashed & seen_mask
        while seen[at] != 0 and keys[seen[at] - 1] != key:
            at = (at + 1) & seen_mask
        if seen[at] != 0:
            continue
        seen[at] = row + 1
        entry = newest_entry(buckets, hashed)
        while entry >= low:
            slot = entry & slot_mask
            if slots[slot, 0] == key and entry < high and (is_run or bits[entry - base]):
                if count == found.size:
                    found = np.concatenate((found, np.empty(count, np.int64)))
                found[count] = entry
                count += 1
            entry = slots[slot, 3]
    return found[:count].copy()


@kernel
def find_members(chains, ring, column, rows, keys):
    """The ids of all entries that have one of these rows in a column, each once; `keys` are those of the rows.

    Those that were evicted are left out. The entries of a key are looked at once, however many rows have it.
    """
    buckets, slots, seed = chains
    _, _, members, head, _ = ring
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    size = rows.size
    wanted = np.zeros(table_size(size), np.int64)
    seen = np.zeros(table_size(size), np.int64)
    mask = wanted.size - 1
    for row in range(size):
        at = bucket_hash(rows[row], secrets) & mask
        while wanted[at] != 0:
            at = (at + 1) & mask
        wanted[at] = row + 1
    found = np.empty(size + 64, np.int64)
    count = 0
    kept = np.empty(KEPT, np.int64)
    for row in range(-AHEAD_BUCKET, size):
        coming = row + AHEAD_BUCKET
        if coming < size:
            hashed = bucket_hash(keys[coming], secrets)
            kept[coming & (KEPT - 1)] = hashed
            prefetch(buckets, hashed & bucket_mask)
        coming = row + AHEAD_SLOT
        if 0 <= coming < size:
            slot = newest_entry(buckets, kept[coming & (KEPT - 1)]) & slot_mask
            prefetch(slots, slot)
            prefetch(members, slot)
        if row < 0:
            continue
        key = keys[row]
        hashed = kept[row & (KEPT - 1)]
        at = hashed & mask
        while seen[at] != 0 and keys[seen[at] - 1] != key:
            at = (at + 1) & mask
        if seen[at] != 0:
            continue
        seen[at] = row + 1
        entry = newest_entry(buckets, hashed)
        while entry >= head:
            slot = entry & slot_mask
            if slots[slot, 0] == key and slots[slot, 2] != EVICTED:
                member = members[slot, column]
                at = bucket_hash(member, secrets) & mask
                while wanted[at] != 0 and rows[wanted[at] - 1] != member:
                    at = (at + 1) & mask
                if wanted[at] != 0:
                    if count == found.size:
                        found = np.concatenate((found, np.empty(count, np.int64)))
                    found[count] = entry
                    count += 1
            entry = slots[slot, 3]
    return found[:count].copy()
