"""The smallest and the largest of event times."""

from __future__ import annotations

import numpy as np
import pytest

from midstream.kernels import times
from midstream.kernels.types import LARGEST, SMALLEST


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_are_the_smallest_and_the_largest(seed: int, size: int) -> None:
    drawn = np.random.default_rng([seed, size]).integers(SMALLEST, LARGEST, size, endpoint=True)
    assert times.find_bounds(drawn) == (drawn.min(), drawn.max())


def test_bounds_of_nothing_have_nothing_between_them() -> None:
    assert times.find_bounds(np.empty(0, np.int64)) == (LARGEST, SMALLEST)
