"""Joins that become idle, one below the other, and are woken: streams come and go, and results stay the same.

Values are drawn so that combinations of streams are found easily, but wait for a partner further up most of the time.
In some cases rows enter the windows without any partner, as they do where looking for one does not pay.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.demand import entrance
from midstream.engine.executors import tree
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.idling import IdleJoins
from midstream.engine.joins.suspending import Suspender
from midstream.engine.joins.waiting import Waiting
from midstream.kernels.types import EARLIEST
from midstream.state.window import Renumbering

from ..evictions import evict_some
from ..restless import restless
from . import test_idle_joins, test_restless_demand
from .audit import executor_of
from .small import ALIASES, SCHEMA, Small, draw_plan, same, sorted_rows
from .test_suspension import GAPS, switch_some

#: (d e) waits for c, so that (a b), which no key leads to, has nothing to be joined with.
APART = Small(
    "apart",
    ("",) * 5,
    "a.k = b.k AND b.x = c.x AND d.k = e.k AND d.y = c.y AND e.v = c.v",
    (same(0, 1, "k", "k"), same(1, 2, "x", "x"), same(3, 4, "k", "k"), same(2, 3, "y", "y"), same(2, 4, "v", "v")),
)
#: The same with a key, and (f g) is empty now and then, although there are rows of f and g.
NESTED = Small(
    "nested",
    ("",) * 7,
    "a.k = b.k AND b.x = d.x AND d.k = e.k AND d.y = c.y AND e.v = c.v AND d.x = f.x AND f.v = g.v",
    (
        *(same(0, 1, "k", "k"), same(1, 3, "x", "x"), same(1, 5, "x", "x"), same(3, 5, "x", "x")),
        *(same(3, 4, "k", "k"), same(2, 3, "y", "y"), same(2, 4, "v", "v"), same(5, 6, "v", "v")),
    ),
)
#: The plan that most of their cases begin with.
PLANS = {
    APART.name: "(((a b) (d e)) c)",
    NESTED.name: "((((a b) (d e)) (f g)) c)",
    GAPS.name: "((((a b) c) e) d)",
}
SHAPES = (APART, NESTED, GAPS)


def draw_pushes(rng: random.Random, size: int, count: int) -> Iterator[tuple[dict[str, pa.Table], int]]:
    """Pushes and watermarks; each stream has rows for some pushes, and then none for some."""
    now, flows = 100, {alias: rng.random() < 0.7 for alias in ALIASES[:size]}
    values = {"k": rng.choice([1, 2]), "x": rng.choice([1, 2]), "y": rng.choice([2, 3, 4]), "v": rng.choice([3, 5, 8])}
    for _ in range(count):
        flows = {alias: is_on != (rng.random() < 0.1) for alias, is_on in flows.items()}
        push = {}
        for alias in (alias for alias, is_on in flows.items() if is_on):
            times = [now + rng.randrange(-3, 4) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
            columns = {name: [rng.randrange(most) for _ in times] for name, most in values.items()}
            push[alias] = pa.table({**columns, "s": ["" for _ in times], "ts": times}, schema=SCHEMA)
        now += rng.choice([0, 1, 2, 4])
        yield push, now - 4


def give_up_what_waits(engine: ms.Engine, rng: random.Random) -> None:
    executor_of(engine).give_up_rest()


def compare(shape: Small, seed: int) -> int:
    """An engine with demand, whose states are changed at random, against one without; how many results there were."""
    rng = random.Random(f"droughts {shape.name} {seed}")
    windows = tuple(f"RANGE {rng.choice([5, 10, 20, 40])} MICROSECONDS" for _ in range(shape.size))
    query = shape.query(windows, delay=4)
    plan = PLANS[shape.name] if rng.random() < 0.8 else draw_plan(rng, shape.size)
    steady = ms.Engine(query, plan=plan, demand="off")
    admits_all = rng.random() < 0.6
    with mock.patch.object(entrance, "find_edges", return_value=[]) if admits_all else contextlib.nullcontext():
        engine = ms.Engine(query, plan=plan, demand="on")
    packing, patience = restless if rng.random() < 0.4 else contextlib.nullcontext, (0, 0, 2)[seed % 3]
    events = rng.sample((evict_some, switch_some, give_up_what_waits), rng.choice([0, 0, 1, 1, 3]))
    often = rng.choice([0.05, 0.2])
    results = 0
    for number, (push, watermark) in enumerate(draw_pushes(rng, shape.size, 60)):
        with packing(), mock.patch.object(IdleJoins, "first_patience", patience):
            found = sorted_rows(engine.push(push, watermark))
        assert found == sorted_rows(steady.push(push, watermark)), f"{shape.name}, seed {seed}, push {number}"
        results += len(found)
        for event in events:
            if rng.random() < often:
                event(engine, rng)
    return results


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_results_are_the_same(shape: Small) -> None:
    assert sum(compare(shape, seed) for seed in range(5)) > 100


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_results_of_many_are_the_same(shape: Small, block: int) -> None:
    for seed in range(1_000 + 25 * block, 1_025 + 25 * block):
        compare(shape, seed)


# Mistakes ------------------------------------------------------------------------------------------------------------


def take_rows_that_are_passed_over_for_new(patch: pytest.MonkeyPatch) -> None:
    """What climbs leaves them out, as if they came to it themselves."""
    begin, make = IdleJoins.begin_chunk, tree._Chunk.of
    firsts: dict[int, int] = {}

    def begin_chunk(joins: IdleJoins, deltas: Mapping[int, Delta], since: Any) -> Mapping[int, Delta]:
        firsts.update({number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items()})
        return begin(joins, deltas, since)

    def of(deltas: Mapping[int, Delta], horizon: int) -> Any:
        chunk = make(deltas, horizon)
        chunk = chunk._replace(first_ids={**chunk.first_ids, **firsts})
        firsts.clear()
        return chunk

    patch.setattr(IdleJoins, "begin_chunk", begin_chunk)
    patch.setattr(tree._Chunk, "of", of)


def stay_idle_below_another(patch: pytest.MonkeyPatch) -> None:
    """What a join has left out does not become a hole when one above it becomes idle, but together with that one's."""
    begin, end, wake = IdleJoins.begin, IdleJoins._end, IdleJoins._wake

    def begin_above(joins: IdleJoins, *given: Any) -> Any:
        with mock.patch.object(IdleJoins, "_end"):
            return begin(joins, *given)

    def wake_all(joins: IdleJoins, place: Any, lasts: Any, since: Any) -> None:
        for lower in [other for other in joins._idle.values() if id(other.join) in place.below_ids]:
            end(joins, lower, lasts, since)
        wake(joins, place, lasts, since)

    patch.setattr(IdleJoins, "first_patience", 0)
    patch.setattr(IdleJoins, "begin", begin_above)
    patch.setattr(IdleJoins, "_wake", wake_all)


def give_up_below_idle_joins(patch: pytest.MonkeyPatch) -> None:
    """What waits is given up, and joins stay idle."""
    drop = Suspender.drop

    def asleep(suspender: Suspender, since: Any) -> int:
        with mock.patch.object(IdleJoins, "stop"):
            return drop(suspender, since)

    patch.setattr(Suspender, "drop", asleep)


def take_the_dead_for_the_living(patch: pytest.MonkeyPatch) -> None:
    """An entry that waited and is dead has got the ids of a combination, and counts for it."""
    has = Waiting.has
    patch.setattr(Renumbering, "apply_to_entries", Renumbering.apply)

    def has_any(waiting: Waiting, delta: Delta, horizon: int) -> Any:
        return has(waiting, delta, EARLIEST)

    patch.setattr(Waiting, "has", has_any)


#: Each mistake with what does not survive it: a random case, or a story where that would take thousands of cases.
MUTANTS: tuple[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], object]], ...] = (
    (take_rows_that_are_passed_over_for_new, partial(compare, APART, 69)),
    (stay_idle_below_another, test_idle_joins.test_an_idle_join_may_come_to_lie_below_another),
    (give_up_below_idle_joins, partial(compare, NESTED, 81)),
    (take_the_dead_for_the_living, test_restless_demand.test_what_waits_and_is_dead_is_not_taken_for_another),
)


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_mistakes_are_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], check: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check()
