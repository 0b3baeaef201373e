"""``demand="auto"``: where looking for partners does not pay, only samples are checked and nothing waits."""

from __future__ import annotations

import midstream as ms
from midstream.engine.joins.gauge import Gauge, Load
from midstream.engine.stats import DemandStats
from midstream.lab.experiments.jit_streams import BUSHY, Setting, Streams
from midstream.lab.nested_loops import NestedLoops
from midstream.lab.workload import batches

from ..eager import eager
from .test_demand import make_engine, row, values, window_rows

KEY = "a.k = b.k AND b.k = c.k"
FOR_EVER = ("[UNBOUNDED]",) * 3


def make_gauge(worth: float = 200.0, is_at_work: bool = False) -> Gauge:
    """A gauge of one call a chunk that knows what joining one row takes."""
    gauge = Gauge(is_adaptive=True, calls=1)
    gauge.note_work(worth * Gauge.least_joined, Gauge.least_joined)
    gauge.is_resting = not is_at_work
    return gauge


def feed(gauge: Gauge, calls: int, hits: int, woken: int = 0) -> None:
    for _ in range(calls):
        gauge.count(100, hits)
        gauge.count_woken(woken, calls=0)


def test_a_gauge_rests_until_there_is_something_to_save() -> None:
    gauge = make_gauge()
    assert gauge.is_resting and not gauge.could_pay(Load(rows=10, chunks=1)), "a call takes longer than to join ten"
    assert gauge.pause == 2 * Gauge.first_pause, "and it is reviewed the later"
    assert gauge.could_pay(Load(rows=50, chunks=1)) and gauge.is_resting
    assert not Gauge(is_adaptive=True, calls=1).could_pay(Load(rows=50, chunks=1)), "nothing was joined yet"


def test_a_gauge_wakes_up_if_enough_of_a_sample_has_no_partner() -> None:
    gauge = make_gauge()
    feed(gauge, 1, hits=40)
    assert gauge.has_sampled and not gauge.wake_up(Load(rows=50, chunks=1)) and gauge.is_resting
    feed(gauge, 1, hits=90)
    assert gauge.wake_up(Load(rows=50, chunks=1)) and not gauge.is_resting


def test_a_gauge_rests_when_its_checks_find_little() -> None:
    gauge = make_gauge(is_at_work=True)
    feed(gauge, 5, hits=20)
    assert not gauge.is_ripe, "there are too few checks yet"
    feed(gauge, 1, hits=20)
    assert gauge.is_ripe and not gauge.cease(), "what a hit saves is worth five checks and their call"
    feed(gauge, 6, hits=10)
    assert gauge.is_ripe and gauge.cease() and gauge.is_resting


def test_a_gauge_rests_when_all_that_waits_wakes() -> None:
    gauge = make_gauge(is_at_work=True)
    feed(gauge, 6, hits=99, woken=90)
    assert gauge.cease() and gauge.is_resting


def test_a_gauge_never_rests_where_demand_is_on() -> None:
    gauge = Gauge(is_adaptive=False, calls=1)
    feed(gauge, 100, hits=0)
    assert not gauge.is_resting and not gauge.is_ripe


def test_a_gauge_does_not_take_another_plan_for_less_work() -> None:
    gauge = make_gauge(worth=100.0)
    gauge.note_work(0.0, 2 * Gauge.least_joined)
    assert gauge.worth == 100.0
    gauge.note_work(7.0 * Gauge.least_joined, 3 * Gauge.least_joined)
    assert gauge.worth == 7.0


def test_little_is_checked_where_nothing_can_be_saved() -> None:
    """Each row has a partner, and the joins do so little that no sample is worth its while."""
    engine = make_engine(KEY, FOR_EVER, demand="auto")
    for key in range(500):
        engine.push({name: row(key, key, key) for name in "abc"})
    demand = engine.stats().demand
    assert demand is not None and demand.checks == 0


def test_a_join_asks_where_loops_look_at_much() -> None:
    """Rows that have partners pair by pair, but no combination has one further up: nested loops make many for nothing.

    As soon as they have done enough, the sides that are asked have an index, and combinations wait.
    """
    streams = Streams(Setting(BUSHY, 4, 5.0, 1.0, 50), 5.0, seed=3)
    engines = {
        demand: ms.Engine(streams.query, plan=streams.setting.plan, executor=NestedLoops(), demand=demand)
        for demand in ("off", "auto")
    }
    for batch in batches(streams.workload, 50):
        found = [sorted(map(str, engine.push(batch).to_pylist())) for engine in engines.values()]
        assert found[0] == found[1]
    work = {demand: engine.stats().work.slots_visited for demand, engine in engines.items()}
    demand = engines["auto"].stats().demand
    assert demand is not None and demand.suspended > 100
    assert work["auto"] < 0.8 * work["off"]


@eager()
def test_where_all_rows_have_partners_few_are_checked() -> None:
    engines = {demand: make_engine(KEY, FOR_EVER, demand=demand) for demand in ("on", "auto")}
    found: dict[str, DemandStats] = {}
    for demand, engine in engines.items():
        for key in range(100):
            assert engine.push({name: row(key, key, key) for name in "abc"}).num_rows == 1
        stats = engine.stats().demand
        assert stats is not None
        found[demand] = stats
    assert found["on"].checks == 600, "each row looks for two partners"
    assert found["auto"].checks < 150 and found["auto"].hidden == 0


@eager()
def test_rows_that_are_dropped_are_no_sample() -> None:
    """All rows that the table has a partner for have one in the other stream, so that nothing speaks for checks."""
    engine = make_engine(KEY, (*FOR_EVER[:2], ""), {"c": row(1)}, demand="auto")
    for at in range(40):
        rows = row(1, at) + [entry for k in range(2, 11) for entry in row(100 * at + k)]
        engine.push({"a": rows, "b": row(1, at)})
    demand = engine.stats().demand
    assert demand is not None and demand.dropped == 9 * 40 == demand.hits
    assert demand.checks > 11 * 40, "some were sampled"
    assert demand.hidden == 0


@eager()
def test_rows_enter_where_waiting_has_ceased_to_pay() -> None:
    """Of two rows of a each time one wakes at once, and to keep the other out is not worth it.

    Those of the first two pushes are a sample.
    """
    engine = make_engine("a.k = b.k", FOR_EVER[:2], demand="auto")
    for key in range(5):
        engine.push({"a": row(key, key) + row(key + 100, key)})
        assert values(engine.push({"b": row(key, key)})) == [(key, key)]
    demand = engine.stats().demand
    assert demand is not None
    assert (demand.hidden, demand.woken, demand.released, demand.waiting, demand.saved) == (4, 2, 2, 0, 0)
    assert window_rows(engine) == {"a": 10, "b": 5}, "rows have entered without a partner"
    assert values(engine.push({"b": row(101, 7)})) == [(1, 7)]
    engine.push({"a": row(6, 6)})
    assert window_rows(engine)["a"] == 11, "the next one does not even wait"


@eager()
def test_rows_wait_where_that_pays() -> None:
    engine = make_engine(KEY, FOR_EVER, demand="auto")
    for key in range(60):
        engine.push({"a": [entry for _ in range(4) for entry in row(key)], "b": row(key)})
    demand = engine.stats().demand
    assert demand is not None and demand.saved > 200
    assert window_rows(engine)["a"] < 40


def test_edges_are_reviewed_again_when_a_plan_lets_them_count() -> None:
    """Below operators of their own the two inputs are no neighbours, and nothing is due; then they meet again."""
    fields = {"k": int, "x": int, "ts": int}
    text = "SELECT DISTINCT a.x FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k"
    query = ms.query(text, dict.fromkeys("ab", fields), "ts", step="1 SECOND")
    with eager():
        engine = ms.Engine(query, plan="distinct(a) distinct(b)", demand="auto")
        for number in range(60):
            if number == 20:
                engine.migrate("a b", "moving-state")
            both = [{"k": 1, "x": at, "ts": number} for at in range(3)]
            lonely = [{"k": 1_000 * number + at, "x": at, "ts": number} for at in range(20)]
            engine.push({"a": both + lonely, "b": both})
        demand = engine.stats().demand
    assert demand is not None and demand.hidden > 100
