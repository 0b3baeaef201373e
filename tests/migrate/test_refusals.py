"""What `migrate` refuses, and that a refusal changes nothing and names what works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms

from .changes import NAMES
from .migrating import NAMED
from .workload import NEW, OLD, SCHEMA, batch, make_engine, push

RANGE, ROWS, UNBOUNDED = "[RANGE 10 SECONDS]", "[ROWS 20]", "[UNBOUNDED]"


@dataclass(frozen=True)
class Refusal:
    """A strategy that cannot, under these windows, and what may be used instead."""

    strategy: str
    windows: str
    message: str
    works: tuple[str, ...]
    first: str | None = None


REFUSALS = (
    Refusal("parallel-track", UNBOUNDED, "would never end: .*'r' are UNBOUNDED", ("jisc", "moving-state")),
    Refusal("genmig", UNBOUNDED, "rows of 'r' under UNBOUNDED have none", ("jisc", "moving-state")),
    Refusal("genmig-reference-point", UNBOUNDED, "under UNBOUNDED have none", ("jisc", "moving-state")),
    Refusal("genmig", ROWS, "rows of 'r' under ROWS have none", ("jisc", "moving-state", "parallel-track")),
    Refusal("genmig-reference-point", ROWS, "under ROWS have none", ("jisc", "moving-state", "parallel-track")),
    Refusal(
        "pause-drain-resume",
        RANGE,
        "neither side can go first",
        ("jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point"),
    ),
    Refusal("pause-drain-resume", ROWS, "go first", ("jisc", "moving-state", "parallel-track")),
    Refusal("pause-drain-resume", UNBOUNDED, "go first", ("jisc", "moving-state")),
    Refusal(
        "pause-drain-resume",
        RANGE,
        "before the migration under way has ended",
        ("jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point"),
        first="parallel-track",
    ),
    Refusal(
        "pause-drain-resume",
        ROWS,
        "under way has ended",
        ("jisc", "moving-state", "parallel-track"),
        first="parallel-track",
    ),
    Refusal("pause-drain-resume", UNBOUNDED, "has ended", ("jisc", "moving-state"), first="jisc"),
)


def make_fed_engine(windows: str, first: str | None) -> ms.Engine:
    engine = make_engine(OLD, windows)
    for number in range(3):
        push(engine, number)
    if first is not None:
        engine.migrate("((r s) (t u))", first)
    return engine


@pytest.mark.parametrize(
    "refusal", REFUSALS, ids=lambda refusal: f"{refusal.strategy} {refusal.windows} {refusal.message[-20:]}"
)
def test_a_refusal_names_what_works_and_changes_nothing(refusal: Refusal) -> None:
    engine, untouched = make_fed_engine(refusal.windows, refusal.first), make_fed_engine(refusal.windows, refusal.first)
    before = (engine.plan, engine.migration, engine.stats())
    events: list[object] = []
    with pytest.raises(ms.EngineError, match=refusal.message) as refused:
        engine.migrate(NEW, refusal.strategy, on_event=events.append)
    assert before == (engine.plan, engine.migration, engine.stats())
    assert events == []
    named = set(NAMED.findall(str(refused.value))) - {refusal.strategy}
    assert named == set(refusal.works)
    assert push(engine, 3) == push(untouched, 3)
    for name in refusal.works:
        other = make_fed_engine(refusal.windows, refusal.first)
        other.migrate(NEW, name)
        assert push(other, 3) == push(make_fed_engine(refusal.windows, None), 3)


def test_only_what_takes_every_window_of_the_query_is_named() -> None:
    """ROWS alone would leave parallel-track, and swapped sides pause-drain-resume."""
    query = ms.query(
        "SELECT r.v FROM r [ROWS 5], s [UNBOUNDED], t [RANGE 5 SECONDS] WHERE r.k = s.k AND s.k = t.k",
        schemas=dict.fromkeys("rst", SCHEMA),
        event_time="ts",
    )
    engine = ms.Engine(query, plan="((r s) t)")
    with pytest.raises(ms.EngineError, match=r"'r' under ROWS have none\. Use jisc or moving-state$"):
        engine.migrate("((t s) r)", "genmig")
    with pytest.raises(ms.EngineError, match=r"Use jisc, moving-state or pause-drain-resume$"):
        engine.migrate("(t (s r))", "genmig")


def test_a_row_at_the_end_of_time_leaves_no_room_for_a_split() -> None:
    engine = make_engine(OLD)
    engine.push({"r": pa.table([[1], [1], [2**63 - 10]], schema=SCHEMA)})
    with pytest.raises(ms.EngineError, match=r"largest time there is\. Use jisc, moving-state or parallel-track$"):
        engine.migrate(NEW, "genmig")
    engine.migrate(NEW, "jisc")


CALLS: dict[str, tuple[Callable[[ms.Engine], object], str]] = {
    "unknown strategy": (lambda engine: engine.migrate(NEW, "teleport"), "unknown strategy 'teleport'.*moving-state"),
    "negative budget": (lambda engine: engine.migrate(NEW, budget=-1), "budget=-1"),
    "a truth value": (lambda engine: engine.migrate(NEW, budget=True), "budget=True"),
    "no duration": (lambda engine: engine.migrate(NEW, budget="soon"), "soon"),
    "an input left out": (lambda engine: engine.migrate("((r s) t)"), "'u' is left out"),
    "an unknown input": (lambda engine: engine.migrate("(((r s) t) x)"), "unknown input 'x'"),
}


OPTIONS: dict[str, dict[str, Any]] = {"budget": {"budget": 0}, "hold": {"hold": True}}
DECLARED = {"jisc": {"budget"}, "parallel-track": {"hold"}}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("strategy", NAMES)
def test_an_option_of_another_strategy_is_refused_by_name(strategy: str, option: str) -> None:
    engine = make_fed_engine(RANGE, None)
    if option in DECLARED.get(strategy, ()):
        engine.migrate(NEW, strategy, **OPTIONS[option])
        return
    before = (engine.plan, engine.migration, engine.stats())
    right = next(name for name, options in DECLARED.items() if option in options)
    has = " and ".join(DECLARED.get(strategy, ())) or "no options"
    message = rf"^migrate: {option}=(0|True) is no option of {strategy}, which has {has}; .* strategy='{right}'$"
    with pytest.raises(ms.EngineError, match=message):
        engine.migrate(NEW, strategy, **OPTIONS[option])
    assert before == (engine.plan, engine.migration, engine.stats())


def test_an_option_is_checked_against_the_strategy_of_the_engine() -> None:
    engine = ms.Engine(make_engine(OLD).query, plan=OLD, strategy="moving-state")
    with pytest.raises(ms.EngineError, match="budget='5 ms' is no option of moving-state"):
        engine.migrate(NEW, budget="5 ms")
    engine.migrate(NEW, "jisc", budget="5 ms")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_makes_no_sense_changes_nothing(name: str) -> None:
    call, message = CALLS[name]
    engine = make_fed_engine(RANGE, "parallel-track")
    before = (engine.plan, engine.migration, engine.stats())
    with pytest.raises(ms.MidstreamError, match=message):
        call(engine)
    assert before == (engine.plan, engine.migration, engine.stats())
    assert push(engine, 3) == push(make_fed_engine(RANGE, None), 3)


def test_an_engine_that_has_finished_does_not_migrate() -> None:
    engine = make_fed_engine(RANGE, None)
    engine.finish()
    with pytest.raises(ms.EngineError, match="finished"):
        engine.migrate(NEW)


def test_a_plan_does_not_change_inside_a_push() -> None:
    engine = make_fed_engine(RANGE, None)
    pieces = engine.push_batches(batch(3))
    next(pieces)
    with pytest.raises(ms.EngineError, match="a push is under way"):
        engine.migrate(NEW)
    list(pieces)
    engine.migrate(NEW)
