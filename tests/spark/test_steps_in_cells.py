"""Queries with steps in cells whose engines go on or are loaded from the store, against one engine that never stops.

Every batch is run twice, once on the engine that is there and once on one that is loaded from what the cell has stored,
and both have to give out the same. What all cells give out is put together as on Spark. Some runs change plans, and
some go on with a smaller window, as a restart may.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.operators.rounds import PartsToSpread
from midstream.options import EngineOptions
from midstream.spark import processor
from midstream.spark.commands.messages import Command
from midstream.spark.parcels import finishing
from midstream.spark.parcels.finishing import find_partitions
from midstream.spark.parcels.result_ids import COLUMN
from midstream.spark.spec import JoinSpec
from tests.eager import eager

from .attempts import Batches, count_rows
from .finishing_run import put_together
from .test_attempts import PAIR, PLANS, SCHEMA, STATIC, STRATEGIES, some_rows

TRIPLE = "FROM a [RANGE 4 SECONDS], b [RANGE 9 SECONDS], c [RANGE 2 SECONDS] WHERE a.k = b.k AND b.k = c.k"
AGGREGATES = "count(*) AS c, count(b.l) AS l, sum(b.k) AS s, avg(b.d) AS m"
OTHER_PAIR = PAIR.replace("b [RANGE 9 SECONDS]", "c [RANGE 3 SECONDS] b")
KINDS = {
    "distinct": f"SELECT DISTINCT a.t, b.d {PAIR}",
    "distinct of three": f"SELECT DISTINCT a.t, c.d {TRIPLE}",
    "groups": f"SELECT a.t, {AGGREGATES} {PAIR} GROUP BY a.t",
    "having": f"SELECT b.d, count(*) AS c {PAIR} GROUP BY b.d HAVING c > 1",
    "untold groups": f"SELECT count(*) % 3 AS c {PAIR} GROUP BY a.t, b.d",
    "one group": f"SELECT {AGGREGATES} {PAIR}",
    "buckets": "SELECT a.t, b.d FROM a [TUMBLE 2 SECONDS], b [TUMBLE 3 SECONDS] WHERE a.k = b.k",
    "bucket totals": "SELECT a.t, count(b.l) AS c, sum(b.k) AS s, avg(a.k) AS m, max(b.d) AS x, min(b.t) AS y "
    "FROM a [TUMBLE 2 SECONDS], b [TUMBLE 3 SECONDS] WHERE a.k = b.k GROUP BY a.t",
    "bucket groups": "SELECT a.k, count(*) AS c FROM a [TUMBLE 6 SECONDS] GROUP BY a.k",
    "unbounded": "SELECT a.d, count(*) AS c FROM a [UNBOUNDED], b [RANGE 3 SECONDS] WHERE a.k = b.k GROUP BY a.d",
    "three": f"SELECT a.t, sum(c.k) AS s {TRIPLE} GROUP BY a.t",
    "static": f"SELECT s.name, count(*) AS c {PAIR.replace(' WHERE', ', s WHERE')} AND s.k = a.k GROUP BY s.name",
    "union": f"SELECT a.t, b.d {PAIR} UNION SELECT t, d FROM a [RANGE 3 SECONDS]",
    "difference": f"SELECT k FROM a [RANGE 9 SECONDS] EXCEPT SELECT a.k {PAIR}",
    "all of them": f"SELECT a.t {PAIR} EXCEPT ALL SELECT b.t {PAIR} INTERSECT ALL SELECT t FROM b [RANGE 9 SECONDS]",
    "nested": f"SELECT a.d {PAIR} EXCEPT (SELECT a.d {OTHER_PAIR} UNION ALL SELECT d FROM b [TUMBLE 1 SECOND])",
    "groups less groups": f"SELECT a.t, count(*) AS c {PAIR} GROUP BY a.t EXCEPT ALL "
    f"SELECT DISTINCT b.t, count(b.l) {OTHER_PAIR} GROUP BY b.t, b.d",
    "rows less one group": f"SELECT k FROM b [RANGE 9 SECONDS] EXCEPT SELECT max(a.k) {PAIR}",
    "less a table": f"SELECT a.k, b.t {PAIR} EXCEPT SELECT k, name FROM s",
    "also in tables": f"SELECT a.k {PAIR} INTERSECT ALL SELECT x.k FROM s x, s y WHERE x.k = y.k",
    "three less one": f"SELECT a.t, c.d {TRIPLE} EXCEPT SELECT t, d FROM b [RANGE 1 SECOND]",
    "at once": f"SELECT a.t, b.d {PAIR} UNION ALL SELECT t, d FROM b [UNBOUNDED] "
    f"UNION ALL SELECT b.t, a.d {OTHER_PAIR}",
}
#: Kinds with a window that a restart makes smaller, and whose step follows from it.
FOLLOWING = frozenset({"distinct", "groups", "having", "untold groups", "one group", "three", "static", "difference"})
NAMES = pa.table({"k": [0, 1, 1, 2], "name": list("pqxy")}, schema=STATIC)
#: DISTINCT below joins: what is spread over cells is made one behind them.
LOWER_PLANS = [*PLANS, "(distinct(a b) c)", "(distinct(a) (b c))", "(distinct(distinct(c) b) distinct(a))"]
PLANS_OF = {
    "three": PLANS,
    "three less one": [f"({plan} minus b_2)" for plan in PLANS],
    "distinct of three": LOWER_PLANS,
}


def schemas_of(text: str) -> dict[str, pa.Schema]:
    schemas = {"a": SCHEMA, "b": SCHEMA, "c": SCHEMA, "s": STATIC}
    return {name: schema for name, schema in schemas.items() if re.search(rf" {name}( \[| x,| WHERE|$)", text)}


def draw_step(text: str, rng: random.Random) -> str | None:
    if "UNION ALL SELECT b.t" in text:
        return None
    return rng.choice(
        ["6 seconds", "12 seconds"] if "TUMBLE" in text else ["500 milliseconds", "3 seconds", "7 seconds"]
    )


def run_batches(kind: str, seed: int, follows: bool = False) -> int:
    """Run random batches; the number of results. All that cells give out has to be right, batch by batch.

    With `follows`, the step follows from windows, one of which a restart makes smaller.
    """
    rng = random.Random(f"{kind} {seed}")
    text = KINDS[kind]
    schemas = schemas_of(text)
    tables = {"s": NAMES} if "s" in schemas else {}
    step = draw_step(text, rng)
    if follows or (kind in FOLLOWING and rng.random() < 0.3):
        step = None
    hot = {"k": [1]} if "b [RANGE" in text and rng.random() < 0.5 else {}
    options = EngineOptions(demand=rng.choice(["off", "on", "auto"]))
    spec = JoinSpec(text, schemas, "ts", cells=rng.choice([1, 3, 4]), hot_keys=hot, step=step, options=options)
    engine = ms.Engine(ms.query(text, schemas=schemas, event_time="ts", step=step), tables=tables, demand="off")
    batches = Batches(spec, seed, tables)
    found = 0
    now = 10_000
    names: Counter[str] = Counter()
    for batch in range(12):
        if batch == 6 and (rng.random() < 0.5 or follows):
            text = text.replace("RANGE 9 SECONDS", "RANGE 5 SECONDS")
            spec = replace(spec, text=text, options=EngineOptions(demand=rng.choice(["off", "on", "auto"])))
            batches.restart(spec)
            query = ms.query(text, schemas=schemas, event_time="ts")
            engine = ms.Engine.restore(query, engine.snapshot(), demand="off")
        now += rng.choice([0, 500, 2_000, 2_000, 15_000]) if rng.random() < 0.8 else rng.randrange(4_000)
        data = {name: some_rows(rng, rng.choice([0, 1, 5, 20]), now) for name in schemas if name != "s"}
        plans = rng.choices(PLANS_OF[kind], k=rng.randrange(3)) if kind in PLANS_OF else []
        commands = tuple(Command(plan, rng.choice(STRATEGIES)) for plan in plans)
        with mock.patch.object(processor, "take") as take, eager():
            batches.run(data, now, take, commands)
        wanted = engine.push(data, watermark=1000 * now)
        results = put_together(spec.query, batches.output, rng, with_ids=spec.query.step is not None)
        whole = pa.Table.from_batches(results) if results else spec.query.no_results
        if COLUMN in whole.column_names:
            names.update(whole[COLUMN].to_pylist())
            whole = whole.drop([COLUMN])
        assert count_rows(whole) == count_rows(wanted)
        found += wanted.num_rows
    assert not names or max(names.values()) == 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_cells_that_are_loaded_at_any_time_give_the_whole(kind: str) -> None:
    assert run_batches(kind, 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_seeds(kind: str) -> None:
    assert sum(run_batches(kind, seed) for seed in range(100, 115)) > 0


@pytest.mark.parametrize("kind", ["groups", "untold groups", "difference", "groups less groups"])
def test_the_steps_of_a_checkpoint_go_on_although_windows_are_smaller(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_batches(kind, 1, follows=True) > 0
    monkeypatch.setattr(finishing, "noted", lambda table, name: None)
    with pytest.raises(AssertionError):
        run_batches(kind, 1, follows=True)


def test_by_the_watermark_too_much_would_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above notice what goes wrong if rows were kept only as long as a plain join needs them."""
    monkeypatch.setattr(JoinSpec, "kept_from", lambda self, watermark: watermark)
    with pytest.raises(AssertionError):
        run_batches("buckets", 0)


def test_what_is_equal_comes_together() -> None:
    odd = np.array([0.0, -0.0, np.nan, np.nan, 1.5, 1.5])
    odd.view(np.int64)[3] += 1  # another NaN
    table = pa.table({"x": odd, "s": ["a"] * 6, "n": range(6)})
    for partitions in range(2, 9):
        places = find_partitions(PartsToSpread(table, table.columns[:2]), partitions).tolist()
        assert places[::2] == places[1::2] and max(places) < partitions
    several = pa.table({"x": range(1_000)})
    assert min(Counter(find_partitions(PartsToSpread(several, several.columns), 4).tolist()).values()) > 150


def test_explain_tells_how_steps_are_put_together() -> None:
    def told(kind: str) -> str:
        schemas = {name: SCHEMA for name in "ab" if f" {name} [" in KINDS[kind]}
        return JoinSpec(KINDS[kind], schemas, "ts", cells=4).routing.explain().partition("steps of ")[2]

    assert told("groups") == "900 milliseconds\n\nput together by  in\ngroup: a.t       4 partitions"
    assert told("untold groups").endswith("in\ngroup: a.t, b.d  4 partitions\nrow              4 partitions")
    assert told("distinct").endswith("in\nrow              4 partitions")
    assert "one group  1 partition" in told("one group")
    assert told("buckets").startswith("6 seconds\n")
