"""Rows and schemas in every form that people have them in, through the engine."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import midstream as ms
from midstream.errors import InputError, QueryError
from midstream.tables import as_table

TEXT = """SELECT o.id, o.name, p.amount FROM orders [RANGE 10 MINUTES] o, payments [RANGE 10 MINUTES] p
          WHERE o.id = p.id"""
MORNING = datetime.datetime(2026, 3, 1, 9)
TIMES = [MORNING, MORNING + datetime.timedelta(minutes=1)]
ORDERS = pa.schema({"ts": pa.timestamp("us"), "id": pa.int64(), "name": pa.string()})
PAYMENTS = pa.schema({"ts": pa.timestamp("us"), "id": pa.int64(), "amount": pa.float64()})
COLUMNS: dict[str, list[Any]] = {"ts": TIMES, "id": [1, 2], "name": ["ada", "bob"]}
EXPECTED = [(1, "ada", 12.5)]


class Exports:
    """Exports one of the capsules and nothing else."""

    def __init__(self, method: str, held: Any):
        setattr(type(self), method, lambda self, *arguments: getattr(held, method)(*arguments))


def make_exporter(method: str, held: Any) -> Any:
    return type("Exporter", (Exports,), {})(method, held)


def duck(columns: dict[str, list[Any]]) -> Any:
    held = pa.table(columns, schema=ORDERS)
    return duckdb.connect().from_arrow(held)


FORMS = {
    "table": lambda: pa.table(COLUMNS, schema=ORDERS),
    "batch": lambda: pa.record_batch(COLUMNS, schema=ORDERS),
    "reader": lambda: pa.table(COLUMNS, schema=ORDERS).to_reader(),
    "stream": lambda: make_exporter("__arrow_c_stream__", pa.table(COLUMNS, schema=ORDERS)),
    "array": lambda: make_exporter("__arrow_c_array__", pa.record_batch(COLUMNS, schema=ORDERS)),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas with an index": lambda: pd.DataFrame(COLUMNS, index=[7, 9]),
    "pandas on arrow": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas categories": lambda: pd.DataFrame(COLUMNS).astype({"name": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("name").cast(pl.Categorical)),
    "polars enum": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("name").cast(pl.Enum(["bob", "ada"]))),
    "duckdb": lambda: duck(COLUMNS),
    "columns": lambda: COLUMNS,
    "rows": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    "numpy columns": lambda: {
        "ts": np.array(TIMES, "M8[us]"),
        "id": np.array([1, 2], "i4"),
        "name": np.array(["ada", "bob"]),
    },
    "mixed columns": lambda: {"ts": pd.Series(TIMES), "id": pa.array([1, 2]), "name": pl.Series(["ada", "bob"])},
    "objects": lambda: {"ts": np.array(TIMES, object), "id": (1, 2), "name": pd.Index(["ada", "bob"])},
    "other spelling": lambda: {"TS": TIMES, "Id": [1, 2], "NAME": ["ada", "bob"]},
    "more columns": lambda: {**COLUMNS, "mixed": [1, "a"], "odd": object()},
}


def make_engine(orders: Any = ORDERS, payments: Any = PAYMENTS, **options: Any) -> ms.Engine:
    return ms.Engine(ms.query(TEXT, schemas={"orders": orders, "payments": payments}, event_time="ts"), **options)


def results(engine: ms.Engine, orders: Any) -> list[tuple[Any, ...]]:
    engine.push({"orders": orders})
    out = engine.push({"payments": [{"ts": TIMES[1], "id": 1, "amount": 12.5}]})
    return [tuple(row.values())[:-2] for row in out.to_pylist()]


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_every_form(form: str) -> None:
    assert results(make_engine(), FORMS[form]()) == EXPECTED


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("other spelling", "more columns")])
def test_a_schema_by_example_in_every_form(form: str) -> None:
    """The example tells the columns; what is pushed later may have another form."""
    engine = make_engine(orders=FORMS[form]())
    assert engine.query.schemas["orders"].names == ["ts", "id", "name"]
    assert engine.query.schemas["orders"].metadata is None
    assert results(engine, FORMS["table"]() if form != "numpy columns" else FORMS[form]()) == EXPECTED


SCHEMAS = {
    "pyarrow": ORDERS,
    "exported": make_exporter("__arrow_c_schema__", ORDERS),
    "polars": pl.DataFrame(COLUMNS).schema,
    "names of types": {"ts": "timestamp[us]", "id": "bigint", "name": "string"},
    "types of Python": {"ts": datetime.datetime, "id": int, "name": str},
    "types of Arrow and NumPy": {"ts": pa.timestamp("us"), "id": np.int64, "name": pa.string()},
    "dtypes": {"ts": np.dtype("M8[us]"), "id": np.dtype("i8"), "name": str},
    "an empty frame": pl.DataFrame(COLUMNS).clear(),
}


@pytest.mark.parametrize("form", SCHEMAS)
def test_schemas_in_every_form(form: str) -> None:
    engine = make_engine(orders=SCHEMAS[form])
    assert engine.query.schemas["orders"] == ORDERS
    assert results(engine, COLUMNS) == EXPECTED


def test_a_schema_does_not_consume_a_reader() -> None:
    reader = FORMS["reader"]()
    assert results(make_engine(orders=reader), reader) == EXPECTED


def test_static_tables_in_every_form() -> None:
    text = "SELECT o.id, o.name, p.amount FROM orders o, payments [RANGE 1 HOUR] p WHERE o.id = p.id"
    for form, make in FORMS.items():
        query = ms.query(text, schemas={"orders": ORDERS, "payments": PAYMENTS}, event_time="ts")
        engine = ms.Engine(query, tables={"orders": make()})
        out = engine.push({"payments": {"ts": TIMES, "id": [1, 3], "amount": [12.5, 3.0]}})
        assert [tuple(row.values())[:-2] for row in out.to_pylist()] == EXPECTED, form


def test_pieces_and_resume_take_every_form() -> None:
    engine = make_engine()
    for form in ("pandas", "rows"):
        assert list(engine.push_batches({"orders": FORMS[form]()})) == []
    resumed = ms.Engine.resume(engine.query, {"orders": FORMS["polars"]()}, MORNING)
    assert results(resumed, {"ts": [], "id": [], "name": []}) == EXPECTED


def test_what_is_missing_is_null() -> None:
    rows = [{"ts": TIMES[0], "id": 1}, {"ts": TIMES[1], "id": 2, "name": "bob"}]
    assert results(make_engine(), rows) == [(1, None, 12.5)]
    frame = pd.DataFrame({"ts": [*TIMES, pd.NaT], "id": [1, None, 2], "name": [None, "bob", "eve"]})
    engine = make_engine()
    assert results(engine, frame) == [(1, None, 12.5)]
    assert engine.stats().rejected["orders"] == {"null event time": 1}
    assert results(make_engine(), frame.to_dict("records")) == [(1, None, 12.5)]
    assert results(make_engine(), []) == []
    assert results(make_engine(), {**COLUMNS, "name": [None, None]}) == [(1, None, 12.5)]


def test_nan_is_missing_in_pandas_alone() -> None:
    schema = pa.schema({"x": pa.float64()})
    assert as_table(pd.DataFrame({"x": [1.0, np.nan]}), schema).column("x").null_count == 1
    for form in ({"x": [1.0, float("nan")]}, {"x": np.array([1.0, np.nan])}, pl.DataFrame({"x": [1.0, float("nan")]})):
        assert as_table(form, schema).column("x").null_count == 0


def test_values_take_the_declared_type() -> None:
    schema = pa.schema(
        {
            "d": pa.decimal128(10, 2),
            "u": pa.uint64(),
            "m": pa.map_(pa.string(), pa.int64()),
            "s": pa.struct({"a": pa.int32(), "b": pa.string()}),
            "l": pa.list_(pa.int16()),
            "c": pa.dictionary(pa.int32(), pa.string()),
            "z": pa.timestamp("ms", "Europe/Berlin"),
        }
    )
    moment = MORNING.replace(tzinfo=datetime.timezone.utc)
    rows = [
        {"d": decimal.Decimal("1.5"), "u": 2**63, "m": {"a": 1}, "s": {"a": 1}, "l": [1, 2], "c": "x", "z": moment},
        {"d": 2, "u": None, "m": [("b", 2)], "s": None, "l": [None], "c": None, "z": None},
    ]
    table = as_table(rows, schema)
    assert table.schema.types == [
        type_.value_type if pa.types.is_dictionary(type_) else type_ for type_ in schema.types
    ]
    assert table.column("m").to_pylist() == [[("a", 1)], [("b", 2)]]
    assert table.column("s").to_pylist() == [{"a": 1, "b": None}, None]


ZONED = pa.schema({"ts": pa.timestamp("us", "UTC"), "id": pa.int64(), "name": pa.string()})
AWARE = [time.replace(tzinfo=datetime.timezone.utc) for time in TIMES]


def test_moments_with_a_zone() -> None:
    engine = make_engine(ZONED, {"ts": "timestamp[us, tz=UTC]", "id": int, "amount": float})
    east = [time.astimezone(datetime.timezone(datetime.timedelta(hours=2))) for time in AWARE]
    engine.push({"orders": {**COLUMNS, "ts": east}})
    out = engine.push({"payments": [{"ts": AWARE[1], "id": 1, "amount": 12.5}]})
    assert out.column("valid_from").to_pylist() == [AWARE[1]]


def read_and_fail() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch(COLUMNS, schema=ORDERS)
    raise RuntimeError("the source is gone")


REFUSED = {
    "None": (None, "push: 'orders' is None; give a pyarrow Table, a pandas or polars frame, a dict of columns"),
    "text": ("rows", "push: 'orders' is str; give a pyarrow Table"),
    "numbers": ([1, 2], "push: 'orders' is a list whose item 0 is int; in a list of rows every row is a dict"),
    "array": (pa.array([1]), "push: 'orders' is pyarrow.Int64Array, which cannot be read as a table"),
    "series": (pl.Series([1]), "push: 'orders' is polars.Series, which cannot be read as a table"),
    "lazy": (pl.LazyFrame(COLUMNS), "push: 'orders' is polars.LazyFrame; call its collect() first"),
    "dataset": (ds.dataset(pa.table(COLUMNS)), "pyarrow.InMemoryDataset; call its to_table() first"),
    "one row": ({"ts": TIMES[0], "id": 1}, "has a column 'ts' that is datetime.datetime; give a list of values"),
    "generator": ({"ts": (time for time in TIMES)}, "has a column 'ts' that is generator; give a list of values"),
    "lengths": ({"ts": TIMES, "id": [1]}, "push: 'orders' has 2 values in column 'ts' but 1 in 'id'"),
    "mixed": (
        pd.DataFrame({**COLUMNS, "id": [1, "a"]}),
        "push: 'orders' has a column 'id' that cannot be read as one type: .*; its declared type is int64",
    ),
    "matrix": ({**COLUMNS, "id": np.ones((2, 2))}, "has a column 'id' that cannot be read as one type"),
    "index": (pd.DataFrame(COLUMNS).set_index("ts"), "has 'ts' as its index, .* with reset_index()"),
    "doubled": (pd.DataFrame([[1, 2]], columns=["id", "id"]), "push: 'orders' has two columns called 'id'"),
    "number as name": ({1: [1]}, "push: 'orders' has a column called 1; columns are named by text"),
    "missing": ([{"ts": TIMES[0], "name": "ada"}], "push: 'orders' has no column 'id'; columns given: ts, name"),
    "nothing": (pd.DataFrame([]), "push: 'orders' has no columns; if it has no rows now, leave it out of this push"),
    "fraction": ({**COLUMNS, "id": [1.5, 2]}, "column 'id' of 'orders' is double and does not cast to int64"),
    "truth": ({**COLUMNS, "id": [True, False]}, "column 'id' of 'orders' is bool and does not cast to int64"),
    "numbers as moments": ({**COLUMNS, "ts": [0, 1]}, "column 'ts' of 'orders' is int64 and does not cast"),
    "days as moments": ({**COLUMNS, "ts": [time.date() for time in TIMES]}, "column 'ts' of 'orders' is date32"),
    "zone": ({**COLUMNS, "ts": AWARE}, r"column 'ts' of 'orders' is timestamp\[us, tz=UTC\] and does not cast"),
    "half a zone": ({**COLUMNS, "ts": [TIMES[0], AWARE[1]]}, "mixes datetimes with and without a time zone"),
    "failing": (
        pa.RecordBatchReader.from_batches(ORDERS, read_and_fail()),
        "push: 'orders' is pyarrow.RecordBatchReader, which cannot be read as a table: .*the source is gone",
    ),
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_does_not_fit_is_refused_by_name(form: str) -> None:
    given, message = REFUSED[form]
    engine = make_engine()
    before = engine.stats()
    with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")):
        engine.push({"orders": given})
    assert engine.stats() == before
    assert results(engine, COLUMNS) == EXPECTED


def test_naive_moments_do_not_fit_a_zone() -> None:
    engine = make_engine(ZONED, {"ts": "timestamp[us, UTC]", "id": int, "amount": float})
    with pytest.raises(InputError, match=r"is timestamp\[us\] and does not cast to timestamp\[us, tz=UTC\]"):
        engine.push({"orders": COLUMNS})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "query: the schema of 'orders' is None; give a pyarrow schema"),
        ("id int", "query: the schema of 'orders' is str; give a pyarrow schema"),
        (pa.int64(), "query: the schema of 'orders' is pyarrow.DataType, which does not export"),
        ([], "query: the schema of 'orders' is an empty list, which tells no columns"),
        ({"id": "number"}, "query: the schema of 'orders' has a column 'id' of unknown type 'number'; types: bigint"),
        ({"id": int, "ts": [1]}, "query: the schema of 'orders' has list as the type of column 'ts'; give Arrow's"),
        ({"id": complex}, "query: the schema of 'orders' has complex as the type of column 'id'"),
        ({3: int}, "query: the schema of 'orders' has a column called 3; columns are named by text"),
        (pd.DataFrame({"id": [1, "a"]}), "query: the schema of 'orders' has a column 'id' that cannot be read as one"),
        (pl.LazyFrame(COLUMNS), "query: the schema of 'orders' is polars.LazyFrame; give a pyarrow schema"),
    ],
)
def test_schemas_that_do_not_fit_are_refused_by_name(given: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make_engine(orders=given)


def test_a_wrong_static_table_is_refused_by_name() -> None:
    text = "SELECT o.id FROM orders o, payments [RANGE 1 HOUR] p WHERE o.id = p.id"
    query = ms.query(text, schemas={"orders": ORDERS, "payments": PAYMENTS}, event_time="ts")
    with pytest.raises(InputError, match="tables: 'orders' is a list whose item 0 is str"):
        ms.Engine(query, tables={"orders": ["ada"]})  # type: ignore[list-item]
