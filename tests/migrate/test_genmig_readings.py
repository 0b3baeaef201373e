"""GenMig read word for word gives wrong rows on small input; the product gives those of the definition.

docs/concepts/genmig-readings.md tells the story.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import midstream as ms

from .genmig_literal import Input, Result, coalesce_by_value, filter_by_reference_point, find_split_time, join_naively

SCHEMA = pa.schema({"k": pa.string(), "label": pa.string(), "ts": pa.int64()})
STRATEGIES = ("genmig", "genmig-reference-point", "jisc", "moving-state", "parallel-track")
#: Valid until 10, so T is 11.
OLD = Input(10, r=(("old", "o", 0),), s=(("old", "", 0),))
#: Two pairs with the same label, both valid across T.
EQUAL_LABELS = Input(10, r=(("k1", "x", 2), ("k2", "x", 8)), s=(("k2", "", 4), ("k1", "", 6)))
#: Results that begin at T itself: from two rows at T, and from a row at T with an earlier one.
AT_T = Input(10, r=(("k1", "x", 11), ("k2", "y", 5)), s=(("k1", "", 11), ("k2", "", 11)))


def push_and_migrate(strategy: str, new: Input) -> list[Result]:
    """The rows of the product: the old rows, a migration, the new rows in one push."""
    query = ms.query(
        "SELECT r.label FROM r [RANGE 10 MICROSECONDS], s [RANGE 10 MICROSECONDS] WHERE r.k = s.k",
        schemas={"r": SCHEMA, "s": SCHEMA},
        event_time="ts",
    )
    engine = ms.Engine(query, plan="(r s)")
    tables = [engine.push(_tables(OLD))]
    engine.migrate("(s r)", strategy)
    tables.append(engine.push(_tables(new)))
    tables.append(engine.push({}, watermark=1_000))
    assert engine.migration is not None and engine.migration.is_done
    return sorted(tuple(row.values()) for row in pa.concat_tables(tables).to_pylist())


def _tables(given: Input) -> dict[str, pa.Table]:
    return {
        name: pa.table(list(zip(*rows, strict=True)), schema=SCHEMA)
        for name, rows in vars(given).items()
        if name in "rs"
    }


def test_the_split_time_is_the_first_moment_without_old_rows() -> None:
    assert find_split_time(OLD) == 11


def test_halves_of_equal_values_are_paired_crosswise() -> None:
    assert join_naively(OLD, EQUAL_LABELS) == [("o", 0, 10), ("x", 6, 12), ("x", 8, 14)]
    assert coalesce_by_value(OLD, EQUAL_LABELS) == [("o", 0, 10), ("x", 6, 14), ("x", 8, 12)]


def test_a_result_that_begins_at_the_split_time_is_dropped() -> None:
    assert join_naively(OLD, AT_T) == [("o", 0, 10), ("x", 11, 21), ("y", 11, 15)]
    assert filter_by_reference_point(OLD, AT_T) == [("o", 0, 10)]


def test_each_reading_is_right_where_its_trap_is_not_met() -> None:
    different = Input(10, r=(("k1", "x", 2), ("k2", "y", 8)), s=(("k2", "", 4), ("k1", "", 6)))
    assert coalesce_by_value(OLD, different) == join_naively(OLD, different)
    assert filter_by_reference_point(OLD, EQUAL_LABELS) == join_naively(OLD, EQUAL_LABELS)


@pytest.mark.parametrize("new", [EQUAL_LABELS, AT_T], ids=["equal labels", "at the split time"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_product_gives_the_rows_of_the_definition(strategy: str, new: Input) -> None:
    assert push_and_migrate(strategy, new) == join_naively(OLD, new)
