"""Arrays used as rings: their slots are addressed by ``id & (capacity - 1)``, the capacity being a power of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SMALLEST_CAPACITY = 64
_RESERVE = 4


def capacity_for(size: int) -> int:
    """The smallest capacity that holds `size` ids."""
    return max(SMALLEST_CAPACITY, 1 << (size - 1).bit_length())


def write(ring: Array, first: int, values: Array) -> None:
    """Put values into the slots of the ids from `first` on."""
    capacity = len(ring)
    at = first & (capacity - 1)
    room = capacity - at
    size = len(values)
    if size <= room:
        ring[at : at + size] = values
    else:
        ring[at:] = values[:room]
        ring[: size - room] = values[room:]


def read(ring: Array, first: int, last: int) -> Array:
    """The values of the ids from `first` up to `last`, in their order; a view where they are contiguous."""
    capacity = len(ring)
    at = first & (capacity - 1)
    size = last - first
    if at + size <= capacity:
        return ring[at : at + size]
    return np.concatenate((ring[at:], ring[: at + size - capacity]))


def make_ring(capacity: int, *shape: int, reserve: int = 0, dtype: Any = np.int64) -> Array:
    """An array of so many slots that can grow in place to `reserve` slots; the system gives memory as it is used."""
    return np.empty((max(capacity, reserve), *shape), dtype)[:capacity]


def reshape(ring: Array, width: int) -> Array:
    """Slots of another width, as many, with any content; in the same memory if that is enough."""
    whole = ring.base if isinstance(ring.base, np.ndarray) else ring
    capacity = len(ring)
    if whole.size < capacity * width:
        return make_ring(capacity, width, dtype=ring.dtype)
    return whole.reshape(-1)[: capacity * width].reshape(capacity, width)


def _grow(ring: Array, capacity: int) -> Array | None:
    """The same memory as a larger array, if there is reserve."""
    whole = ring.base
    if isinstance(whole, np.ndarray) and len(whole) >= capacity > len(ring) and whole.shape[1:] == ring.shape[1:]:
        return whole[:capacity]
    return None


def resize(ring: Array, head: int, tail: int, capacity: int) -> Array:
    """A ring of another capacity with the same values at the same ids. The old one is not to be used any more."""
    bigger = _grow(ring, capacity)
    if bigger is None:
        bigger = make_ring(capacity, *ring.shape[1:], reserve=_RESERVE * capacity, dtype=ring.dtype)
        write(bigger, head, read(ring, head, tail))
        return bigger
    before = len(ring)
    for first in (head, max(head, (head // before + 1) * before)):
        last = min(tail, (first // before + 1) * before)
        at, to = first & (before - 1), first & (capacity - 1)
        if last > first and at != to:
            bigger[to : to + last - first] = ring[at : at + last - first]
    return bigger


def repeat(array: Array, length: int) -> Array:
    """An array that repeats another one until it is so long."""
    longer = _grow(array, length)
    if longer is None:
        longer = make_ring(length, reserve=_RESERVE * length)
        longer[: len(array)] = array
    for at in range(len(array), length, len(array)):
        longer[at : at + len(array)] = longer[: len(array)]
    return longer
