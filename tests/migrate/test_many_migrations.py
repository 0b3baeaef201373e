"""Thousands of migrations: what a push costs, and what the engine keeps, does not grow with how many there were.

Cost is counted, not timed: plans that run at once, probes, the slots that they visit, indexes that take each row in.
"""

from __future__ import annotations

import collections
import itertools
import logging
import random
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.kernels.types import VISITED
from midstream.migrate import Migration
from midstream.migrate.begin import MOST_PLANS
from midstream.state import indexes
from midstream.state.indexes import HashIndex

from .changes import NAMES, fit_budget
from .workload import NEW, OLD, WINDOW, batch, make_engine, push

BESIDE = ("parallel-track", "genmig", "genmig-reference-point")
PLANS = (OLD, NEW, "((r s) (t u))", "((r u) (s t))")
SHORT, LONG = "[RANGE 1 SECOND]", "[RANGE 1 HOUR]"
#: A push of the loops below: 400 keys, so that states stay small under a long window.
ROWS, KEYS = 4, 400


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """Probes of hash indexes, and the slots that they visit.

    Seeds of the indexes are drawn from a known one: in windows this small, which codes share a bucket is half of the
    slots visited.
    """
    dice = random.Random("seeds of the indexes")
    monkeypatch.setattr(indexes, "draw_seed", lambda: dice.getrandbits(63))
    counted: collections.Counter[str] = collections.Counter()
    probe = HashIndex.probe

    def counting(index: HashIndex, *arguments: Any) -> bool:
        cursor = arguments[-2]
        before = int(cursor[VISITED])
        is_done = probe(index, *arguments)
        counted["probes"] += 1
        counted["slots"] += int(cursor[VISITED]) - before
        return is_done

    monkeypatch.setattr(HashIndex, "probe", counting)
    return counted


def migrate(engine: ms.Engine, plan: str, strategy: str) -> None:
    """Migrate; pause-drain-resume may refuse."""
    try:
        engine.migrate(plan, strategy, **fit_budget(strategy, 0))
    except ms.EngineError:
        assert strategy == "pause-drain-resume"


@pytest.mark.parametrize("strategy", BESIDE)
def test_what_is_over_the_limit_goes_by_jisc_and_says_so(strategy: str, caplog: pytest.LogCaptureFixture) -> None:
    engine, alone = make_engine(OLD), make_engine(OLD)
    for number in range(3):
        assert push(engine, number) == push(alone, number)
    told: list[list[Migration]] = []
    with caplog.at_level(logging.WARNING, "midstream"):
        for number in range(MOST_PLANS):
            told.append([])
            record = engine.migrate(PLANS[(number + 1) % 4], strategy, on_event=told[-1].append)
            if number + 1 < MOST_PLANS:
                assert (record.strategy, record.note) == (strategy, "")
                assert not caplog.records
    assert record.strategy == "jisc"
    assert strategy in record.note and str(MOST_PLANS) in record.note
    assert len(caplog.records) == 1 and record.note in caplog.text
    assert [event.phase for event in told[-1]] == ["begun"] and told[-1][0].note == record.note
    assert all(events[-1].phase == "replaced" for events in told[:-1])
    for number in range(3, 3 * WINDOW):
        assert push(engine, number) == push(alone, number)
    assert engine.migration is not None and engine.migration.is_done
    assert (engine.migration.strategy, engine.migration.note) == ("jisc", record.note)


def test_results_are_not_held_back_by_a_migration_over_the_limit() -> None:
    """Those of the migrations before it are released with the next push, and each result comes once."""
    engine, alone = make_engine(OLD), make_engine(OLD)
    found, wanted = [], []
    for number in range(3 * WINDOW):
        if 5 <= number < 5 + MOST_PLANS:
            engine.migrate(PLANS[number % 4], "parallel-track", hold=True)
        found.append(push(engine, number))
        wanted.append(push(alone, number))
    assert engine.finish().num_rows == 0
    assert sorted(itertools.chain(*found)) == sorted(itertools.chain(*wanted))
    assert found[5 + MOST_PLANS :] == wanted[5 + MOST_PLANS :]


@pytest.mark.parametrize("strategy", BESIDE)
def test_hundreds_on_top_of_each_other(strategy: str) -> None:
    engine, alone = make_engine(OLD), make_engine(OLD)
    for number in range(2):
        assert push(engine, number) == push(alone, number)
    ends: collections.Counter[str] = collections.Counter()
    for number in range(600):
        engine.migrate(PLANS[number % 4], strategy, on_event=lambda event: ends.update([event.phase] * event.has_ended))
    for number in range(2, 2 * WINDOW):
        assert push(engine, number) == push(alone, number)
    engine.finish()
    assert ends.total() == 600 and ends["done"] <= MOST_PLANS


def check_many(window: str, strategies: tuple[str, ...], count: int, visits: collections.Counter[str]) -> None:
    """A migration before every push: never more than a few plans, and late pushes cost no more than early ones.

    The same engine without migrations is the measure: what a push costs grows with what the window holds.
    """
    rng = random.Random(f"many {window} {strategies}")
    engine, alone = make_engine(OLD, window), make_engine(OLD, window)
    costs: dict[ms.Engine, list[collections.Counter[str]]] = {engine: [], alone: []}
    for number in range(count):
        migrate(engine, rng.choice(PLANS), rng.choice(strategies))
        rows = []
        for pushed, found in costs.items():
            visits.clear()
            rows.append(pushed.push(batch(number, ROWS, KEYS)).num_rows)
            found.append(visits.copy())
        assert rows[0] == rows[1], number
        assert sum(state.kind == "join" for state in engine.stats().states) <= 2 * MOST_PLANS
        assert len(engine._migrations) <= MOST_PLANS + 1
        assert engine.stats().state_bytes <= 2 * MOST_PLANS * alone.stats().state_bytes
    quarter = count // 4
    for what in ("probes", "slots"):
        early, late = (
            sum(work[what] for work in costs[engine][part]) / sum(work[what] for work in costs[alone][part])
            for part in (slice(quarter, 2 * quarter), slice(3 * quarter, None))
        )
        assert late <= 1.5 * early, f"{what} of a push: {early:.1f} times those without migrations, then {late:.1f}"


@pytest.mark.parametrize("window", [SHORT, LONG])
@pytest.mark.parametrize("strategies", [("parallel-track",), NAMES], ids=["parallel-track", "all"])
def test_a_push_after_hundreds_costs_what_it_did(
    window: str, strategies: tuple[str, ...], visits: collections.Counter[str]
) -> None:
    check_many(window, strategies, 300, visits)


@pytest.mark.slow
@pytest.mark.parametrize("strategies", [*((name,) for name in NAMES), NAMES], ids=[*NAMES, "all"])
def test_a_push_after_thousands_costs_what_it_did(
    strategies: tuple[str, ...], visits: collections.Counter[str]
) -> None:
    """Under a short window, which soon holds what it will always hold: refilling a state costs what is in it."""
    check_many(SHORT, strategies, 2_000, visits)


def clique(plan: str) -> ms.Engine:
    """Four streams, each pair with a key of its own: a plan finds rows by up to three keys at once."""
    pairs = list(itertools.combinations("abcd", 2))
    schemas = {
        name: pa.schema({"ts": pa.int64()} | {a + b: pa.int64() for a, b in pairs if name in (a, b)}) for name in "abcd"
    }
    where = " AND ".join(f"{a}.{a}{b} = {b}.{a}{b}" for a, b in pairs)
    inputs = ", ".join(f"{name} [RANGE 1 HOUR]" for name in "abcd")
    return ms.Engine(ms.query(f"SELECT a.ts FROM {inputs} WHERE {where}", schemas=schemas, event_time="ts"), plan=plan)


def composites(engine: ms.Engine) -> int:
    """Indexes on composite keys, which every row of their window enters."""
    return sum(len(classes) > 1 for window in engine._pipeline._windows for classes in window.hash_indexes)


@pytest.mark.parametrize("strategy", ["jisc", "parallel-track"])
def test_indexes_of_plans_that_do_not_run_any_more_are_not_kept(strategy: str) -> None:
    """Not even as long as migrations follow each other so fast that none is ever done."""
    orders = [f"((({a} {b}) {c}) {d})" for a, b, c, d in itertools.permutations("abcd")]
    engine = clique(orders[0])
    schemas = engine.query.schemas
    rows = {stream: pa.table([[1]] * len(schemas[stream]), schema=schemas[stream]) for stream in engine.query.streams}
    engine.push(rows)
    under_way = 0
    for plan in orders:
        record = engine.migrate(plan, strategy, **fit_budget(strategy, 0))
        under_way += not record.is_done
        # A left-deep plan of four finds rows of at most two inputs by several keys.
        assert composites(engine) <= 2 * (1 if record.strategy == "jisc" else MOST_PLANS)
    assert under_way > len(orders) / 2
    assert engine.push(rows).num_rows > 0
