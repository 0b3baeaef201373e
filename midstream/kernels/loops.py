"""Nested loops: every combination with every entry whose interval intersects its own."""

from __future__ import annotations

from midstream.kernels.caching import kernel
from midstream.kernels.types import AFRESH, COUNT, NEXT, ROW, VISITED


@kernel
def probe(ring, combos, out, cursor, layout):
    """Join combinations with all entries of the ring, until `out` is full; as `chains.probe`."""
    members = ring.members
    slot_mask = ring.starts.size - 1
    width = members.shape[1]
    is_leaf = members.shape[0] == 0
    probe_width = combos.rows.shape[1]
    count = cursor[COUNT]
    row = cursor[ROW]
    entry = cursor[NEXT]
    while row < combos.starts.size:
        start = combos.starts[row]
        end = combos.ends[row]
        if entry == AFRESH:
            entry = ring.head
        first = entry
        while entry < ring.tail:
            slot = entry & slot_mask
            if ring.starts[slot] <= end and ring.ends[slot] >= start:
                if count == out.starts.size:
                    cursor[VISITED] += entry - first
                    cursor[ROW] = row
                    cursor[NEXT] = entry
                    cursor[COUNT] = count
                    return False
                if is_leaf:
                    out.rows[count, layout.entry_at] = entry
                else:
                    for k in range(width):
                        out.rows[count, layout.entry_at + k] = members[slot, k]
                for k in range(probe_width):
                    out.rows[count, layout.probe_at + k] = combos.rows[row, k]
                out.starts[count] = max(start, ring.starts[slot])
                out.ends[count] = min(end, ring.ends[slot])
                count += 1
            entry += 1
        cursor[VISITED] += ring.tail - first
        entry = AFRESH
        row += 1
    cursor[ROW] = row
    cursor[NEXT] = AFRESH
    cursor[COUNT] = count
    return True
