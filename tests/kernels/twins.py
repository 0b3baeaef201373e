"""Naive twins of the probing kernels, and the small structures that both are fed from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midstream.kernels.types import AFRESH, COUNT, CURSOR_CELLS, LARGEST, NEXT, SMALLEST, Combos, Layout, Ring

Ints = NDArray[np.int64]
Found = tuple[tuple[int, ...], int, int]
Step = Callable[[Combos, Ints], bool]

INT64S = (int(SMALLEST), int(SMALLEST) + 1, -(2**62), -2, -1, 0, 1, 2, 2**62, int(LARGEST) - 1, int(LARGEST))


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def naive_mix(value: int) -> int:
    """`hashing.mix` in integers without an end."""
    bits = value % 2**64
    for _ in range(2):
        bits ^= bits >> 32
        bits = bits * 0xD6E8FEB86659FD93 % 2**64
    bits ^= bits >> 32
    return bits - 2**64 if bits >= 2**63 else bits


def naive_bucket_hash(code: int, seed: int) -> int:
    """`hashing.bucket_hash` in integers without an end."""
    first, second, third = (
        naive_mix(word) % 2**64 for word in (seed, seed ^ 0x2545F4914F6CDD1D, seed ^ 0x5851F42D4C957F2D)
    )
    bits = code % 2**64
    bits ^= bits >> 32
    bits = bits * 0xD6E8FEB86659FD93 % 2**64
    return ((first + (bits >> 32)) * (second + bits % 2**32) + third) % 2**64 >> 32


@dataclass
class Entries:
    """The entries of a ring by id; `members` is None for a leaf, whose id is its row."""

    keys: dict[int, int]
    starts: dict[int, int]
    ends: dict[int, int]
    members: dict[int, tuple[int, ...]] | None
    head: int
    tail: int

    @classmethod
    def draw(cls, rng: np.random.Generator, head: int, size: int, width: int, keys: int) -> Entries:
        """Random entries; `width` 0 makes a leaf."""
        ids = range(head, head + size)
        starts = {entry_id: int(rng.integers(0, 30)) for entry_id in ids}
        return cls(
            {entry_id: int(rng.integers(0, keys)) for entry_id in ids},
            starts,
            {entry_id: starts[entry_id] + int(rng.integers(0, 12)) for entry_id in ids},
            {entry_id: tuple(rng.integers(0, 1000, width).tolist()) for entry_id in ids} if width else None,
            head,
            head + size,
        )

    def ring(self, capacity: int, head: int | None = None, tail: int | None = None) -> Ring:
        starts, ends = np.full(capacity, -7, np.int64), np.full(capacity, -7, np.int64)
        width = 1 if self.members is None else len(next(iter(self.members.values()), (0,)))
        members = np.full((0 if self.members is None else capacity, width), -7, np.int64)
        for entry_id in range(self.head, self.tail):
            slot = entry_id % capacity
            starts[slot], ends[slot] = self.starts[entry_id], self.ends[entry_id]
            if self.members is not None:
                members[slot] = self.members[entry_id]
        return Ring(starts, ends, members, self.head if head is None else head, self.tail if tail is None else tail)

    def row(self, entry_id: int) -> tuple[int, ...]:
        return (entry_id,) if self.members is None else self.members[entry_id]


def draw_combos(rng: np.random.Generator, size: int, width: int) -> Combos:
    starts = rng.integers(0, 30, size)
    return Combos(rng.integers(1000, 2000, (size, width)), starts, starts + rng.integers(0, 12, size))


def naive_join(
    entries: Entries, head: int, tail: int, combos: Combos, matches: Callable[[int, int], bool], entry_first: bool
) -> list[Found]:
    """Every combination with every entry from `head` to `tail` that matches and overlaps."""
    found: list[Found] = []
    for at in range(len(combos.starts)):
        start, end = int(combos.starts[at]), int(combos.ends[at])
        for entry_id in range(head, tail):
            if matches(at, entry_id) and entries.starts[entry_id] <= end and entries.ends[entry_id] >= start:
                probing = tuple(combos.rows[at].tolist())
                row = entries.row(entry_id) + probing if entry_first else probing + entries.row(entry_id)
                found.append((row, max(start, entries.starts[entry_id]), min(end, entries.ends[entry_id])))
    return sorted(found)


def new_cursor() -> Ints:
    cursor = np.zeros(CURSOR_CELLS, np.int64)
    cursor[NEXT] = AFRESH
    return cursor


def block(width: int, capacity: int) -> Combos:
    return Combos(np.full((capacity, width), -9, np.int64), np.full(capacity, -9), np.full(capacity, -9))


def drain(step: Step, width: int, capacity: int, kept: int = 0) -> tuple[list[Found], int]:
    """What a step makes with a block of `capacity` that is emptied down to `kept` dummies whenever it is full.

    Also how often it had to be called.
    """
    out, cursor, found, calls = block(width, capacity), new_cursor(), [], 0
    cursor[COUNT] = kept
    while True:
        calls += 1
        done = step(out, cursor)
        count = int(cursor[COUNT])
        assert kept <= count <= capacity
        assert done or count == capacity
        found += [(tuple(out.rows[at].tolist()), int(out.starts[at]), int(out.ends[at])) for at in range(kept, count)]
        cursor[COUNT] = kept
        if done:
            return sorted(found), calls


def layout_of(entry_width: int, probe_width: int, entry_first: bool) -> Layout:
    return Layout(0, entry_width) if entry_first else Layout(probe_width, 0)
