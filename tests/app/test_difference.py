"""Two sets of results against a look at every moment."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import midstream as ms
from midstream.app.cli import app
from midstream.app.difference import find_difference
from midstream.errors import InputError

Row = tuple[int | None, int, int | None]
END = 30


def table(rows: list[Row]) -> pa.Table:
    columns: list[list[int | None]] = [[row[place] for row in rows] for place in range(3)]
    return pa.table(
        {
            name: pa.array(column, pa.int64())
            for name, column in zip(("k", "valid_from", "valid_to"), columns, strict=True)
        }
    )


def count(rows: list[Row], key: int | None, time: int) -> int:
    return sum(own == key and first <= time <= (END if last is None else last) for own, first, last in rows)


@pytest.mark.parametrize("seed", range(80))
def test_the_first_difference_is_that_of_every_moment(seed: int) -> None:
    rng = random.Random(seed)

    def draw() -> Row:
        first = rng.randint(-5, END - 2)
        return rng.choice([None, 1, 2]), first, rng.choice([None, rng.randint(first, END - 1)])

    left = [draw() for _ in range(rng.choice([0, 1, 4, 12]))]
    right = []
    for key, first, last in left:
        middle = rng.randint(first, END - 2 if last is None else last)
        right += (
            [(key, first, last)]
            if middle == last or rng.random() < 0.5
            else [(key, first, middle), (key, middle + 1, last)]
        )
    if rng.random() < 0.7:
        right = [row for row in right if rng.random() < 0.9] + [draw() for _ in range(rng.choice([0, 0, 1]))]
    rng.shuffle(right)
    wanted = [
        (time, key)
        for time in range(-5, END + 1)
        for key in (None, 1, 2)
        if count(left, key, time) != count(right, key, time)
    ]
    found = find_difference(table(left), table(right))
    if not wanted:
        assert found is None
        return
    assert found is not None and found.moment == wanted[0][0]
    key = found.row["k"]
    assert (found.moment, key) in wanted and found.rows == len({key for _, key in wanted})
    assert (found.left, found.right) == (count(left, key, found.moment), count(right, key, found.moment))  # type: ignore[arg-type]


def test_runs_in_other_steps_say_the_same(tmp_path: Path) -> None:
    rows = [{"k": number % 3, "ts": 700 * number} for number in range(40)]
    for step in ("1 millisecond", "3 milliseconds"):
        text = "SELECT a.k, count(*) AS n FROM a [RANGE 5 MILLISECONDS] GROUP BY a.k"
        engine = ms.Engine(ms.query(text, {"a": {"k": int, "ts": int}}, "ts", step=step))
        results = pa.concat_tables([engine.push({"a": rows}), engine.finish()])
        parquet.write_table(results, tmp_path / f"{step[0]}.parquet")
    names = [str(tmp_path / f"{step}.parquet") for step in "13"]
    result = CliRunner().invoke(app, ["diff", *names])
    assert result.exit_code == 0 and "The same at every moment" in result.output
    folder = tmp_path / "folder"
    folder.mkdir()
    parquet.write_table(results.slice(1), folder / "part.parquet")
    result = CliRunner().invoke(app, ["diff", names[0], str(folder)])
    assert result.exit_code == 1 and "They differ first at 0: k=0, n=1" in result.output


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = table([(1, 0, 5)])
    with pytest.raises(InputError, match="diff: A has the columns k, B has x; compare equal ones"):
        find_difference(one, one.rename_columns(["x", "valid_from", "valid_to"]))
    with pytest.raises(InputError, match="diff: column 'k' is int64 in A and string in B; write both with one type"):
        find_difference(one, one.set_column(0, "k", pa.array(["1"])))
    nested = one.set_column(0, "k", pa.array([[1]]))
    with pytest.raises(InputError, match="diff: column 'k' is list<item: int64>, which cannot be compared"):
        find_difference(nested, nested)
    csv.write_csv(one.drop_columns("valid_to"), tmp_path / "a.csv")
    result = CliRunner().invoke(app, ["diff", str(tmp_path / "a.csv"), str(tmp_path / "a.csv")])
    assert result.exit_code != 0 and "no column 'valid_to'" in str(result.exception)


def test_files_may_write_the_same_values_in_other_types(tmp_path: Path) -> None:
    """As Spark's Parquet files, CSV files and tables of the engine do."""
    moments, fine = pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns")

    def write(time: pa.DataType, unit: int, number: pa.DataType, double: pa.DataType, text: pa.DataType) -> pa.Table:
        return pa.table(
            {
                "t": pa.array([5 * unit, None], time),
                "n": pa.array([1, 2], number),
                "x": pa.array([0.5, None], double),
                "s": pa.array(["a", None], text),
                "valid_from": pa.array([unit, 2 * unit], time),
                "valid_to": pa.array([3 * unit, None], time),
            }
        )

    one = write(moments, 1, pa.int64(), pa.float64(), pa.string())
    other = write(fine, 1000, pa.int32(), pa.float32(), pa.large_string())
    assert find_difference(one, other) is None
    with pytest.raises(InputError, match="column 't' cannot be compared as timestamp"):
        find_difference(one, write(fine, 1, pa.int32(), pa.float32(), pa.large_string()))


def test_a_place_without_results_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for place, message in ((empty, "has no Parquet files"), (tmp_path / "none.parquet", "there is no ")):
        assert message in str(CliRunner().invoke(app, ["diff", str(place), str(place)]).exception)
