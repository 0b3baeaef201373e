"""Names of results: each once, and the same when a batch is run again."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
import midstream.spark
from midstream.errors import SparkError
from midstream.spark.parcels.result_ids import COLUMN, ResultIds, name_rows

from .streams import LONG, SECOND, Input, expect, join_text
from .test_content import TYPES


def name_results(batch: int, cells: dict[int, list[list[int]]]) -> list[tuple[str, int]]:
    """Names with values, of tables that come piece by piece."""
    ids = ResultIds()
    found = []
    for cell, pieces in cells.items():
        for piece in pieces:
            table = ids.add_to(cell, batch, pa.table({"v": pa.array(piece, pa.int64())}))
            found += list(zip(table[COLUMN].to_pylist(), table["v"].to_pylist(), strict=True))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_each_result_has_a_name_of_its_own_that_no_order_changes(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.randrange(8) for _ in range(rng.randrange(1, 60))]
    again = rng.sample(values, len(values))
    cuts = [sorted(rng.randrange(len(values) + 1) for _ in range(3)) for _ in range(2)]
    first, second = (
        name_results(7, {3: [rows[begin:end] for begin, end in zip([0, *cut], [*cut, len(rows)], strict=True)]})
        for rows, cut in zip((values, again), cuts, strict=True)
    )
    assert len({name for name, _ in first}) == len(values)
    assert sorted(first) == sorted(second)


@pytest.mark.parametrize("seed", range(20))
def test_the_name_of_a_result_goes_by_its_values_of_any_type(seed: int) -> None:
    """Equal results share their names, others have others: however the results of a batch are ordered and cut."""
    rng = random.Random(seed)
    chosen = [(type, [*values, None]) for type, values in rng.sample(TYPES, 3)]
    count = rng.randrange(1, 40)
    columns = {
        f"c{place}": pa.array([rng.choice(values) for _ in range(count)], type)
        for place, (type, values) in enumerate(chosen)
    }
    table = pa.table(columns)
    found: list[dict[str, set[str]]] = []
    for _ in range(3):
        ids = ResultIds()
        other = table.take(pa.array(rng.sample(range(count), count)))
        cut = rng.randrange(count + 1)
        names: dict[str, set[str]] = {}
        for piece in (other.slice(0, cut), other.slice(cut)):
            for row in ids.add_to(1, 3, piece).to_pylist():
                name = row.pop(COLUMN)
                names.setdefault(repr(row), set()).add(name)
        found.append(names)
    assert found[0] == found[1] == found[2]
    assert len(set.union(*found[0].values())) == count


def test_other_batches_and_cells_have_other_names() -> None:
    names = [name for batch in (1, 2) for name, _ in name_results(batch, {0: [[5, 5]], 1: [[5]]})]
    assert len(set(names)) == 6


@pytest.mark.parametrize("seed", range(10))
def test_results_of_steps_are_named_by_what_they_are(seed: int) -> None:
    """Whatever the order and the cuts: equal rows by their ends, all zeros and NaNs alike, and nulls unlike values."""
    rng = random.Random(seed)
    chosen = [(type, [*values, None]) for type, values in rng.sample(TYPES, 2)]
    count = rng.randrange(1, 60)
    columns = {f"c{at}": pa.array(rng.choices(values, k=count), type) for at, (type, values) in enumerate(chosen)}
    columns["valid_from"] = pa.array(rng.choices([1, 2], k=count), pa.int64())
    columns["valid_to"] = pa.array(rng.choices([5, 6, None], k=count), pa.int64())
    table = pa.table(columns)
    found = []
    for _ in range(2):
        other = table.take(pa.array(rng.sample(range(count), count)))
        cut = rng.randrange(count + 1)
        named = pa.concat_tables(name_rows([other.slice(0, cut), other.slice(cut)]))
        found.append(sorted(map(repr, named.to_pylist())))
        assert len(set(named[COLUMN].to_pylist())) == count
    assert found[0] == found[1]


def test_the_name_of_a_result_of_a_step_goes_by_equality() -> None:
    odd = np.array([0.0, -0.0, np.nan, -np.nan]).view(np.int64)
    odd[3] += 1  # another NaN
    table = pa.table({"x": odd.view(np.float64), "valid_from": [1, 1, 1, 1], "valid_to": [1, 1, 1, 1]})
    names = [next(name_rows([table.slice(at, 1)]))[COLUMN][0].as_py() for at in range(4)]
    assert names[0] == names[1] != names[2] == names[3]


def test_the_longest_of_equal_results_of_a_step_is_the_first() -> None:
    """So a result has its name whether or not shorter ones are there."""
    rows = [{"x": 1, "valid_from": 0, "valid_to": end} for end in (None, 9, 4)]
    names = next(name_rows([pa.Table.from_pylist(rows)]))[COLUMN].to_pylist()
    assert next(name_rows([pa.Table.from_pylist(rows[:2])]))[COLUMN].to_pylist() == names[:2]


def test_results_carry_their_names_on_request(spark: Any, tmp_path: Path) -> None:
    rows = [(at % 3, at, at * SECOND) for at in range(12)]
    given = Input({"a": [rows + rows], "b": [rows]})
    given.write(tmp_path)
    frames = {name: spark.read.parquet(str(tmp_path / name)) for name in "ab"}
    windows = {"a": 5 * SECOND, "b": 5 * SECOND}
    table = ms.spark.sql(join_text(windows), frames, "ts", partitions=2, result_id=True).toArrow()
    assert table.column_names == ["a_v", "b_v", "valid_from", "valid_to", COLUMN]
    assert len(set(table[COLUMN].to_pylist())) == table.num_rows == sum(expect(given, windows).rows.values())
    text = "SELECT a.v AS result_id FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
    with pytest.raises(SparkError, match="the query has a column 'result_id' already; rename it with AS"):
        ms.spark.sql(text, frames, "ts", result_id=True)


def test_names_do_not_depend_on_the_thread_that_asks(spark: Any, tmp_path: Path) -> None:
    """A thread of a function for `foreachBatch` does not know the batch; equal results come in two of them."""
    rows = [(at % 3, at, at * SECOND) for at in range(12)]
    windows = {"a": 5 * SECOND, "b": 5 * SECOND}
    frames = Input({"a": [rows, rows], "b": [rows, []]}).frames(spark, tmp_path)
    joined = ms.spark.sql(join_text(windows), frames, "ts", LONG, partitions=2, result_id=True)
    names: list[list[str]] = []

    def take(frame: Any, number: int) -> None:
        worker = threading.Thread(target=lambda: names.append(frame.toArrow()[COLUMN].to_pylist()))
        worker.start()
        worker.join()

    writer = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sum(bool(found) for found in names) > 1
    found = [name for batch in names for name in batch]
    assert len(set(found)) == len(found) > 40
