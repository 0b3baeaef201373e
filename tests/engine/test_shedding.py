"""Rows that memory is too small for are shed as a filter would drop them; what is left is joined as ever."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.memory import keeper
from midstream.engine.memory.shedding import ALL, number_rows
from midstream.engine.push_loop import SHED_KEY

from ..eager import eager
from ..limits import check_limit, tight
from ..oracle.accept import accept
from ..oracle.cases import make_case
from ..oracle.compare import difference, multiset, rows_of
from ..oracle.dress import dress_push, watermark_argument
from ..oracle.naive import naive_join
from ..oracle.run import make_query
from ..oracle.spec import Case, Push

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64()})
STREAMS = "abc"
LIMIT = 1_000_000


def make_join(window: str = "RANGE 5 MILLISECONDS", where: str = "") -> ms.Query:
    inputs = ", ".join(f"{name} [{window}]" for name in STREAMS)
    keys = " AND ".join(f"{left}.k = {right}.k" for left, right in pairwise(STREAMS))
    text = f"SELECT a.k, a.ts AS at, b.ts AS bt, c.ts AS ct FROM {inputs} WHERE {keys} {where}"
    return ms.query(text, dict.fromkeys(STREAMS, SCHEMA), "ts")


def draw_push(step: int, count: int = 1_000) -> dict[str, pa.Table]:
    rng = np.random.default_rng(step)
    times = np.arange(step * count, (step + 1) * count)
    return {name: pa.table([rng.integers(0, 5_000, count), times], schema=SCHEMA) for name in STREAMS}


def sorted_rows(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def mix(value: int) -> int:
    for _ in range(2):
        value ^= value >> 32
        value = value * 0xD6E8FEB86659FD93 % 2**64
    return value ^ value >> 32


def number_naively(key: int, time: int) -> int:
    """The number of a row with one key, as `shedding` tells it."""
    first = mix(mix(time % 2**64))
    return mix(mix(first) ^ key % 2**64) >> 32


def kept_of(engine: ms.Engine, push: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Those rows of a push whose numbers are below the threshold that was chosen for it."""
    threshold = engine._pipeline.memory.shedder.threshold
    return {
        name: table.filter(
            pa.array([number_naively(row["k"], row["ts"]) < threshold for row in table.to_pylist()], pa.bool_())
        )
        for name, table in push.items()
    }


@pytest.mark.parametrize("given", ["drop", "", None, True, 3])
def test_an_unknown_overload_is_refused(given: Any) -> None:
    with pytest.raises(ms.EngineError, match=r"engine: overload=.* is not available; .*use 'refuse' or 'shed'"):
        ms.Engine(make_join(), overload=given)


@pytest.mark.parametrize("executor", ["tree", "stems"])
def test_what_is_left_is_joined_as_if_a_filter_had_dropped_the_rest(executor: str) -> None:
    """The rows that are kept follow from time, key and threshold alone; the limit holds, and nothing is refused."""
    query = make_join()
    engine = ms.Engine(query, executor=executor, memory_limit=LIMIT, overload="shed")
    free = ms.Engine(query)
    for step in range(12):
        push = draw_push(step)
        found = engine.push(push)
        kept = kept_of(engine, push)
        last = step * 1_000 + 999
        assert sorted_rows(found) == sorted_rows(free.push(kept, watermark=last))
        stats = engine.stats()
        assert stats.state_bytes <= LIMIT and stats.watermark == last
        assert stats.memory is not None and stats.memory.kept_share == engine._pipeline.memory.shedder.threshold / ALL
    assert stats.rows_in == dict.fromkeys(STREAMS, 12_000), "rows that are shed are accepted rows"
    assert stats.shed == {name: 12_000 - free.stats().rows_in[name] for name in STREAMS}
    assert all(2_000 < count < 10_000 for count in stats.shed.values())
    assert stats.dropped == {name: {"shed": count} for name, count in stats.shed.items()}
    assert f"shed={sum(stats.shed.values())}" in repr(stats)


def test_a_restored_engine_goes_on_with_the_threshold() -> None:
    query = make_join()
    engine = ms.Engine(query, memory_limit=LIMIT, overload="shed")
    thresholds = []
    for step in range(16):
        push = draw_push(step)
        if step % 5 == 4:
            before, stored = engine, engine.snapshot().to_bytes()
            engine = ms.Engine.restore(query, stored, memory_limit=LIMIT, overload="shed")
            assert engine._pipeline.memory.shedder.threshold == before._pipeline.memory.shedder.threshold
            assert engine.stats().shed == before.stats().shed
            assert sorted_rows(engine.push(push)) == sorted_rows(before.push(push))
            assert engine._pipeline.memory.shedder.threshold == before._pipeline.memory.shedder.threshold
        else:
            engine.push(push)
        thresholds.append(engine._pipeline.memory.shedder.threshold)
    assert len(set(thresholds)) > 3


def draw_uneven(step: int) -> dict[str, pa.Table]:
    """Few rows of the last stream: most of the others have no partner. Nor are they in order."""
    rng = np.random.default_rng(step)
    return {
        name: pa.table(
            [rng.integers(0, 4_000, count), rng.integers(1_000 * step, 1_000 * (step + 2), count)], schema=SCHEMA
        )
        for name, count in zip(STREAMS, (1_000, 1_000, 100), strict=True)
    }


def test_the_same_rows_are_shed_whatever_waits() -> None:
    """With demand or without, and after a restart, when all that waited is in its window."""
    query = make_join("RANGE 20 MILLISECONDS")
    options: dict[str, Any] = {"memory_limit": LIMIT, "overload": "shed"}
    engines = {demand: ms.Engine(query, demand=demand, **options) for demand in ("off", "on", "auto")}
    for step in range(40):
        if step == 30:
            assert engines["on"].stats().demand.waiting > 100  # type: ignore[union-attr]
            snapshot = engines["on"].snapshot()
            engines["restored"] = ms.Engine.restore(query, snapshot, demand="on", **options)
        found = {name: engine.push(draw_uneven(step), watermark=1_000 * step) for name, engine in engines.items()}
        assert len({engine._pipeline.memory.shedder.threshold for engine in engines.values()}) == 1
        assert all(sorted_rows(table).equals(sorted_rows(found["off"])) for table in found.values())
        assert all(engine.stats().state_bytes <= LIMIT for engine in engines.values())
    assert 0 < engines["on"]._pipeline.memory.shedder.threshold < ALL


def test_how_a_push_is_cut_does_not_change_what_later_ones_lose() -> None:
    """Chunks are cut by what states leave free, which differs after a restart."""
    query, counts = make_join("RANGE 20 MILLISECONDS"), []
    push = draw_push(0, 30_000)
    for least in (3, 300, 30_000):
        with mock.patch.object(keeper, "LEAST_ROWS", least):
            engine = ms.Engine(query, memory_limit=LIMIT, overload="shed")
        engine.push({name: table.slice(0, 10_000) for name, table in push.items()})
        engine.push({name: table.slice(10_000) for name, table in push.items()})
        assert any(engine.stats().shed.values())
        shedder = engine._pipeline.memory.shedder
        counts.append((shedder.threshold, shedder._absent.counts(engine._pipeline.horizon)))
    assert counts[0] == counts[1] == counts[2]


def test_nothing_is_shed_where_there_is_room_and_a_larger_limit_ends_it() -> None:
    query = make_join()
    engine = ms.Engine(query, memory_limit="1GB", overload="shed")
    for step in range(8):
        engine.push(draw_push(step))
    assert not any(engine.stats().shed.values())
    engine = ms.Engine(query, memory_limit=LIMIT, overload="shed")
    for step in range(8):
        engine.push(draw_push(step))
    shed = engine.stats().shed
    assert all(shed.values())
    engine.memory_limit = None
    engine.push(draw_push(8))
    assert engine.stats().shed == shed and engine._pipeline.memory.shedder.threshold == ALL


def test_the_share_that_is_kept_stays_about_the_same_until_fewer_rows_come() -> None:
    engine = ms.Engine(make_join("RANGE 20 MILLISECONDS"), memory_limit=LIMIT, overload="shed")
    shares = []
    for step in range(60):
        engine.push(draw_push(step))
        shares.append(engine._pipeline.memory.shedder.threshold / ALL)
    assert shares[0] == 1.0 and min(shares[2:20]) < 0.01, "all rows are kept until the windows are full"
    steady = shares[21:]
    assert min(steady) > 0.05 and max(steady) < 1.3 * min(steady)
    later = {name: pa.table({"k": [1], "ts": [81_000]}) for name in STREAMS}
    engine.push(later)
    engine.push(later)
    assert engine._pipeline.memory.shedder.threshold == ALL


def test_an_engine_goes_on_where_not_even_no_rows_fit() -> None:
    """Late rows that are kept, or results that wait, can take all the room there is."""
    engine = ms.Engine(make_join(), memory_limit=LIMIT, overload="shed", late="keep", late_limit=10**6)
    engine.push(draw_push(0), watermark=10**6)
    engine.push({"a": draw_push(0, 60_000)["a"]})
    memory = engine.stats().memory
    assert memory is not None and memory.late > LIMIT
    later = {
        name: table.set_column(1, "ts", pa.array(np.arange(2_000) + 10**6))
        for name, table in draw_push(0, 2_000).items()
    }
    assert engine.push(later).num_rows == 0
    assert engine.stats().shed == dict.fromkeys(STREAMS, 2_000)
    assert engine.take_late()["a"].num_rows == 60_000
    assert engine.push(draw_push(1_001)).num_rows > 0


def test_results_say_that_they_are_not_complete() -> None:
    engine = ms.Engine(make_join(), memory_limit=LIMIT, overload="shed")
    for step in range(8):
        found = engine.push(draw_push(step))
        shed = sum(engine.stats().shed.values())
        told = (found.schema.metadata or {}).get(SHED_KEY)
        assert told == (str(shed).encode() if shed else None)
        assert found.schema.equals(engine.query.output_schema)
    assert shed > 0
    for piece in engine.push_batches(draw_push(8)):
        assert shed <= int(piece.schema.metadata[SHED_KEY]) <= sum(engine.stats().shed.values())
    shed = sum(engine.stats().shed.values())
    assert engine.finish().schema.metadata[SHED_KEY] == str(shed).encode()


def test_rows_that_a_filter_drops_do_not_count_as_shed() -> None:
    engine = ms.Engine(make_join(where="AND a.k < 0"), memory_limit=LIMIT, overload="shed")
    for step in range(8):
        engine.push(draw_push(step))
    dropped = engine.stats().dropped
    assert dropped["a"] == {"filter": 8_000} and engine.stats().shed["a"] == 0
    assert dropped["b"] == {"shed": engine.stats().shed["b"]} and engine.stats().shed["b"] > 0


def test_a_push_that_was_refused_changes_nothing_for_one_that_waits() -> None:
    """Pieces that are taken after another push was refused: in chunks as small as they were found to need."""
    query = make_join("RANGE 1 MILLISECOND")
    engine = ms.Engine(query, memory_limit="1.5MB")
    waiting = engine.push_batches(draw_push(0, 60_000))
    with pytest.raises(ms.InputError, match="unknown stream"):
        engine.push({"d": []})
    with pytest.raises(ms.InputError, match="memory_limit"):
        engine.push({name: pa.table([[0] * 60_000, [0] * 60_000], schema=SCHEMA) for name in STREAMS})
    free = ms.Engine(query)
    assert sum(table.num_rows for table in waiting) == free.push(draw_push(0, 60_000)).num_rows
    memory = engine.stats().memory
    assert memory is not None and memory.over == 0


def test_a_number_has_no_seed() -> None:
    """It is the same in every process and under every alias."""
    query = ms.query("SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k", dict.fromkeys("ab", SCHEMA), "ts")
    engine = ms.Engine(query)
    rows = pa.table({"k": [1, 2, 3, None], "ts": [5, 5, -6, 7]}, schema=SCHEMA)
    accepted = engine._loop.receive({"a": rows}).intake.accepted["a"]
    numbers = number_rows(query, engine._pipeline.readers, "a", accepted)
    assert numbers.tolist() == [number_naively(row["k"] or 0, row["ts"]) for row in rows.to_pylist()]


# Against the definition -----------------------------------------------------------------------------------------------


class Shedding:
    """One engine over a case, with little memory; every push is held against the definition over the rows kept."""

    def __init__(self, case: Case):
        self.case, self.rng = case, random.Random(f"shedding {case.seed}")
        self.query = make_query(case)
        self.acceptance = accept(case)
        self.refused = {row.id for row, _ in self.acceptance.refused}
        self.results = naive_join(case, self.acceptance)
        self.engine = ms.Engine(
            self.query,
            plan=self.rng.choice(case.plans),
            executor=self.rng.choice(["tree", "tree", "stems"]),
            tables=case.tables(),
            max_jump=None if case.max_jump is None else f"{case.max_jump} microseconds",
            overload="shed",
            demand=self._draw_demand(),
        )
        #: The engine that the last restart went on from, as long as both have had the same limits.
        self.twin: ms.Engine | None = None
        self.kept: set[int] = set()
        self.seen: set[int] = set()
        self.shed = 0

    def check(self) -> None:
        names = [output.name for output in self.case.outputs] + ["valid_from", "valid_to"]
        self._set_limit()
        for number, push in enumerate(self.case.pushes):
            if self.rng.random() < 0.3:
                self._set_limit()
            if self.rng.random() < 0.15:
                self._restore()
            found = self._push(push)
            assert self.engine.stats().watermark == self.acceptance.watermarks[number + 1]
            different = difference(self._expect(push), multiset(rows_of(found)), names)
            assert not different, f"seed {self.case.seed}, push {number}: {different}"
            check_limit(self.engine)

    def _draw_demand(self) -> str:
        """Rows without a partner in a static table are in a window only where demand is off."""
        has_tables = any(relation.is_static for relation in self.query.inputs)
        return "auto" if has_tables else self.rng.choice(["off", "on", "auto"])

    def _set_limit(self) -> None:
        self.twin = None
        use = self.engine._pipeline.memory.count()
        share = self.rng.choice([1.0, 1.0, 1.3, 2.0, 4.0])
        self.engine._pipeline.memory.set_limit(int(share * use.windows + use.states + use.output), "test")

    def _restore(self) -> None:
        before = self.engine
        options: dict[str, Any] = {"overload": "shed", "plan": self.rng.choice([None, *self.case.plans])}
        options["demand"] = self._draw_demand()
        if self.case.max_jump is not None:
            options["max_jump"] = f"{self.case.max_jump} microseconds"
        self.engine = ms.Engine.restore(self.query, before.snapshot().to_bytes(), **options)
        assert self.engine._pipeline.memory.shedder.threshold == before._pipeline.memory.shedder.threshold
        assert self.engine.stats().shed == before.stats().shed
        try:
            self.engine._pipeline.memory.set_limit(before.memory_limit, "test")
            self.twin = before
        except ms.EngineError:
            self._set_limit()

    def _push(self, push: Push) -> pa.Table:
        again = random.Random()
        again.setstate(self.rng.getstate())
        tables = dress_push(self.case, push, self.rng)
        watermark = watermark_argument(self.case, push.watermark, self.rng)
        checked = self.engine._loop.receive(tables, watermark)
        for name, rows in checked.admission.accepted.items():
            own = [row.id for row in push.rows if row.source == name and row.id not in self.refused]
            kept = np.ones(len(own), bool) if rows.kept is None else rows.kept
            self.kept.update(id for id, is_kept in zip(own, kept, strict=True) if is_kept)
            self.shed += len(own) - int(np.count_nonzero(kept))
        pieces = list(self.engine._run(checked, self.engine._moves))
        self._check_twin(dress_push(self.case, push, again), watermark)
        return pa.concat_tables([self.query.no_results, *pieces])

    def _check_twin(self, tables: Any, watermark: Any) -> None:
        """An engine that was restored sheds the same rows as the one that it goes on from."""
        if self.twin is not None:
            self.twin.push(tables, watermark)
            mine, other = (engine._pipeline.memory.shedder.threshold for engine in (self.engine, self.twin))
            assert mine == other, f"seed {self.case.seed}: kept below {mine}, and below {other} without a restart"

    def _expect(self, push: Push) -> Any:
        """The results whose last row came with this push, and all of whose rows were kept."""
        new = {row.id for row in push.rows}
        self.seen |= new
        return multiset(
            result.values
            for result in self.results
            if self.seen.issuperset(result.members)
            and not new.isdisjoint(result.members)
            and self.kept.issuperset(result.members)
        )


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 50))])
def test_what_is_kept_is_joined_as_the_definition_says(block: int) -> None:
    shed = 0
    for seed in range(30_000 + 10 * block, 30_010 + 10 * block):
        with tight(), eager():
            run = Shedding(make_case(seed))
            run.check()
        shed += run.shed
    assert shed > 0, "no case of the block has to shed rows"
