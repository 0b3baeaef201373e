"""Arrays used as rings: their slots are addressed by ``id & (capacity - 1)``, the capacity being a power of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SMALLEST_CAPACITY = 64


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


def resized(ring: Array, head: int, tail: int, capacity: int) -> Array:
    """A ring of another capacity with the same values at the same ids."""
    bigger = np.empty((capacity, *ring.shape[1:]), ring.dtype)
    write(bigger, head, read(ring, head, tail))
    return bigger
