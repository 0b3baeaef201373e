"""The memory limit from outside: how it is given, what counts, what is refused, and what it leads to."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.input.batch import CHUNK_ROWS
from midstream.engine.memory import keeper
from midstream.kernels.types import Combos
from midstream.state.join_state import Access, JoinState

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string(), "ts": pa.int64()})
STREAMS = "abcd"
LIMIT = 16_000_000


def make_query(window: str = "RANGE 20 MILLISECONDS") -> ms.Query:
    inputs = ", ".join(f"{name} [{window}]" for name in STREAMS)
    where = " AND ".join(f"{left}.k = {right}.k" for left, right in pairwise(STREAMS))
    return ms.query(f"SELECT a.v AS av, d.s AS ds FROM {inputs} WHERE {where}", dict.fromkeys(STREAMS, SCHEMA), "ts")


def draw_rows(seed: int, count: int, keys: int, first: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = np.arange(first, first + count)
    return pa.table([rng.integers(0, keys, count), numbers, [f"row {n}" for n in numbers], numbers], schema=SCHEMA)


def draw_push(step: int, count: int = 2_000, keys: int = 20_000) -> dict[str, pa.Table]:
    """Rows of all streams, a microsecond apart, as many steps after each other as there are."""
    return {name: draw_rows(9 * step + place, count, keys, step * count) for place, name in enumerate(STREAMS)}


def sorted_rows(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (999_999, "memory_limit=999999 is below the least, 1,000,000 bytes"),
        ("999 KB", "below the least"),
        (0, "below the least"),
        (10**400, "is more than a machine has; for no limit, leave it out"),
        (-5, "below the least"),
        (True, "is no amount of memory"),
        (2e9, "is no amount of memory"),
        ("", "is no amount of memory"),
        ("2", "is no amount of memory"),
        ("two GB", "is no amount of memory"),
        ("-2GB", "is no amount of memory"),
        ("2 gigs", "has no unit of memory"),
        ("2GBB", "did you mean 'GB'"),
        ([1], "is no amount of memory"),
    ],
)
def test_a_wrong_limit_is_refused_where_it_is_given(given: Any, message: str) -> None:
    query = make_query()
    with pytest.raises(ms.EngineError, match=message):
        ms.Engine(query, memory_limit=given)
    engine = ms.Engine(query, memory_limit="2GiB")
    with pytest.raises(ms.EngineError, match=message):
        engine.memory_limit = given
    assert engine.memory_limit == 2 * 2**30


def test_the_limit_holds_after_every_push_and_changes_no_result() -> None:
    query = make_query()
    free, engine = ms.Engine(query), ms.Engine(query, memory_limit=LIMIT)
    most = 0
    for step in range(15):
        push = draw_push(step)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
        most = max(most, free.stats().state_bytes)
        stats = engine.stats()
        assert stats.memory is not None and stats.state_bytes <= LIMIT == stats.memory.limit
    memory = engine.stats().memory
    assert most > 1.15 * LIMIT and memory is not None
    assert memory.evictions > 0 and memory.evicted > memory.evictions and memory.refilled > 0
    assert free.stats().memory is None


def test_one_function_counts_what_stats_shows() -> None:
    engine = ms.Engine(make_query(), late="keep", memory_limit="1GB")
    engine.push(draw_push(0))
    engine.push(draw_push(5), watermark=9_000)
    engine.push(draw_push(0))
    use, stats = engine._pipeline.memory.count(), engine.stats()
    kinds = {
        kind: sum(state.bytes for state in stats.states if state.kind == kind)
        for kind in ("window", "join", "output", "late")
    }
    assert kinds == {"window": use.windows, "join": use.states, "output": use.output, "late": use.late}
    assert use.total == stats.state_bytes == sum(kinds.values())
    assert use.late > 4 * 2_000 * 30, "late rows that are kept count"
    engine.take_late()
    assert engine._pipeline.memory.count().late == 0


def test_memory_that_a_state_takes_over_counts_whole() -> None:
    """Narrower entries in the memory of wider ones: all of it was used once."""
    wide = JoinState((0, 1, 2, 3, 4, 5), {("key",): Access.HASH}, expected=1_000)
    ids = np.arange(1, 1_001)
    wide.store(Combos(np.column_stack([ids] * 6), ids, ids), {("key",): ids})
    before = wide.nbytes
    narrow = JoinState.in_place_of(wide, (0, 1), {("key",): Access.HASH})
    assert narrow.nbytes == before


def test_a_smaller_limit_for_a_running_engine() -> None:
    query = make_query()
    free, engine = ms.Engine(query), ms.Engine(query)
    for step in range(10):
        push = draw_push(step)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
    use = engine._pipeline.memory.count()
    engine.memory_limit = use.total
    assert engine.stats().state_bytes == use.total
    less = use.windows + use.states // 2
    engine.memory_limit = less
    assert engine.memory_limit == less >= engine.stats().state_bytes
    for step in range(10, 14):
        push = draw_push(step)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
        assert engine.stats().state_bytes <= less
    engine.memory_limit = None
    assert engine.memory_limit is None and engine.stats().memory is None


def test_a_limit_below_the_base_windows_is_refused_and_the_old_one_stays() -> None:
    engine = ms.Engine(make_query(), memory_limit=LIMIT)
    for step in range(10):
        engine.push(draw_push(step))
    windows = sum(state.bytes for state in engine.stats().states if state.kind == "window")
    with pytest.raises(ms.EngineError, match=r"memory_limit=1,000,000 bytes, but the base windows alone take [\d,]{9}"):
        engine.memory_limit = 1_000_000
    assert engine.memory_limit == LIMIT and windows > 1_000_000
    snapshot = engine.snapshot()
    with pytest.raises(ms.EngineError, match="restore: memory_limit=1,000,000 bytes, but the base windows alone take"):
        ms.Engine.restore(engine.query, snapshot, memory_limit=1_000_000)
    assert ms.Engine.restore(engine.query, snapshot, memory_limit=LIMIT).memory_limit == LIMIT
    assert ms.Engine.restore(engine.query, snapshot).memory_limit is None
    with pytest.raises(ms.EngineError, match="resume: memory_limit=1,000,000 bytes, but the base windows alone take"):
        ms.Engine.resume(engine.query, draw_push(9, count=20_000), watermark=180_000, memory_limit="1MB")


def test_a_push_whose_rows_do_not_fit_is_refused_before_anything_changes() -> None:
    query = make_query("RANGE 1 HOUR")
    engine, free = ms.Engine(query, memory_limit="2MB"), ms.Engine(query)
    first, large, last = draw_push(0, 500), draw_push(1, 50_000), draw_push(200, 500)
    assert sorted_rows(engine.push(first)) == sorted_rows(free.push(first))
    before = engine.stats()
    with pytest.raises(
        ms.InputError, match=r"base windows would take about [\d,]{9,} bytes, .* memory_limit=2,000,000"
    ):
        engine.push(large)
    assert engine.stats() == before
    assert sorted_rows(engine.push(last)) == sorted_rows(free.push(last))


def test_a_push_of_many_windows_fits_in_small_chunks() -> None:
    """It is judged chunk by chunk: by the time its later rows enter, the earlier ones have left."""
    query = make_query("RANGE 1 MILLISECOND")
    engine, free = ms.Engine(query, memory_limit="3MB"), ms.Engine(query)
    push = draw_push(0, 60_000, keys=1_000)
    assert engine._loop.receive(push).admission.chunk_rows < CHUNK_ROWS
    assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
    assert engine.stats().state_bytes <= 3_000_000


def test_rows_that_are_all_dropped_tell_nothing_of_what_others_take() -> None:
    """After a thousand chunks without a row that enters, an engine still knows how to cut a push."""
    where = "a.k = b.k AND b.k = c.k AND c.k = d.k AND a.v >= 0"
    inputs = ", ".join(f"{name} [RANGE 20 MILLISECONDS]" for name in STREAMS)
    query = ms.query(f"SELECT a.v FROM {inputs} WHERE {where}", dict.fromkeys(STREAMS, SCHEMA), "ts")
    engine = ms.Engine(query, memory_limit="2MB")
    engine.push(draw_push(0, 100))
    per_row = engine._pipeline.memory._keeper._row_bytes  # type: ignore[union-attr]
    dropped = draw_rows(1, 300, 10, 1_000).set_column(1, "v", pa.array(np.full(300, -1)))
    for _ in range(1_100):
        engine.push({"a": dropped})
    assert engine._pipeline.memory._keeper._row_bytes == per_row > 0  # type: ignore[union-attr]
    assert engine.push(draw_push(1, 1_000, keys=500)).num_rows > 0
    assert engine.stats().state_bytes <= 2_000_000


def test_any_number_of_hidden_rows_may_wake_within_the_limit() -> None:
    """Where those that wake and those that do not take too much side by side, all of them enter."""
    schema = pa.schema({"id": pa.int64(), "ts": pa.int64()})
    text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
    query = ms.query(text, dict.fromkeys("ab", schema), "ts")
    count = 32_768
    for woken in (1, count // 4 + 1, count // 2 + 6, count):
        ids = np.where(np.arange(count) < woken, 0, np.arange(count))
        engine = ms.Engine(query, demand="on")
        engine.push({"b": pa.table([ids, np.zeros(count, np.int64)], schema=schema)})
        held = engine.stats().state_bytes
        engine.memory_limit = held + held // 50
        assert engine.push({"a": pa.table([[0], [1]], schema=schema)}).num_rows == woken
        stats = engine.stats()
        assert stats.demand is not None and stats.memory is not None
        assert stats.state_bytes <= engine.memory_limit
        assert (stats.demand.released > 0) == (stats.memory.over > 0) == (1 < woken < count)


def make_pair(window: str, *columns: str) -> ms.Query:
    schema = pa.schema([("k", pa.int64()), *((name, pa.string()) for name in columns), ("ts", pa.int64())])
    text = f"SELECT {', '.join(['a.k', *(f'a.{name}' for name in columns)])} FROM a [{window}], b [{window}]"
    return ms.query(f"{text} WHERE a.k = b.k", dict.fromkeys("ab", schema), "ts")


def at_once(keys: Any, *texts: str, time: int = 0) -> pa.Table:
    """Rows with these keys and one event time."""
    columns = [pa.array([text] * len(keys)) for text in texts]
    names = ["k", *"stuv"[: len(texts)], "ts"]
    return pa.table([pa.array(keys, pa.int64()), *columns, pa.array(np.full(len(keys), time))], names=names)


def test_a_watermark_alone_is_taken_whatever_waits() -> None:
    engine = ms.Engine(make_pair("RANGE 1 MILLISECOND"), demand="on")
    engine.push({"a": at_once(range(20_000))}, watermark=0)
    engine.memory_limit = engine.stats().state_bytes
    engine.push({}, watermark=10**6)
    assert engine.stats().state_bytes < 100_000


def test_hidden_rows_that_have_ended_keep_no_others_out() -> None:
    """Side by side they fit. They would not fit together with the new row's window if they woke, but they cannot."""
    engine = ms.Engine(make_pair("RANGE 1 MILLISECOND", "s"), demand="on")
    engine.push({"b": at_once([0], "")}, watermark=0)
    engine.push({"a": at_once([0] * 10_000, "x" * 10)}, watermark=0)
    engine.push({"a": at_once(range(1, 1_041), "y" * 1_000)}, watermark=0)
    engine.memory_limit = engine.stats().state_bytes + 500_000
    partners = range(1, 1_041)
    with pytest.raises(ms.InputError, match="with these rows the base windows would take"):
        engine.push({"b": at_once(partners, "")}, watermark=0)
    engine.push({"b": at_once(partners, "", time=10**6)}, watermark=10**6)
    assert engine.stats().state_bytes <= engine.memory_limit


def test_the_limit_holds_where_arriving_rows_are_hidden() -> None:
    """As many rows as fit into the windows: those that are hidden enter when both do not fit side by side."""
    engine = ms.Engine(make_pair("UNBOUNDED"), demand="on", memory_limit=2_700_000)
    count = 1 << 14
    engine.push({"b": at_once([0])}, watermark=0)
    engine.push({"a": at_once([0] * (count - 10))}, watermark=0)
    engine.push({"a": at_once([0] * 20 + list(range(1, count - 15)))}, watermark=0)
    stats = engine.stats()
    assert stats.state_bytes <= 2_700_000 and stats.demand is not None and stats.demand.released > 0
    assert engine.push({"b": at_once([1, 2])}, watermark=0).num_rows == 2


def test_rows_that_are_dead_and_not_gone_make_room() -> None:
    """A row that lives on in front of others keeps their slots as long as there is room."""
    schema = pa.schema({"k": pa.int64(), "ts": pa.int64()})
    query = ms.query(
        "SELECT a.k FROM a [RANGE 1 MILLISECOND], b [UNBOUNDED] WHERE a.k = b.k", dict.fromkeys("ab", schema), "ts"
    )
    engine = ms.Engine(query, demand="off", memory_limit="1MB")
    engine.push({"a": at_once([0], time=10_000)}, watermark=0)
    engine.push({"a": at_once(range(8_000))}, watermark=5_000)
    assert engine.stats().states[0].rows == 8_001
    engine.push({"a": at_once(range(8_000), time=10_000)}, watermark=5_000)
    assert engine.stats().states[0].rows == 8_001 and engine.stats().state_bytes <= 1_000_000


def test_a_sorted_index_grows_with_every_row() -> None:
    """Also where the window has slots left for a push."""
    schema = pa.schema({"k": pa.int64(), "ts": pa.int64()})
    text = "SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k BETWEEN b.k - 1 AND b.k + 1"
    engine = ms.Engine(ms.query(text, dict.fromkeys("ab", schema), "ts"))
    engine.push({"a": at_once(range(40_000))}, watermark=0)
    engine.memory_limit = engine.stats().state_bytes + 50_000
    with pytest.raises(ms.InputError, match="with these rows the base windows would take"):
        engine.push({"a": at_once(range(20_000))}, watermark=0)


PAIRS = """SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND], c [RANGE 1 SECOND]
           WHERE a.k = b.k AND a.x = b.x AND b.x = c.x"""


def draw_pairs(count: int, time: int) -> dict[str, pa.Table]:
    rng, names = np.random.default_rng(time), ["k", "x", "ts"]
    return {
        name: pa.table(
            [rng.integers(0, 4_000, count), rng.integers(0, 400_000, count), np.full(count, time)], names=names
        )
        for name in "abc"
    }


def test_a_plan_gets_no_index_beyond_the_limit() -> None:
    """Nor does a restart: an index on a key of two columns is one that joins can do without."""
    row = {"k": int, "x": int, "ts": int}
    query = ms.query(PAIRS, dict.fromkeys("abc", row), "ts")
    engine, free = (ms.Engine(query, plan="(b c) a", demand="off") for _ in range(2))
    for known in (engine, free):
        known.push(draw_pairs(30_000, 0), watermark=0)
    limit = engine.stats().state_bytes + 300_000
    engine.memory_limit = limit
    engine.migrate("(a b) c", "jisc", budget=0)
    free.migrate("(a b) c", "jisc", budget=0)
    assert engine.stats().state_bytes <= limit < free._pipeline.memory.count().windows
    restored = ms.Engine.restore(query, engine.snapshot(), memory_limit=limit, demand="off")
    for time in (1_000, 2_000):
        push = draw_pairs(1_000, time)
        wanted = sorted_rows(free.push(push))
        for limited in (engine, restored):
            assert sorted_rows(limited.push(push)) == wanted
            assert limited.stats().state_bytes <= limit
    fitting = ms.Engine.restore(query, engine.snapshot(), memory_limit="1GB", demand="off")
    assert fitting._pipeline.memory.count().windows > limit, "with room, it gets one"


def test_what_was_held_before_a_smaller_limit_is_not_over_it() -> None:
    engine = ms.Engine(make_query())
    for step in range(10):
        engine.push(draw_push(step))
    use = engine._pipeline.memory.count()
    engine.memory_limit = use.windows + use.states // 2
    memory = engine.stats().memory
    assert memory is not None and memory.evicted > 0 and memory.over == 0


def test_rows_of_a_count_window_leave_by_their_number() -> None:
    query = make_query("ROWS 500")
    engine, free = ms.Engine(query, memory_limit="3MB"), ms.Engine(query)
    push = draw_push(0, 20_000, keys=500)
    assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
    assert engine.stats().state_bytes <= 3_000_000


def test_a_state_that_does_not_pay_is_switched_off_and_comes_back() -> None:
    query = make_query()
    free, engine = ms.Engine(query), ms.Engine(query)
    windows = 0
    seen: list[int] = []
    for step in range(60):
        push = draw_push(step, 1_000)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
        if step == 22:
            windows = engine._pipeline.memory.count().windows
            engine.memory_limit = windows + 400_000
        if step == 40:
            engine.memory_limit = "1GB"
        stats = engine.stats()
        seen.append(sum(state.is_off for state in stats.states))
        if stats.memory is not None:
            assert stats.memory.states_off == seen[-1]
    assert max(seen[22:40]) > 0 and seen[-1] == 0
    joins = [state for state in engine.stats().states if state.kind == "join"]
    assert all(state.rows > 0 for state in joins)


def test_what_a_smallest_chunk_adds_is_reported_and_evicted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that all rows have: 64 rows a stream have many combinations."""
    query = make_query()
    engine, free = ms.Engine(query, plan="(((a b) c) d)"), ms.Engine(query, plan="(((a b) c) d)")
    first = draw_push(0, 300, keys=10_000)
    assert sorted_rows(engine.push(first)) == sorted_rows(free.push(first))
    engine.memory_limit = engine._pipeline.memory.count().windows + 1_000_000
    hot = {name: draw_rows(7, 60, 1, 400) for name in "abc"}
    assert engine.push(hot).num_rows == free.push(hot).num_rows == 0
    memory = engine.stats().memory
    assert memory is not None and memory.over > 1_000_000
    assert engine.stats().state_bytes <= memory.limit
    last = {"d": draw_rows(8, 1, 1, 500)}
    assert engine.push(last).num_rows == free.push(last).num_rows == 60**3


def test_the_next_chunk_is_sized_by_what_rows_of_the_last_ones_took() -> None:
    engine = ms.Engine(make_query(), memory_limit="20MB")
    watched = engine._pipeline.memory._keeper
    assert watched is not None and watched.next_rows() == keeper.LEAST_ROWS * len(STREAMS)
    engine.push(draw_push(0))
    large = watched.next_rows()
    watched.measure(1_000, 100_000_000)
    assert keeper.LEAST_ROWS * len(STREAMS) <= watched.next_rows() < large


@pytest.mark.parametrize("strategy", ["jisc", "moving-state"])
def test_filling_stops_at_nine_tenths_and_the_migration_is_done(strategy: str) -> None:
    query = make_query()
    free, engine = ms.Engine(query, plan="(((a b) c) d)"), ms.Engine(query, plan="(((a b) c) d)")
    for step in range(10):
        push = draw_push(step)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
    memory = engine._pipeline.memory
    memory.set_limit(memory.count().windows + 1_500_000, "test")
    record = engine.migrate("(((d c) b) a)", strategy)
    push = draw_push(10)
    assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
    record = engine.migration or record
    assert record.is_done and record.holes_left == 0
    assert any(state.holes or state.is_off for state in engine.stats().states if state.kind == "join")
    assert engine.stats().state_bytes <= (engine.memory_limit or 0)


def test_resident_memory_keeps_to_the_limit() -> None:
    """Limit and results, and a constant for blocks, rows on their way and what the system has not taken back yet."""
    limit, constant = 40_000_000, 100_000_000
    inputs = ", ".join(f"{name} [RANGE 20 MILLISECONDS]" for name in "abc")
    query = ms.query(
        f"SELECT a.v AS av, b.v AS bv FROM {inputs} WHERE a.k = b.k AND b.k = c.k", dict.fromkeys("abc", SCHEMA), "ts"
    )
    engine = ms.Engine(query, plan="((a b) c)", memory_limit=limit)
    process = psutil.Process()
    engine.push({name: draw_rows(place, 100, 200, 0) for place, name in enumerate("abc")})
    before = process.memory_info().rss
    found = 0
    for step in range(1, 14):
        push = {name: draw_rows(9 * step + place, 2_000, 200, step * 2_000) for place, name in enumerate("ab")}
        # Each of them meets about a hundred rows of a and of b.
        push["c"] = draw_rows(step, 4, 200, step * 2_000 + 1_000)
        out = engine.push(push, watermark=step * 2_000)
        found += out.num_rows
        assert process.memory_info().rss - before <= limit + out.nbytes + constant
        assert engine.stats().state_bytes <= limit
    memory = engine.stats().memory
    assert memory is not None and found > 10_000
    # Two million pairs of a and b would take 160 MB.
    assert memory.evictions > 0 and memory.evicted > 100_000


def test_stems_have_nothing_to_evict() -> None:
    query = make_query()
    free, engine = ms.Engine(query), ms.Engine(query, executor="stems", memory_limit="20MB")
    for step in range(4):
        push = draw_push(step)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
    memory = engine.stats().memory
    assert memory is not None and (memory.states, memory.evicted, memory.states_off) == (0, 0, 0)


def test_stairs_demote() -> None:
    """What STAIRs hold is demoted to rows alone, and promoted again where there is room."""
    query = make_query()
    free, engine = (ms.Engine(query, executor="stairs", strategy="jisc", routing="fixed") for _ in range(2))
    for step in range(14):
        push = draw_push(step)
        assert sorted_rows(engine.push(push)) == sorted_rows(free.push(push))
        if step == 9:
            use = engine._pipeline.memory.count()
            engine.memory_limit = use.windows + use.states // 2
        assert engine.memory_limit is None or engine.stats().state_bytes <= engine.memory_limit
    memory = engine.stats().memory
    assert memory is not None and memory.evicted > 1_000 and memory.evictions > 1 and memory.refilled > 0
    assert memory.states == engine._pipeline.executor.nbytes and memory.over > 0


def test_an_eddy_gives_up_nothing_and_refuses_a_limit() -> None:
    query = make_query()
    with pytest.raises(ms.EngineError, match="engine: executor 'eddy' cannot give up what it keeps"):
        ms.Engine(query, executor="eddy", memory_limit="1GB")
    engine = ms.Engine(query, executor="eddy")
    with pytest.raises(ms.EngineError, match="use executor='tree', 'stems' or 'stairs'"):
        engine.memory_limit = "1GB"
    engine.migrate(engine.plan, executor="tree")
    engine.memory_limit = "1GB"
    with pytest.raises(ms.EngineError, match="migrate: executor 'eddy' cannot give up"):
        engine.migrate(engine.plan, executor="eddy")
    assert (engine.executor, engine.memory_limit) == ("tree", 1_000_000_000)


@pytest.mark.parametrize("executor", ["tree", "stems", "eddy", "stairs"])
def test_everything_that_an_executor_keeps_counts(executor: str) -> None:
    """Also what belongs to no single state, such as the marks of STAIRs."""
    engine = ms.Engine(make_query(), executor=executor)
    engine.push(draw_push(0))
    use = engine._pipeline.memory.count()
    assert use.states == engine._pipeline.executor.nbytes
    assert engine.stats().state_bytes == use.total == use.windows + use.states + use.output + use.late
