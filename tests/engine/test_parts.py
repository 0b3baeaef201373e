"""The results of several places, put together, against one engine that has all rows."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.operators.group_parts import gives_states
from midstream.engine.operators.parts import parts_query, rounds_of
from midstream.engine.operators.rounds import Round

from ..blocks import blocks

SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "x": pa.float64(), "n": pa.int64(), "ts": pa.int64()})
SECOND = 1_000_000
AGGREGATES = "count(*) AS c, count(a.s) AS h, sum(a.n) AS n, avg(a.x) AS m"
JOINED = "FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k"
TUMBLING = "FROM a [TUMBLE 2 SECONDS], b [TUMBLE 6 SECONDS] WHERE a.k = b.k"
ENDLESS = "FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k"
TEXTS = {
    "distinct": f"SELECT DISTINCT a.x, a.s {JOINED}",
    "group": f"SELECT a.s, {AGGREGATES} {JOINED} GROUP BY a.s",
    "states": "SELECT a.s, count(*) AS c, count(a.s) AS h, sum(a.n) AS n, avg(b.n) AS m, min(a.x) AS x, max(b.s) AS y, "
    f"sum(CAST(a.k AS DECIMAL(38, 2))) AS d, avg(CAST(b.k AS DECIMAL(9, 2))) AS e {TUMBLING} GROUP BY a.s HAVING d > 1",
    "untold states": f"SELECT sum(b.n) AS t, avg(a.n) AS m {TUMBLING} GROUP BY a.k, b.s",
    "one state": f"SELECT DISTINCT sum(b.n) AS t, min(a.s) AS s {TUMBLING}",
    "states for ever": f"SELECT a.s, sum(b.n) AS n, max(b.x) AS x {ENDLESS} GROUP BY a.s",
    "states less states": f"SELECT a.k, sum(a.n) AS s {TUMBLING} GROUP BY a.k "
    f"EXCEPT SELECT b.k, max(b.n) {ENDLESS} GROUP BY b.k",
    "no aggregate": f"SELECT a.s {TUMBLING} GROUP BY a.s, a.n",
    "float key": f"SELECT a.x, count(*) AS c, sum(b.x) AS t {JOINED} GROUP BY a.x HAVING c > 1",
    "group untold": f"SELECT count(*) AS c {JOINED} GROUP BY a.s, a.x",
    "distinct groups": f"SELECT DISTINCT count(*) % 2 AS c, a.x > 0 AS y {JOINED} GROUP BY a.x, b.s",
    "one group": f"SELECT {AGGREGATES} {JOINED}",
    "only a count": f"SELECT count(*) AS c {JOINED}",
    "tumbling rows": "SELECT a.x, a.s FROM a [TUMBLE 2 SECONDS], b [TUMBLE 3 SECONDS] WHERE a.k = b.k",
    "tumbling groups": "SELECT a.k, sum(b.n) AS t FROM a [TUMBLE 2 SECONDS], b [UNBOUNDED] WHERE a.k = b.k GROUP BY 1",
    "for ever": "SELECT DISTINCT a.s FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k",
    "union": f"SELECT a.s, b.x {JOINED} UNION SELECT s, x FROM a [RANGE 2 SECONDS]",
    "except": f"SELECT k FROM a [RANGE 9 SECONDS] EXCEPT SELECT a.k {JOINED}",
    "all of them": f"SELECT a.x {JOINED} INTERSECT ALL SELECT x FROM a [TUMBLE 3 SECONDS] "
    f"EXCEPT ALL SELECT b.x {JOINED}",
    "nested": f"(SELECT a.n {JOINED} UNION ALL SELECT k FROM a [UNBOUNDED]) EXCEPT SELECT count(*) AS c {JOINED}",
    "groups": f"SELECT a.k, count(*) AS c, sum(a.x) AS s {JOINED} GROUP BY a.k EXCEPT ALL "
    f"SELECT DISTINCT b.k, count(b.s), max(b.x) {JOINED} GROUP BY b.k, b.s",
    "one group less": f"SELECT max(a.n) AS m, sum(a.x) AS s {JOINED} EXCEPT SELECT b.n, b.x {JOINED}",
    "groups for ever": "SELECT a.s, sum(b.n) AS n FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k GROUP BY a.s",
}


def rows_of(rng: random.Random, count: int, around: int) -> pa.Table:
    nan = float("nan")
    columns = [
        [rng.randrange(3) for _ in range(count)],
        [rng.choice(["p", "q", None]) for _ in range(count)],
        [rng.choice([0.0, -0.0, nan, -nan, 1.5, None]) for _ in range(count)],
        [rng.choice([1, -2, 2**62, None]) for _ in range(count)],
        [max(around, 0) + rng.randrange(-SECOND, SECOND) for _ in range(count)],
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA.names)


def counted(tables: Iterable[pa.Table]) -> collections.Counter[tuple[str, ...]]:
    return collections.Counter(
        tuple(map(repr, row.values())) for table in tables for row in table.to_pylist() if table.num_rows
    )


def finish(rng: random.Random, rounds: Iterable[Round], parts: list[pa.Table]) -> list[pa.Table]:
    """All rounds, each in two places."""
    for step in rounds:
        shares: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        for table in parts:
            for own, columns in step.spread(table):
                values = [column.to_pylist() for column in columns]
                keys = zip(*values, strict=True) if values else [()] * own.num_rows
                places = [_place(key) for key in keys]
                for place, share in enumerate(shares):
                    share.append(own.filter(pa.array([found == place for found in places], pa.bool_())))
        for share in shares:
            rng.shuffle(share)
        parts = [table for share in shares for table in step.finish(share)]
    return parts


def _place(key: tuple[Any, ...]) -> int:
    plain = tuple("nan" if value != value else 0.0 if value == 0 else value for value in key)
    return sum(map(ord, repr(plain))) % 2


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("seed", blocks(4))
def test_places_together_give_what_one_gives(kind: str, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    query = ms.query(TEXTS[kind], {"a": SCHEMA, "b": SCHEMA}, "ts", step=rng.choice(["6 seconds", "12 seconds"]))
    rounds = rounds_of(query)
    whole = ms.Engine(query)
    places = [ms.Engine(parts_query(query)) for _ in range(3)]
    watermark = -SECOND
    given = 0
    for batch in range(14):
        rows = {name: rows_of(rng, rng.randrange(9), batch * SECOND) for name in "ab"}
        watermark = max(watermark, (batch - rng.choice([1, 2, 7])) * SECOND)
        wanted = counted([whole.push(rows, watermark=watermark)])
        spread = [rng.randrange(3) for _ in range(rows["a"].num_rows)]
        shares = [
            rows | {"a": rows["a"].filter(pa.array([at == place for at in spread], pa.bool_()))} for place in range(3)
        ]
        parts = [place.push(share, watermark=watermark) for place, share in zip(places, shares, strict=True)]
        assert counted(finish(rng, rounds, parts)) == wanted
        given += sum(wanted.values())
    wanted = counted([whole.finish()])
    assert counted(finish(rng, rounds, [place.finish() for place in places])) == wanted
    assert given + sum(wanted.values()) > 0


def test_no_parts_give_no_rows() -> None:
    query = ms.query(TEXTS["group"], {"a": SCHEMA, "b": SCHEMA}, "ts")
    assert list(rounds_of(query)[0].finish([])) == []


def give_out(text: str) -> list[dict[str, Any]]:
    """The parts of three rows of one group and moment."""
    engine = ms.Engine(parts_query(ms.query(text, {"a": SCHEMA}, "ts")))
    rows = [{"k": 1, "s": None, "x": None, "n": n, "ts": 0} for n in (1, 2, None)]
    return engine.push({"a": rows}, watermark=2 * SECOND).to_pylist()


def test_a_count_knows_of_its_argument_only_whether_it_is_null() -> None:
    """So rows that differ in nothing else are one run."""
    found = give_out("SELECT a.k, count(a.n) AS c, sum(a.x) AS s FROM a [TUMBLE 2 SECONDS] GROUP BY a.k")
    assert [row["part_1"] for row in found].count(True) == 2
    assert [row["part_1"] for row in found].count(None) == 1


def test_a_place_gives_out_states_of_its_groups() -> None:
    """However many results there are, unless some aggregate needs all values."""
    buckets = "FROM a [TUMBLE 2 SECONDS] GROUP BY a.k"
    (part,) = give_out(f"SELECT a.k, count(*) AS c, count(a.n) AS h, sum(a.n) AS s, min(a.n) AS m {buckets}")
    assert [part[f"part_{place}"] for place in (0, 1, 2, 4)] == [1, 3, 2, 1]
    assert part["part_3"] == b"".join(word.to_bytes(8, "little") for word in (2, 3, 0, 0))
    assert len(give_out(f"SELECT a.k, count(*) AS c, count(DISTINCT a.n) AS h {buckets}")) == 3


def test_arguments_are_given_out_where_results_end_at_moments_of_their_own() -> None:
    """There every result changes a state twice."""

    def gives(window: str) -> bool:
        text = f"SELECT a.k, count(*) AS c FROM a [TUMBLE 2 SECONDS], b {window} WHERE a.k = b.k GROUP BY a.k"
        return gives_states(ms.query(text, {"a": SCHEMA, "b": SCHEMA}, "ts"))

    assert gives("[UNBOUNDED]") and gives("[TUMBLE 1 SECOND]") and not gives("[RANGE 9 SECONDS]")
