"""Every executor in cells whose engines go on or are loaded: exact, and rows go the ways they would have gone."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.routing.choice import RoutingRecord
from midstream.options import EngineOptions
from midstream.spark import processor
from midstream.spark.arguments import check_schedule_works
from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.checkpoint.start import Start, choose_start
from midstream.spark.checkpoint.store import open_ledger
from midstream.spark.commands.messages import Command
from midstream.spark.spec import JoinSpec
from tests.eager import eager

from .attempts import Batches, count_rows
from .test_attempts import KINDS, SCHEMA, STATIC, STRATEGIES, by_content, some_rows

ROUTED = ("stems", "eddy", "stairs")
POLICIES = {"tree": (None,)} | dict.fromkeys(
    ROUTED, (None, "rank", "cost", "cumulative", "lottery", "content", "fixed")
)
DEMANDS = ("off", "on", "auto")
PLANS = {
    "three": ["((a b) c)", "((c a) b)", "(b (c a))"],
    "static": ["((a b) s)", "((s a) b)", "(b (s a))"],
    "rows and range": ["(a b)", "(b a)"],
    "rows and static": ["((a b) s)", "((s a) b)", "(b (s a))"],
}
CHAIN_ROW = pa.schema({"x": pa.int64(), "y": pa.int64(), "ts": pa.timestamp("us", "UTC")})
CHAIN = (
    "SELECT a.ts AS i, c.ts AS j "
    "FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS], d [RANGE 5 SECONDS] "
    "WHERE a.x = b.x AND b.y = c.y AND c.x = d.x"
)


def choose_options(rng: random.Random, executor: str) -> EngineOptions:
    routing, seed, demand = rng.choice(POLICIES[executor]), rng.choice([None, 7]), rng.choice(DEMANDS)
    return EngineOptions(executor=executor, routing=routing, seed=seed, demand=demand)


def run_kind(kind: str, executor: str, seed: int) -> int:
    """Batches, each tried twice, with commands and restarts that may change plan, executor, routing and demand."""
    rng = random.Random(f"{kind} {executor} {seed}")
    text, plans = KINDS[kind], PLANS[kind]
    streams = [name for name in "abc" if f" {name} [" in text]
    tables = (
        {"s": pa.table({"k": [0, 1, 1, 0] * 2, "name": list("pqrstuvw")}, schema=STATIC)} if "static" in kind else {}
    )
    schemas = dict.fromkeys(streams, SCHEMA) | dict.fromkeys(tables, STATIC)
    options = choose_options(rng, executor)
    spec = JoinSpec(text, schemas, "ts", cells=1 if "rows" in kind else 2, options=options)
    engine = ms.Engine(ms.query(text, schemas=schemas, event_time="ts"), tables=tables, demand="off")
    batches = Batches(spec, seed, tables)
    found: Counter[Any] = Counter()
    for batch in range(10):
        now = 10_000 + 2_000 * batch
        data = {name: some_rows(rng, rng.choice([0, 1, 5, 40]), now) for name in streams}
        if rng.random() < 0.3:
            options = choose_options(rng, rng.choice([executor, executor, *POLICIES]))
            batches.restart(replace(spec, options=options, plan=rng.choice([None, *plans])))
        chosen = rng.choices(plans, k=2) if rng.random() < 0.3 else []
        commands = tuple(Command(plan, rng.choice([None, *STRATEGIES])) for plan in chosen)
        with mock.patch.object(processor, "take") as take, eager():
            results = batches.run(data, now, take, commands)
        assert results == count_rows(engine.push(by_content(spec, data), watermark=1000 * now))
        found += results
        assert all((ledger.router is None) == (options.executor == "tree") for ledger in batches.ledgers())
    return sum(found.values())


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("executor", POLICIES)
def test_every_executor_is_exact_through_restarts(kind: str, executor: str) -> None:
    assert run_kind(kind, executor, 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("executor", POLICIES)
def test_many_seeds(kind: str, executor: str) -> None:
    assert sum(run_kind(kind, executor, seed) for seed in range(100, 110)) > 0


# Ways of rows --------------------------------------------------------------------------------------------------------


def chain_spec(executor: str, routing: str | None = None, **more: Any) -> JoinSpec:
    options = EngineOptions(executor=executor, routing=routing)
    return JoinSpec(CHAIN, dict.fromkeys("abcd", CHAIN_ROW), "ts", cells=2, options=options, **more)


def chain_rows(batch: int, rows: int = 60) -> dict[str, pa.Table]:
    """Rows in order of time; a and b have many pairs in the first half, c and d in the second."""
    rng = np.random.default_rng(batch)
    keys = {"a": 20, "b": 20, "c": 2_000, "d": 2_000} if batch < 8 else {"a": 2_000, "b": 2_000, "c": 20, "d": 20}
    times = 1000 * (10_000 + 1_000 * batch + np.arange(rows) * 1_000 // rows)
    return {
        name: pa.table([rng.integers(0, count, rows), rng.integers(0, 50, rows), times], schema=CHAIN_ROW)
        for name, count in keys.items()
    }


def run_batch(batches: Batches, batch: int, rows: int = 60, commands: tuple[Command, ...] = ()) -> Counter[Any]:
    with mock.patch.object(processor, "take") as take:
        return batches.run(chain_rows(batch, rows), 9_000 + 1_000 * batch, take, commands)


@pytest.mark.parametrize(
    "routing", ["rank", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cost", "cumulative", "lottery"))]
)
@pytest.mark.parametrize("executor", ROUTED)
def test_cells_that_are_loaded_route_as_those_that_go_on(executor: str, routing: str) -> None:
    spec = chain_spec(executor, routing)
    going_on, loaded = (Batches(spec, 0, attempts=1) for _ in range(2))
    plans = set()
    for batch in range(16):
        rows = 0 if batch in (3, 7) else 60
        if batch % 3:
            loaded.restart(spec)
        assert run_batch(loaded, batch, rows) == run_batch(going_on, batch, rows)
        for cell, (ledger, other) in enumerate(zip(going_on.ledgers(), loaded.ledgers(), strict=True)):
            assert ledger.router == other.router and ledger.router is not None
            assert ledger.router["cell"] == cell and len(json.dumps(ledger.router)) < 4_000
            assert rows == 0 or ledger.plan == other.plan
            plans.add((cell, ledger.plan))
    assert {plan for _, plan in plans} - {"(((a b) c) d)"}, "no router has decided"


@pytest.mark.parametrize("executor", ROUTED)
def test_a_plan_that_is_named_holds_and_a_restart_does_not(executor: str) -> None:
    def policies() -> set[Any]:
        return {ledger.router["policy"] for ledger in batches.ledgers() if ledger.router is not None}

    first, other = "(((a b) c) d)", "(((d c) b) a)"
    spec = chain_spec(executor, plan=first)
    default = "rank" if executor == "stems" else "cost"
    batches = Batches(spec, 0, attempts=1)
    run_batch(batches, 0)
    batches.restart(spec)
    run_batch(batches, 1)
    assert policies() == {default}
    run_batch(batches, 2, commands=(Command(other),))
    assert policies() == {"fixed"} and {ledger.plan for ledger in batches.ledgers()} == {other}
    batches.restart(spec)
    run_batch(batches, 3)
    assert policies() == {"fixed"} and {ledger.plan for ledger in batches.ledgers()} == {other}
    batches.restart(replace(spec, plan=other))
    run_batch(batches, 4)
    assert policies() == {default}
    batches.restart(replace(spec, plan=other, schedule=((1000 * 14_000, first),)))
    run_batch(batches, 5)
    assert policies() == {"fixed"} and {ledger.plan for ledger in batches.ledgers()} == {first}
    batches.restart(replace(spec, plan=other, options=EngineOptions(executor=executor, routing="lottery")))
    run_batch(batches, 6)
    assert policies() == {"lottery"}


# What a loaded engine begins with ------------------------------------------------------------------------------------


def test_a_ledger_of_the_tree_has_nothing_of_a_routing() -> None:
    spec = chain_spec("tree", plan="(((a b) c) d)")
    ledger = open_ledger(None, spec, "cell 0 of 2")
    assert choose_start(ledger, spec, 1) == Start("(((a b) c) d)", None)
    told = Ledger.from_bytes(ledger.to_bytes(), "cell 0 of 2")
    assert (told.router, told.policy_in_code) == (None, None) and b"router" not in ledger.to_bytes()


def test_what_goes_on_and_what_the_code_changes() -> None:
    rates = {"seed": 0, "chunk": 3, "counts": [], "rows_since": []}
    held = RoutingRecord("stairs", "fixed", "(((b a) c) d)", frozenset({(0, 1), (1, 2), (2, 3)}), 1, rates)

    def start(spec: JoinSpec) -> Start:
        before = chain_spec("stairs", "rank", plan="(((a b) c) d)")
        ledger = open_ledger(None, before, "cell 1 of 2")
        choose_start(ledger, before, 1)
        ledger.plan, ledger.router = "(((c d) b) a)", held.to_json()
        return choose_start(Ledger.from_bytes(ledger.to_bytes(), "cell 1 of 2"), spec, 1)

    anew = RoutingRecord("stairs", "rank", cell=1, rates=rates)
    plan = "(((a b) c) d)"
    assert start(chain_spec("stairs", "rank", plan=plan)) == Start(held.plan, held)
    assert start(chain_spec("stairs")) == Start(held.plan, held)
    assert start(chain_spec("stairs", "rank", plan="(((d c) b) a)")) == Start("(((d c) b) a)", anew)
    assert start(chain_spec("stairs", "lottery", plan=plan)) == Start("(((c d) b) a)", replace(anew, policy="lottery"))
    assert start(chain_spec("stems", plan=plan)) == Start("(((c d) b) a)", replace(anew, executor="stems", policy=None))
    assert start(chain_spec("tree", plan=plan)) == Start("(((c d) b) a)", None)


def test_explain_names_executor_routing_and_demand() -> None:
    assert chain_spec("tree").explain().endswith("\n\nexecutor: tree, as the plan says, demand: auto")
    assert chain_spec("stems").explain().endswith("\n\nexecutor: stems, routing: rank, demand: auto")
    spec = replace(chain_spec("tree"), options=EngineOptions(executor="stairs", routing="lottery", demand="auto"))
    assert spec.explain().endswith("\n\nexecutor: stairs, routing: lottery, demand: auto")


# Plans on a schedule -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["pause-drain-resume", "genmig", "parallel-track"])
def test_a_strategy_that_refuses_ends_no_query(strategy: str) -> None:
    """Whether it can make a change may depend on the rows, so that nobody can tell when the query is made."""
    first, later = "(((a b) c) d)", "(((d c) b) a)"
    text = CHAIN.replace("a [RANGE 5 SECONDS]", "a [UNBOUNDED]")
    spec = chain_spec("tree", plan=first, schedule=((1000 * 11_500, later),))
    spec = replace(spec, text=text, options=EngineOptions(strategy=strategy))
    with pytest.raises(ms.SparkError, match=r"schedule: .*Use jisc"):
        check_schedule_works(spec.routing.cell_query, spec.options, first, spec.schedule)
    batches = Batches(spec, 0, attempts=1)
    engine = ms.Engine(ms.query(text, schemas=dict.fromkeys("abcd", CHAIN_ROW), event_time="ts"))
    plans = []
    for batch in range(5):
        found = run_batch(batches, batch)
        now = 1000 * (9_000 + 1_000 * batch)
        assert found == count_rows(engine.push(by_content(spec, chain_rows(batch)), watermark=now))
        plans.append({ledger.plan for ledger in batches.ledgers()})
    assert plans == [{first}] * 3 + [{later}] * 2
