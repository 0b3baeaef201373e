"""Routing: lanes, the query of a cell, hot keys, fingerprints, and how rows are split."""

from __future__ import annotations

import collections
import datetime
import itertools
import json
import pickle
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.model import Query
from midstream.spark.routing.router import Router, Split
from midstream.spark.routing.rules import Routing, find_difference, routing_for
from midstream.state import sizes
from tests.oracle.compare import multiset, rows_of

from .cells_run import CellsRun, check_split

SCHEMA = pa.schema(
    {
        "id": pa.int64(), "n": pa.int32(), "f": pa.float64(), "g": pa.float32(), "s": pa.string(),
        "c": pa.dictionary(pa.int32(), pa.string()), "d": pa.decimal128(9, 2), "b": pa.bool_(), "raw": pa.binary(),
        "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "tags": pa.list_(pa.int64()), "ts": pa.int64(),
    }
)  # fmt: skip
STREAMS = ("o", "p", "q", "r")


def make(text: str, **schemas: pa.Schema) -> Query:
    text = text.replace("[W]", "[RANGE 100 MICROSECONDS]")
    return ms.query(text, schemas={**dict.fromkeys(STREAMS, SCHEMA), **schemas}, event_time="ts")


def moment(hour: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.timezone.utc)


def make_table(rows: int, seed: int = 0, keys: int = 10, nulls: float = 0.1) -> pa.Table:
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < nulls else value

    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for place in range(rows):
        key = rng.randrange(keys)
        values = {
            "id": key, "n": rng.randrange(keys), "f": rng.choice([0.0, -0.0, float("nan"), key]), "g": float(key),
            "s": f"key {key}", "c": f"c{key}", "d": Decimal(key) / 4, "b": key % 2 == 0, "raw": bytes([key]),
            "day": datetime.date(2024, 1, 1 + key), "at": moment(key), "tags": [key],
        }  # fmt: skip
        for name, value in values.items():
            columns[name].append(maybe(value))
        columns["ts"].append(place // 2)
    return pa.table(columns, schema=SCHEMA)


def bag(tables: Iterable[pa.Table]) -> collections.Counter[Any]:
    """The rows of tables as a multiset."""
    plain = [table.drop_columns([name for name in table.column_names if name == "tags"]) for table in tables]
    return multiset(row for table in plain for row in rows_of(table))


def agrees(query: Query, data: dict[str, pa.Table], cells: int, **options: Any) -> CellsRun:
    """The union of what the cells find is what one engine finds."""
    run = CellsRun(routing_for(query, cells, **options))
    whole = ms.Engine(query)
    total = 0
    for begin in range(0, max(table.num_rows for table in data.values()), 40):
        batch = {name: table.slice(begin, 40) for name, table in data.items()}
        expected = bag([whole.push(batch, watermark=begin // 2 - 20)])
        assert bag(run.push(batch, watermark=begin // 2 - 20)) == expected
        total += sum(expected.values())
    assert total > 0
    return run


def data_for(query: Query, rows: int = 120, **options: Any) -> dict[str, pa.Table]:
    return {name: make_table(rows, seed, **options) for seed, name in enumerate(query.streams)}


KEY = make("SELECT o.id, p.n FROM o [W], p [W] WHERE o.id = p.id")
CHAIN = make("SELECT o.id, p.n, q.s FROM o [W], p [W], q [W] WHERE o.id = p.id AND p.n = q.n")
TRIANGLE = make("SELECT o.id, p.n, q.s FROM o [W], p [W], q [W] WHERE o.id = p.id AND p.n = q.n AND q.s = o.s")

# Results once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        "o.id = p.id",
        "o.n = p.id",
        "o.id = p.f",
        "o.f = p.f",
        "o.g = p.f",
        "o.d = p.id",
        "o.d = p.d",
        "o.s = p.s",
        "o.c = p.c",
        "o.b = p.b",
        "o.raw = p.raw",
        "o.day = p.day",
        "o.at = p.at",
        "upper(o.s) = upper(p.s)",
        "o.id + 1 = p.n",
        "o.id = p.id AND o.s = p.s",
        "abs(o.id - p.id) <= 1",
        "o.id < p.n AND o.s <> p.s",
        "o.id = p.id AND o.n > 3 AND p.s LIKE '%5'",
    ],
)
def test_any_kind_of_key(where: str) -> None:
    query = make(f"SELECT o.ts, p.ts AS t, o.f, p.c, p.tags FROM o [W], p [W] WHERE {where}")
    for cells in (1, 2, 3, 8):
        agrees(query, data_for(query), cells)


@pytest.mark.parametrize("key", ["concat({0}.s, {0}.s, {0}.s)", "length(replace({0}.s, '1', 'yyyyyyyyyy'))"])
def test_keys_much_longer_than_their_columns(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Routed and joined as if an array held a few hundred bytes."""
    where = f"{key.format('o')} = {key.format('p')} AND upper(o.s) <> 'KEY 1'"
    query = make(f"SELECT o.ts, p.ts AS t, concat(o.s, p.s, o.s, p.s) AS s FROM o [W], p [W] WHERE {where}")
    sent = agrees(query, data_for(query), 3).sent
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 300)
    assert agrees(query, data_for(query), 3).sent == sent


@pytest.mark.parametrize("query", [CHAIN, TRIANGLE])
@pytest.mark.parametrize("cells", [2, 6, *(pytest.param(cells, marks=pytest.mark.slow) for cells in (4, 8))])
def test_hot_keys_in_several_dimensions(query: Query, cells: int) -> None:
    data = data_for(query, 60, keys=4)
    for hot in ({"o.id": [1, 2]}, {"id": [3], "q.n": [0, 1]}, {"p.id": range(4), "p.n": range(4)}):
        for rates in (None, {"p": 7}, {"q": 5}):
            agrees(query, data, cells, hot_keys=hot, rates=rates)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("f", [0.0, float("nan"), 3]),
        ("f", [-0.0]),
        ("g", [1.0]),
        ("s", ["key 1", "key 2"]),
        ("c", ["c3"]),
        ("d", [Decimal("0.5"), 1]),
        ("b", [True]),
        ("raw", [b"\1"]),
        ("day", [datetime.date(2024, 1, 3)]),
        ("at", [moment(2)]),
    ],
)
def test_hot_values_of_every_type(column: str, values: list[Any]) -> None:
    query = make(f"SELECT o.ts, p.ts AS t FROM o [W], p [W] WHERE o.{column} = p.{column}")
    run = agrees(query, data_for(query), 4, hot_keys={f"p.{column}": values})
    assert run.sent > agrees(query, data_for(query), 4).sent, "partners of hot rows are copied"


def test_self_joins() -> None:
    for where in ("a.id = b.n", "a.id = b.id", "a.id = b.id AND a.n > 3", "a.id = b.id AND b.n = c.n", "a.id < b.id"):
        names = "o [W] a, o [W] b" + (", o [W] c" if "c." in where else "")
        query = make(f"SELECT a.ts, b.ts AS t, b.s FROM {names} WHERE {where}")
        for cells, hot in itertools.product((1, 2, 4), (None, {"a.id": [1, 2]})):
            agrees(query, data_for(query), cells, hot_keys=hot if "a.id =" in where else None)


# Lanes and the query of a cell ---------------------------------------------------------------------------------------


def lanes(routing: Routing) -> list[tuple[str, list[str]]]:
    return [(lane.name, [routing.query.aliases[number] for number in lane.inputs]) for lane in routing.lanes]


def test_aliases_share_a_lane_if_they_are_routed_alike() -> None:
    same = make("SELECT a.ts FROM o [W] a, o [RANGE 5 SECONDS] b, p [W] WHERE a.id = b.id AND a.id = p.id")
    assert lanes(routing_for(same, 4)) == [("o", ["a", "b"]), ("p", ["p"])]
    hot = routing_for(same, 4, hot_keys={"a.id": [1]})
    assert lanes(hot) == [("o as a", ["a"]), ("o as b", ["b"]), ("p", ["p"])]
    by_p = routing_for(same, 4, rates={"p": 2}, hot_keys={"a.id": [1]})
    assert lanes(by_p) == [("o", ["a", "b"]), ("p", ["p"])]


def test_aliases_that_are_routed_in_other_ways_have_their_own_lanes() -> None:
    other = make("SELECT a.ts FROM o [W] a, o [W] b, o [W] c WHERE a.id = b.n AND b.n = c.id")
    assert lanes(routing_for(other, 4)) == [("o as a", ["a", "c"]), ("o as b", ["b"])]
    assert lanes(routing_for(other, 1)) == [("o", ["a", "b", "c"])]
    filtered = make("SELECT a.ts FROM o [W] a, o [W] b WHERE a.id = b.id AND a.n > 3")
    assert lanes(routing_for(filtered, 1)) == [("o as a", ["a"]), ("o as b", ["b"])]


def test_a_lane_takes_no_source_s_name() -> None:
    query = make(
        "SELECT a.ts FROM o [W] a, o [W] b, `O as A` [W] x WHERE a.id = b.n AND a.id = x.id", **{"O as A": SCHEMA}
    )
    assert [name for name, _ in lanes(routing_for(query, 2))] == ["o as a'", "o as b", "O as A"]


def test_two_lanes_never_have_one_name() -> None:
    query = make(
        "SELECT x.ts FROM o [W] x, o [W] `p as y`, `o as p` [W] y, `o as p` [W] z "
        "WHERE x.id = `p as y`.id AND x.id = y.id AND x.id = z.id AND x.n > 1 AND y.n > 1",
        **{"o as p": SCHEMA},
    )
    names = [name for name, _ in lanes(routing_for(query, 2))]
    assert names == ["o as x", "o as p as y", "o as p as y'", "o as p as z"]


def test_only_needed_columns_travel_and_filters_are_done() -> None:
    query = make("SELECT p.c FROM o [W], p [W] WHERE o.id = p.id AND o.n > 3 AND o.f < p.f AND p.s = 'a'")
    cell = routing_for(query, 4).cell_query
    assert cell.schemas["o"].names == ["id", "f", "ts"]
    assert cell.schemas["p"] == pa.schema({"id": pa.int64(), "f": pa.float64(), "c": pa.string(), "ts": pa.int64()}), (
        "dictionaries travel as values"
    )
    assert all(relation.filters == () for relation in cell.inputs)
    assert cell.output_schema.equals(query.output_schema)


def test_delays_are_those_of_the_lane_s_source() -> None:
    query = ms.query(
        "SELECT a.ts FROM o [RANGE 1 HOUR] a, o [RANGE 1 HOUR] b WHERE a.id = b.n",
        schemas={"o": SCHEMA}, event_time="ts", delay="3 seconds",
    )  # fmt: skip
    assert routing_for(query, 2).cell_query.delays == {"o as a": 3_000_000, "o as b": 3_000_000}


def test_rows_windows_keep_everything() -> None:
    query = make("SELECT a.n FROM o [ROWS 3] a, o [W] b, p [W] WHERE a.id = b.n AND b.n = p.id AND a.s = 'x'")
    routing = routing_for(query, 1)
    assert lanes(routing) == [("o", ["a", "b"]), ("p", ["p"])]
    assert [relation.filters for relation in routing.cell_query.inputs] == [
        relation.filters for relation in query.inputs
    ]
    assert routing.cell_query.schemas["o"].names == ["id", "n", "s", "ts"]
    split = Router(routing, "o").split(make_table(50))
    assert split.dropped == 0 and split.parts[0].rows.num_rows == 50


def test_a_table_that_only_multiplies_keeps_a_column() -> None:
    query = make("SELECT o.id FROM o [W] CROSS JOIN p")
    routing = routing_for(query, 4)
    assert routing.cell_query.schemas["p"].names == ["id"]
    assert sum(part.home for part in Router(routing, "p").split(make_table(20)).parts) == 20


def test_a_routing_can_be_sent() -> None:
    routing = routing_for(TRIANGLE, 8, {"o": 2}, {"o.id": [3]})
    again = pickle.loads(pickle.dumps(routing))
    assert again.fingerprint() == routing.fingerprint()
    assert again.cell_query.schemas == routing.cell_query.schemas


# How rows are split --------------------------------------------------------------------------------------------------


def split(routing: Routing, source: str, rows: pa.Table | pa.RecordBatch) -> Split:
    found = Router(routing, source).split(rows)
    check_split(routing, source, found)
    return found


def cells_by_row(found: Split, lane: int) -> dict[int, list[int]]:
    """The cells of each row, told by its event time."""
    cells = collections.defaultdict(list)
    for part in found.parts:
        if part.lane == lane:
            for ts in part.rows.column("ts").to_pylist():
                cells[ts].append(part.cell)
    return cells


def number_rows(ids: list[Any], **more: list[Any]) -> pa.Table:
    columns = {name: more.get(name, [None] * len(ids)) for name in SCHEMA.names}
    return pa.table({**columns, "id": ids, "ts": list(range(len(ids)))}, schema=SCHEMA)


def test_copies_go_along_the_other_dimension() -> None:
    routing = routing_for(CHAIN, 4)
    copied = cells_by_row(split(routing, "o", number_rows(list(range(50)))), 0)
    for cells in copied.values():
        assert len(cells) == 2 and cells[1] - cells[0] == 2, "same x, every y"
    single = cells_by_row(split(routing, "p", number_rows(list(range(50)), n=list(range(50)))), 1)
    assert all(len(cells) == 1 for cells in single.values())
    for ts, cells in single.items():
        assert cells[0] in copied[ts], "the row with the same id meets it"


def test_home_rows_come_first() -> None:
    routing = routing_for(KEY, 4, hot_keys={"o.id": [1]})
    found = split(routing, "p", number_rows([1, 2, 3, 1, 4, 5, 6, 7, 8, 9, 1]))
    homes: collections.Counter[int] = collections.Counter()
    for part in found.parts:
        homes.update(part.rows.column("ts").to_pylist()[: part.home])
    assert homes == dict.fromkeys(range(11), 1)
    cells = cells_by_row(found, 1)
    assert all(sorted(cells[ts]) == [0, 1, 2, 3] for ts in (0, 3, 10)) and all(
        len(cells[ts]) == 1 for ts in (1, 2, 4, 5)
    )


def test_hot_rows_are_spread_evenly() -> None:
    routing = routing_for(KEY, 8, hot_keys={"p.id": [1]})
    found = split(routing, "o", number_rows([1] * 16_000))
    counts = [part.rows.num_rows for part in found.parts]
    assert len(counts) == 8 and max(abs(count - 2000) for count in counts) < 300


@pytest.mark.parametrize("cells", [2, 3, 8])
def test_consecutive_integers_are_spread_evenly(cells: int) -> None:
    counts = [
        part.rows.num_rows for part in split(routing_for(KEY, cells), "o", number_rows(list(range(24_000)))).parts
    ]
    mean = 24_000 / cells
    assert len(counts) == cells and max(abs(count - mean) for count in counts) < 6 * mean**0.5


def test_where_a_row_goes_does_not_depend_on_where_it_stands() -> None:
    rows = make_table(300)
    order = np.random.default_rng(3).permutation(300)
    for query in (KEY, CHAIN, make("SELECT o.ts, p.s, o.tags FROM o [W], p [W] WHERE o.f < p.f")):
        routing = routing_for(query, 6, hot_keys=None if not query.key_classes else {"o.id": [1]})
        whole, shuffled = (split(routing, "o", table) for table in (rows, rows.take(pa.array(order))))
        parts = [split(routing, "o", rows.slice(begin, 7)) for begin in range(0, 300, 7)]
        expected = {part.cell: bag([part.rows]) for part in whole.parts}
        for others in ([shuffled], parts):
            found: dict[int, list[pa.Table]] = collections.defaultdict(list)
            for part in (part for routed in others for part in routed.parts):
                found[part.cell].append(part.rows)
            assert {cell: bag(tables) for cell, tables in found.items()} == expected


def test_rows_that_do_not_travel_are_counted() -> None:
    query = make("SELECT o.ts FROM o [W], p [W] WHERE o.id = p.id AND o.n > 3")
    rows = number_rows([1, None, 2, 3], n=[4, 5, 1, 9]).set_column(12, "ts", pa.array([1, 2, 3, None], pa.int64()))
    for cells in (1, 2):
        found = split(routing_for(query, cells), "o", rows)
        assert (found.rows, found.dropped, found.rejected) == (4, 2, 1)
        assert found.refused == {"null event time": 1}
        assert found.newest == 3, "a filter does not hide how far the stream is"
        assert [part.rows.to_pylist() for part in found.parts] == [[{"id": 1, "ts": 1}]]


def test_a_row_that_travels_in_two_lanes_is_counted_once() -> None:
    query = make("SELECT a.ts FROM o [W] a, o [W] b WHERE a.id = b.id AND a.n > 3 AND b.n < 6")
    found = split(routing_for(query, 2), "o", number_rows([1, 2, 3, None], n=[5, 9, 0, 5]))
    assert found.dropped == 1
    assert [sum(part.home for part in found.parts if part.lane == lane) for lane in (0, 1)] == [2, 1]
    assert [sum(part.rows.num_rows for part in found.parts if part.lane == lane) for lane in (0, 1)] == [2, 2]


def test_one_cell_takes_the_columns_as_they_are() -> None:
    rows = number_rows(list(range(10))).combine_chunks()
    (part,) = split(routing_for(KEY, 1), "o", rows).parts
    address = part.rows.column("id").chunk(0).buffers()[1].address
    assert address == rows.column("id").chunk(0).buffers()[1].address


def test_batches_chunks_and_empty_tables() -> None:
    rows = make_table(60)
    for cells in (1, 4):
        routing = routing_for(CHAIN, cells)
        whole = split(routing, "p", rows)
        batch = split(routing, "p", rows.combine_chunks().to_batches()[0])
        chunked = split(routing, "p", pa.concat_tables([rows.slice(0, 7), rows.slice(7)]))
        for other in (batch, chunked):
            assert [(part.cell, part.home, part.rows.to_pylist()) for part in other.parts] == [
                (part.cell, part.home, part.rows.to_pylist()) for part in whole.parts
            ]
        assert split(routing, "p", rows.slice(0, 0)) == Split((), 0, 0, {})


def test_unknown_streams_and_missing_columns() -> None:
    with pytest.raises(ms.InputError, match="unknown stream 'x'; streams: o, p"):
        Router(routing_for(KEY, 2), "x")
    with pytest.raises(ms.InputError, match="'o' has no column 'id'"):
        Router(routing_for(KEY, 2), "O").split(pa.table({"ts": [1]}))


@pytest.mark.parametrize(
    ("column", "values", "cells"),
    [
        ("id", [0, 1, 2, -1, 17, 2**62], "188655"),
        ("f", [0.0, -0.0, float("nan"), 1.5, -1e300], "11883"),
        ("s", ["", "a", "key 17", "a rather long key", "é"], "10337"),
        ("d", [Decimal("0.25"), Decimal(-3), Decimal("99.99")], "469"),
        ("b", [False, True], "18"),
        ("raw", [b"", b"a", b"key 17"], "103"),
        ("day", [datetime.date(1970, 1, 2), datetime.date(2024, 2, 29)], "85"),
        ("at", [moment(0), moment(1), moment(2)], "875"),
    ],
)
def test_the_hash_never_changes(column: str, values: list[Any], cells: str) -> None:
    """Rows that a checkpoint keeps were routed by it: if this fails, `HASH_FORMAT` needs another number."""
    query = make(f"SELECT o.ts FROM o [W], p [W] WHERE o.{column} = p.{column}")
    rows = number_rows([None] * len(values), **{column: values}) if column != "id" else number_rows(values)
    found = cells_by_row(split(routing_for(query, 10), "o", rows), 0)
    assert "".join(str(found[ts][0]) for ts in range(len(values))) == cells


# Fingerprints and explanations ---------------------------------------------------------------------------------------


def test_a_fingerprint_tells_what_counts() -> None:
    routing = routing_for(CHAIN, 4, hot_keys={"p.id": [7, 3]})
    assert json.loads(json.dumps(routing.fingerprint())) == {
        "hash": 1,
        "cells": 4,
        "dimensions": [{"of": "o.id = p.id (int64)", "share": 2}, {"of": FINGERPRINT_N, "share": 2}],
        "hot keys": [{"of": "o.id = p.id (int64)", "spread": "o", "values": ["3", "7"]}],
        "lanes": [{"of": "o", "as": ["o"]}, {"of": "p", "as": ["p"]}, {"of": "q", "as": ["q"]}],
    }


FINGERPRINT_N = "CAST(p.n AS int64) = CAST(q.n AS int64) (int64)"


def test_fingerprints_that_are_the_same() -> None:
    base = routing_for(CHAIN, 4).fingerprint()
    assert routing_for(CHAIN, 4, {"o": 1.2}).fingerprint() == base, "rates that give the same shares"
    assert routing_for(KEY, 1, hot_keys={"o.id": [1]}).fingerprint() == routing_for(KEY, 1).fingerprint()
    float_key = make("SELECT o.ts FROM o [W], p [W] WHERE o.f = p.f")
    prints = [
        routing_for(float_key, 2, hot_keys=hot).fingerprint()
        for hot in ({"o.f": [0.0, 1.0, 2.0]}, {"p.f": [2, -0.0, 1]}, {"o.f": [1.0, 2.0], "p.f": [0.0, 1.0]})
    ]
    assert prints[0] == prints[1] == prints[2]


@pytest.mark.parametrize(
    ("query", "cells", "options", "told"),
    [
        (CHAIN, 8, {}, "cells: the checkpoint has 4, the query has 8"),
        (CHAIN, 4, {"rates": {"o": 10}}, "dimensions: the checkpoint has of o.id = p.id (int64), share 2, "
         "the query has of o.id = p.id (int64), share 4"),
        (CHAIN, 4, {"hot_keys": {"o.id": [5]}}, "hot keys: the checkpoint has none, the query has "
         "of o.id = p.id (int64), spread o, values 5"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told(query: Query, cells: int, options: dict[str, Any], told: str) -> None:
    stored = routing_for(CHAIN, 4).fingerprint()
    assert find_difference(stored, stored) is None
    assert find_difference(stored, routing_for(query, cells, **options).fingerprint()) == told


def test_the_spread_input_of_hot_keys_is_part_of_the_fingerprint() -> None:
    """Rows that were spread must not be copied later, nor the other way round."""
    plain, weighted = (routing_for(KEY, 4, rates, {"o.id": [1]}).fingerprint() for rates in (None, {"p": 2}))
    assert "spread o" in str(find_difference(plain, weighted)) and "spread p" in str(find_difference(plain, weighted))


def test_explanation() -> None:
    query = make("SELECT a.ts FROM o [W] a, o [W] b, p [W] WHERE a.id = b.n AND b.f < p.f")
    assert routing_for(query, 4, hot_keys={"a.id": [1, 2]}).explain().splitlines() == [
        "4 cells",
        "",
        "dimension                          share",
        "a.id = CAST(b.n AS int64) (int64)      2",
        "rows of p                              2",
        "",
        "stream  as  copies",
        "o       a        2",
        "o       b        2",
        "p       p        2",
        "",
        "hot key                            spread  values",
        "a.id = CAST(b.n AS int64) (int64)  a       1, 2",
    ]


# Hot keys that make no sense -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hot", "message"),
    [
        ({"x.id": [1]}, "unknown stream 'x' in 'x.id'; join keys: o.id, p.id, p.n, q.n"),
        ({"o.nix": [1]}, "unknown column 'o.nix'; join keys: o.id"),
        ({"nix": [1]}, "unknown column 'nix'"),
        ({"o.s": ["a"]}, "'o.s' is not a join key of the query; join keys: o.id"),
        ({"o.id": ["17"]}, "'17' is not a value of 'o.id', which is int64"),
        ({"o.id": [1.5]}, "1.5 is not a value"),
        ({"o.id": [True]}, "True is not a value"),
        ({"o.id": [None]}, "None is not a value"),
        ({"o.id": [2**63]}, "is not a value"),
        ({"p.n": [2**31]}, "is not a value of 'p.n', which is int32"),
        ({"o.id": 17}, "'o.id' has 17; give a list of values"),
        ({"o.id": "17"}, "give a list of values"),
    ],
)
def test_wrong_hot_keys(hot: dict[str, Any], message: str) -> None:
    with pytest.raises(ms.QueryError, match=message):
        routing_for(CHAIN, 4, hot_keys=hot)


def test_a_name_may_be_short_where_it_is_clear() -> None:
    query = make("SELECT a.ts FROM o [W] a, p [W] b, q [W] c WHERE a.id = b.id AND b.n = c.id")
    assert routing_for(query, 4, hot_keys={"P.ID": [1]}).grids == routing_for(query, 4, hot_keys={"a.id": [1]}).grids
    with pytest.raises(ms.QueryError, match=r"'id' is ambiguous, .* write a.id, b.id, c.id"):
        routing_for(query, 4, hot_keys={"id": [1]})
