"""A hash multimap over a ring: insert, probe, and no removal.

Each bucket is a chain of ids from new to old, linked through the ring's slots. Ids only grow, so a chain ends at the
first id below the ring's head: whatever the ring forgets leaves every chain by itself, and purging costs nothing here.
A key's bucket depends on a secret seed, so that nobody can choose keys that make one chain long.

    buckets   slots (one cache line holds two)
    [ 17 ] -> 17: key start end  9 -> 9: key start end  2 -> (2 < head: the chain ends)
    [  0 ]
    [ 16 ] -> 16: key start end  0

Marks beside the ids (`midstream.kernels.buckets`) say which keys a chain may have, so that most probes that find
nothing look at no slot.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midstream.kernels.boxes import FILLING, MISSING, set_state, state_at
from midstream.kernels.buckets import begin_chain, newest_entry
from midstream.kernels.caching import kernel
from midstream.kernels.hashing import bucket_hash, secrets_of
from midstream.kernels.memory import prefetch
from midstream.kernels.rings import is_dead
from midstream.kernels.types import AFRESH, COUNT, EVICTED, NEXT, NO_ID, ROW, VISITED, Combos

AHEAD_BUCKET = 24
AHEAD_SLOT = 12
#: Hashes of rows to come, so that each is hashed once: a power of two above the farthest look ahead.
KEPT = 32
#: Chains that `claim` has walked to their end are remembered if they are long: so many of them, a power of two.
WALKED, LONG_CHAIN = 256, 16


@njit(inline="always")
def first_hashes(keys, begin, ahead, secrets):
    """The hashes of the rows from `begin` on that are less than `ahead` further, each at its place of `KEPT`."""
    kept = np.empty(KEPT, np.int64)
    for row in range(begin, min(begin + ahead, keys.size)):
        kept[row & (KEPT - 1)] = bucket_hash(keys[row], secrets)
    return kept


@kernel
def insert(chains, head, first, keys, starts, ends):
    """Enter ids ``first, first + 1, ...`` with these keys and intervals; those below `head` have left the ring."""
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    size = keys.size
    kept = first_hashes(keys, 0, AHEAD_SLOT, secrets)
    for i in range(size):
        if i + AHEAD_SLOT < size:
            coming = bucket_hash(keys[i + AHEAD_SLOT], secrets)
            kept[(i + AHEAD_SLOT) & (KEPT - 1)] = coming
            prefetch(buckets, coming & bucket_mask)
        slot = (first + i) & slot_mask
        slots[slot, 0] = keys[i]
        slots[slot, 1] = starts[i]
        slots[slot, 2] = ends[i]
        slots[slot, 3] = begin_chain(buckets, kept[i & (KEPT - 1)], first + i, head)


@kernel
def store(chains, ring, keys, combos):
    """Write combinations into a ring from its tail on, and enter them with their keys."""
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    starts, ends, members, head, tail = ring
    new_rows, new_starts, new_ends = combos
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    width = members.shape[1]
    size = keys.size
    kept = first_hashes(keys, 0, AHEAD_SLOT, secrets)
    for i in range(size):
        if i + AHEAD_SLOT < size:
            coming = bucket_hash(keys[i + AHEAD_SLOT], secrets)
            kept[(i + AHEAD_SLOT) & (KEPT - 1)] = coming
            prefetch(buckets, coming & bucket_mask)
        key = keys[i]
        slot = (tail + i) & slot_mask
        starts[slot] = new_starts[i]
        ends[slot] = new_ends[i]
        for k in range(width):
            members[slot, k] = new_rows[i, k]
        slots[slot, 0] = key
        slots[slot, 1] = new_starts[i]
        slots[slot, 2] = new_ends[i]
        slots[slot, 3] = begin_chain(buckets, kept[i & (KEPT - 1)], tail + i, head)


@kernel
def pack(chains, ring, packed_chains, packed, horizon, first_rows):
    """Write the entries of a ring that are not dead into another from its tail on, and enter them; how many there are.

    The other ring and its chains may be in the same memory, if its tail is this one's head: no entry goes up. The
    buckets are empty before.
    """
    slots = chains.slots
    buckets, packed_slots, seed = packed_chains
    secrets = secrets_of(seed)
    starts, ends, members, head, tail = ring
    slot_mask = slots.shape[0] - 1
    bucket_mask = buckets.size - 1
    packed_mask = packed_slots.shape[0] - 1
    width = members.shape[1]
    to = packed.tail
    for entry in range(head, tail):
        if entry + AHEAD_SLOT < tail:
            prefetch(buckets, bucket_hash(slots[(entry + AHEAD_SLOT) & slot_mask, 0], secrets) & bucket_mask)
        slot = entry & slot_mask
        if is_dead(ends, members, slot, horizon, first_rows):
            continue
        place = to & packed_mask
        start = starts[slot]
        end = ends[slot]
        key = slots[slot, 0]
        packed.starts[place] = start
        packed.ends[place] = end
        for k in range(width):
            packed.members[place, k] = members[slot, k]
        packed_slots[place, 0] = key
        packed_slots[place, 1] = start
        packed_slots[place, 2] = end
        packed_slots[place, 3] = begin_chain(buckets, bucket_hash(key, secrets), to, packed.tail)
        to += 1
    return to - packed.tail


@kernel
def relink(chains, head, tail):
    """Build the chains anew from the slots' keys: after the buckets or the slots were resized."""
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    buckets[:] = NO_ID
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    for entry in range(head, tail):
        if entry + AHEAD_SLOT < tail:
            prefetch(buckets, bucket_hash(slots[(entry + AHEAD_SLOT) & slot_mask, 0], secrets) & bucket_mask)
        slot = entry & slot_mask
        slots[slot, 3] = begin_chain(buckets, bucket_hash(slots[slot, 0], secrets), entry, head)


@kernel
def end(chains, entries):
    """These entries were evicted: from now on no probe accepts them."""
    _, slots, _ = chains
    slot_mask = slots.shape[0] - 1
    for i in range(entries.size):
        slots[entries[i] & slot_mask, 2] = EVICTED


@kernel
def probe(chains, ring, keys, combos, out, cursor, layout):
    """Join combinations with the entries of equal key whose interval intersects theirs, until `out` is full.

    Returns whether everything was probed; if not, call again with the same cursor and room in `out`.
    """
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    _, _, members, head, tail = ring
    rows, starts, ends = combos
    out_rows, out_starts, out_ends = out
    entry_at, probe_at = layout
    bucket_mask = buckets.size - 1
    slot_mask = slots.shape[0] - 1
    width = members.shape[1]
    is_leaf = members.shape[0] == 0
    probe_width = rows.shape[1]
    size = keys.size
    capacity = out_starts.size
    count = cursor[COUNT]
    visited = 0
    row = cursor[ROW]
    entry = cursor[NEXT]
    kept = first_hashes(keys, row, AHEAD_BUCKET, secrets)
    while row < size:
        if row + AHEAD_BUCKET < size:
            coming = bucket_hash(keys[row + AHEAD_BUCKET], secrets)
            kept[(row + AHEAD_BUCKET) & (KEPT - 1)] = coming
            prefetch(buckets, coming & bucket_mask)
        if row + AHEAD_SLOT < size:
            prefetch(slots, newest_entry(buckets, kept[(row + AHEAD_SLOT) & (KEPT - 1)]) & slot_mask)
        key = keys[row]
        start = starts[row]
        end = ends[row]
        if entry == AFRESH:
            entry = newest_entry(buckets, kept[row & (KEPT - 1)])
        while entry >= head:
            slot = entry & slot_mask
            visited += 1
            if slots[slot, 0] == key and slots[slot, 1] <= end and slots[slot, 2] >= start and entry < tail:
                if count == capacity:
                    cursor[ROW] = row
                    cursor[NEXT] = entry
                    cursor[COUNT] = count
                    cursor[VISITED] += visited
                    return False
                if is_leaf:
                    out_rows[count, entry_at] = entry
                else:
                    for k in range(width):
                        out_rows[count, entry_at + k] = members[slot, k]
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
def claim(chains, head, keys, mark, states, base):
    """The entries with one of these keys that are below the mark and missing; they are being filled from now on."""
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    slot_mask = slots.shape[0] - 1
    size = keys.size
    newest = np.empty(size, np.int64)
    for row in range(size):
        newest[row] = newest_entry(buckets, bucket_hash(keys[row], secrets))
    found = np.empty((size, 3), np.int64)
    count = 0
    # Long chains that were walked lately: a key that comes again has nothing left to claim.
    walked = np.full((WALKED, 2), NO_ID)
    for row in range(size):
        if row + AHEAD_BUCKET < size:
            prefetch(slots, newest[row + AHEAD_BUCKET] & slot_mask)
        if row + AHEAD_SLOT < size:
            coming = newest[row + AHEAD_SLOT]
            prefetch(slots, slots[coming & slot_mask, 3] & slot_mask)
            prefetch(states, max(coming - base, 0) >> 2)
        key = keys[row]
        entry = newest[row]
        place = entry & (WALKED - 1)
        if walked[place, 0] == entry and walked[place, 1] == key:
            continue
        passed = 0
        while entry >= head:
            passed += 1
            slot = entry & slot_mask
            if slots[slot, 0] == key and base <= entry < mark and state_at(states, entry - base) == MISSING:
                set_state(states, entry - base, FILLING)
                if count == len(found):
                    found = np.concatenate((found, np.empty((count + 64, 3), np.int64)))
                found[count, 0] = entry
                found[count, 1] = slots[slot, 1]
                found[count, 2] = slots[slot, 2]
                count += 1
            entry = slots[slot, 3]
        if passed > LONG_CHAIN:
            walked[place, 0] = newest[row]
            walked[place, 1] = key
    return Combos(found[:count, :1].copy(), found[:count, 1].copy(), found[:count, 2].copy())


@kernel
def find_same(chains, ring, keys, rows, horizon, found):
    """Set ``found[i]`` if an entry has key i and the rows of combination i, and did not end before the horizon.

    One that did was evicted, or is dead and names a row whose id another one has now.
    """
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    slot_mask = slots.shape[0] - 1
    width = rows.shape[1]
    for i in range(keys.size):
        entry = newest_entry(buckets, bucket_hash(keys[i], secrets))
        while entry >= ring.head and not found[i]:
            slot = entry & slot_mask
            is_same = slots[slot, 0] == keys[i] and slots[slot, 2] >= horizon
            for column in range(width):
                is_same = is_same and ring.members[slot, column] == rows[i, column]
            found[i] = is_same
            entry = slots[slot, 3]


@kernel
def find(chains, head, keys, found, cursor):
    """The ids of all entries with one of these keys, once per probing key, until `found` is full; as `probe`.

    Those that were evicted are left out.
    """
    buckets, slots, seed = chains
    secrets = secrets_of(seed)
    slot_mask = slots.shape[0] - 1
    count = cursor[COUNT]
    row = cursor[ROW]
    entry = cursor[NEXT]
    while row < keys.size:
        key = keys[row]
        if entry == AFRESH:
            entry = newest_entry(buckets, bucket_hash(key, secrets))
        while entry >= head:
            slot = entry & slot_mask
            if slots[slot, 0] == key and slots[slot, 2] != EVICTED:
                if count == found.size:
                    cursor[ROW] = row
                    cursor[NEXT] = entry
                    cursor[COUNT] = count
                    return False
                found[count] = entry
                count += 1
            entry = slots[slot, 3]
        entry = AFRESH
        row += 1
    cursor[ROW] = row
    cursor[NEXT] = AFRESH
    cursor[COUNT] = count
    return True
