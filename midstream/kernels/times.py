"""Event times of rows that have just come."""

from __future__ import annotations

from midstream.kernels.caching import kernel
from midstream.kernels.types import LARGEST, SMALLEST


@kernel
def find_bounds(times):
    """The smallest and the largest of some times; of none, the largest and the smallest integer."""
    lowest = LARGEST
    highest = SMALLEST
    for i in range(times.size):
        lowest = min(lowest, times[i])
        highest = max(highest, times[i])
    return lowest, highest
