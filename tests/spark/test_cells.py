"""Cell numbers: the ints that Spark hashes to 0, 1, 2, ..."""

from __future__ import annotations

import random

import pytest

from midstream.spark.routing.cell_numbers import cell_number, spark_hash


def test_the_hash_is_that_of_spark() -> None:
    """Values that Spark 4 gives for ``SELECT hash(...)``."""
    assert [spark_hash(number) for number in (0, 1, 42)] == [933211791, -559580957, 29417773]


def test_every_cell_has_the_int_with_its_hash() -> None:
    rng = random.Random(1)
    for cell in [*range(5000), 2**31 - 1, *(rng.randrange(2**31) for _ in range(5000))]:
        number = cell_number(cell)
        assert -(2**31) <= number < 2**31
        assert spark_hash(number) == cell


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 8, 200])
def test_cells_fall_into_their_partitions(partitions: int) -> None:
    assert [spark_hash(cell_number(cell)) % partitions for cell in range(partitions)] == list(range(partitions))


@pytest.mark.parametrize("cell", [-1, 2**31])
def test_there_are_no_other_cells(cell: int) -> None:
    with pytest.raises(ValueError, match="is not between"):
        cell_number(cell)
