"""``demand="auto"``: where looking for partners does not pay, only samples are checked and nothing waits."""

from __future__ import annotations

from midstream.engine.joins.gauge import Gauge
from midstream.engine.stats import DemandStats

from ..eager import eager
from .test_demand import make_engine, row, values, window_rows

KEY = "a.k = b.k AND b.k = c.k"
FOR_EVER = ("[UNBOUNDED]",) * 3


def feed(gauge: Gauge, calls: int, hits: int, woken: int = 0) -> None:
    for _ in range(calls):
        gauge.count(100, hits)
        gauge.count_woken(woken)


def test_a_gauge_rests_when_its_checks_find_little() -> None:
    gauge = Gauge(is_adaptive=True)
    feed(gauge, 5, hits=99)
    assert not gauge.decide(worth=0.0), "there are too few checks yet"
    feed(gauge, 1, hits=99)
    assert not gauge.decide(worth=10.0) and not gauge.is_resting, "each saves ten lookups"
    feed(gauge, 6, hits=99)
    assert gauge.decide(worth=0.0) and gauge.is_resting, "calls cost more than a few rows"


def test_a_gauge_rests_when_all_that_waits_wakes() -> None:
    gauge = Gauge(is_adaptive=True)
    feed(gauge, 6, hits=99, woken=98)
    assert gauge.decide(worth=10.0) and gauge.is_resting


def test_a_gauge_that_rests_asks_now_and_then_and_comes_back() -> None:
    gauge = Gauge(is_adaptive=True)
    feed(gauge, 6, hits=0)
    assert gauge.decide(worth=10.0)
    asked = [number for number in range(1, 1_000) if gauge.asks()]
    assert asked == [256, 512, 768]
    feed(gauge, 2, hits=99)
    assert not gauge.decide(worth=10.0) and not gauge.is_resting


def test_a_gauge_never_rests_where_demand_is_on() -> None:
    gauge = Gauge(is_adaptive=False)
    feed(gauge, 100, hits=0)
    assert not gauge.decide(worth=0.0) and gauge.asks()


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
def test_rows_enter_where_waiting_has_ceased_to_pay() -> None:
    """Of two rows of a each time one wakes at once, and to keep the other out is not worth it."""
    engine = make_engine("a.k = b.k", FOR_EVER[:2], demand="auto")
    for key in range(3):
        engine.push({"a": row(key, key) + row(key + 100, key)})
        assert values(engine.push({"b": row(key, key)})) == [(key, key)]
    demand = engine.stats().demand
    assert demand is not None
    assert (demand.hidden, demand.woken, demand.released, demand.waiting, demand.saved) == (6, 3, 3, 0, 0)
    assert window_rows(engine) == {"a": 6, "b": 3}, "three rows have entered without a partner"
    assert values(engine.push({"b": row(101, 7)})) == [(1, 7)]
    engine.push({"a": row(6, 6)})
    assert window_rows(engine)["a"] == 7, "the next one does not even wait"


@eager()
def test_rows_wait_where_that_pays() -> None:
    engine = make_engine(KEY, FOR_EVER, demand="auto")
    for key in range(60):
        engine.push({"a": [entry for _ in range(4) for entry in row(key)], "b": row(key)})
    demand = engine.stats().demand
    assert demand is not None and demand.saved > 200
    assert window_rows(engine)["a"] < 40
