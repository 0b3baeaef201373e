"""Plans whose topmost join keeps its results in a state: entries and boxes of it are right as those of any other join.

The invariant tests run again with every tree asked to do so; their audits look at every state that they find.
"""

from __future__ import annotations

import random

import pytest

import midstream as ms
from midstream.engine.executors import registry
from midstream.engine.executors.tree import Tree, TreeExecutor
from midstream.engine.joins import comparison
from midstream.plan import parse_plan
from midstream.state.missing import Cause

from ..engine import test_invariant as engine_invariant
from ..engine.audit import Count, executor_of
from ..engine.audit import audit as audit_small
from ..engine.small import CASES, Small, draw_plan, draw_pushes, sorted_rows
from . import test_invariant as migrate_invariant
from .audit import audit


@pytest.fixture(autouse=True)
def keep_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that engines make, and those that tests make themselves."""
    monkeypatch.setattr(registry, "EXECUTORS", (Tree(keeps_root=True),))
    monkeypatch.setitem(TreeExecutor.__init__.__kwdefaults__, "keeps_root", True)  # type: ignore[arg-type]


def count_kept_results(engine: ms.Engine) -> int:
    """The entries of the topmost join's state."""
    *_, root = executor_of(engine).joins()
    assert root.state is not None
    return len(root.state)


@pytest.mark.parametrize("small", CASES, ids=lambda small: small.name)
def test_restored_and_migrated_plans(small: Small) -> None:
    engine_invariant.test_entries_and_box_partition_the_join(small, 7)
    engine_invariant.test_states_kept_from_plan_to_plan_stay_right(small, 7)
    engine_invariant.test_a_fill_never_emits_and_leaves_nothing_missing(small, 7)


@pytest.mark.parametrize("small", CASES[:2], ids=lambda small: small.name)
def test_packed_windows(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_invariant.test_a_pinned_row_and_its_packing_keep_the_states(small, monkeypatch)


@pytest.mark.parametrize("kind", migrate_invariant.PREDICATES)
def test_migrations_that_fill_states(kind: str) -> None:
    migrate_invariant.test_entries_and_holes_are_the_join(kind, 0)


@pytest.mark.parametrize("strategy", ["jisc", "moving-state", "parallel-track", "genmig", "genmig-reference-point"])
def test_the_results_of_all_strategies_are_kept(strategy: str) -> None:
    """After a migration by two tracks the new plan's root has every result with a live interval."""
    rng = random.Random(f"kept {strategy}")
    engine = migrate_invariant.make_engine("ring", rng)
    kept = 0
    for now in range(0, 120, 2):
        if now == 40:
            engine.migrate("((r u) (s t))", strategy)
        engine.push(migrate_invariant.rows(rng, now, 3), watermark=now)
        if now < 40 or (engine.migration is not None and engine.migration.is_done):
            audit(engine)
            kept += count_kept_results(engine)
    assert engine.migration is not None and engine.migration.is_done and kept


def test_many_results_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, no plan computes them again."""
    monkeypatch.setattr(comparison, "REINDEXED_AT_ONCE", 0)
    small, rng, count = CASES[0], random.Random("handed over"), Count()
    engine = ms.Engine(small.query(), plan=draw_plan(rng, small.size))
    handed = 0
    for push in draw_pushes(rng, small, 25):
        engine.push(push)
        before = count_kept_results(engine)
        plan = parse_plan(draw_plan(rng, small.size), engine.query.aliases)
        new = TreeExecutor(engine.query, plan, engine._pipeline._windows)
        new.start(Cause("migration"), executor_of(engine).hand_over())
        engine._pipeline._lane.executor = new
        audit_small(engine, small, count)
        assert count_kept_results(engine) == before
        handed += before
    assert handed


def test_no_tree_keeps_results_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    small, rng = CASES[0], random.Random("unasked")
    engine = ms.Engine(small.query(), plan=draw_plan(rng, small.size))
    assert any(len(sorted_rows(engine.push(push))) for push in draw_pushes(rng, small, 25))
    *_, root = executor_of(engine).joins()
    assert root.state is None
