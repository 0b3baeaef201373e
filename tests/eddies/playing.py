"""An engine with STAIRs in which anything happens between pushes, held against one that keeps nothing.

Queries are a chain, a star, a ring, a clique and one common key; rows come in any order and several at once; between
pushes entries are promoted and demoted at random, plans, executors, routings and what moves entries change, and engines
are restored. Some go by a router, whose mind changes with the rows or in every chunk. With `limits`, memory is limited
now and then, by limits that change.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.engine.executors.eddy.operations import demote, promote

from ..eager import eager
from ..limits import Limits, tight
from .audit import audit, eddies_of

SCHEMA = pa.schema({name: pa.int64() for name in ("a", "b", "c", "v", "ts")})
PREDICATES = {
    "chain": "r.a = s.a AND s.b = t.b AND t.c = u.c",
    "star": "r.a = s.a AND r.b = t.b AND r.c = u.c",
    "ring": "r.a = s.a AND s.b = t.b AND t.c = u.c AND u.a = r.b",
    "key": "r.a = s.a AND s.a = t.a AND t.a = u.a",
    "clique": "r.a = s.a AND s.b = t.b AND t.c = u.c AND r.b = t.a AND s.c = u.a AND r.c = u.b",
}
WINDOWS = ("RANGE 5 MICROSECONDS", "RANGE 10 MICROSECONDS", "RANGE 20 MICROSECONDS", "ROWS 4")
STREAMS = ("r", "s", "t", "u")
STRATEGIES = (None, "staged", "jisc", "moving-state", "parallel-track")


@dataclass
class Tally:
    """What has happened, so that a test can see that something has."""

    pushes: int = 0
    results: int = 0
    promoted: int = 0
    demoted: int = 0
    migrated: int = 0
    restored: int = 0
    rerouted: int = 0
    entries: int = 0
    evicted: int = 0
    switched_off: int = 0


class Play:
    """One random run; `check` raises an AssertionError as soon as a push or an invariant is wrong."""

    def __init__(
        self,
        seed: int,
        tally: Tally,
        moves: float = 0.4,
        changes: float = 0.1,
        audits: bool = True,
        limits: float = 0.0,
        lasting: float = 0.0,
    ):
        self.rng = random.Random(f"eddies {seed}")
        self.auditing = random.Random(f"audits {seed}")
        self.tally, self.moves, self.changes = tally, moves, changes
        self.limits, self.limit_changes = Limits(f"eddies {seed}"), limits
        self.kind = self.rng.choice(list(PREDICATES))
        self.count = self.rng.choice([3, 4]) if self.kind != "ring" else 4
        self.streams = STREAMS[: self.count]
        windows = {name: self.rng.choice(WINDOWS if self.rng.random() < 0.3 else WINDOWS[:3]) for name in self.streams}
        if random.Random(f"lasting {seed}").random() < lasting:
            windows = dict.fromkeys(self.streams, "UNBOUNDED")
        # In some runs so many rows come that new ones take the places of dead ones in their window.
        self.most, self.keys = random.Random(f"sizes {seed}").choice([(3, 3), (3, 3), (9, 8)])
        self.audits = audits and self.most == 3 and not any("ROWS" in window for window in windows.values())
        inputs = ", ".join(f"{name} [{window}]" for name, window in windows.items())
        names = ", ".join(f"{name}.v AS {name}_v" for name in self.streams)
        where = " AND ".join(
            term
            for term in PREDICATES[self.kind].split(" AND ")
            if all(side.strip()[0] in self.streams for side in term.split("="))
        )
        self.query = ms.query(
            f"SELECT {names} FROM {inputs} WHERE {where}", schemas=dict.fromkeys(self.streams, SCHEMA), event_time="ts"
        )
        # Drawn apart, so that plays are the same whatever the routing.
        self.routing = random.Random(f"routings {seed}")
        self.engine = ms.Engine(
            self.query,
            plan=self.draw_plan(),
            executor=self.draw_executor(),
            routing=self.draw_routing(),
            strategy=self.routing.choice(STRATEGIES),
            seed=seed,
            demand="off",
        )
        self.steady = ms.Engine(self.query, executor="stems", routing="fixed", demand="off")

    def draw_routing(self) -> str | None:
        return self.routing.choice(
            ["fixed", "lottery", "lottery", "cost", "cumulative", "rank", "content", "content", None]
        )

    def draw_executor(self) -> str:
        return self.rng.choice(["stairs", "stairs", "eddy"])

    def draw_plan(self) -> str:
        parts = list(self.streams)
        self.rng.shuffle(parts)
        while len(parts) > 1:
            left, right = (parts.pop(self.rng.randrange(len(parts))) for _ in range(2))
            parts.append(f"({left} {right})")
        return parts[0]

    def check(self, pushes: int = 25) -> None:
        for now in range(0, 2 * pushes, 2):
            while self.rng.random() < self.moves:
                self.move()
                self.audit()
            while self.rng.random() < self.changes:
                self.change()
                self.audit()
            self.limits.change(self.engine, self.limit_changes)
            self.audit()
            self.push(now)
            self.audit()
        self.tally.evicted += self.limits.evicted
        self.tally.switched_off += self.limits.switched_off

    def audit(self) -> None:
        if self.audits and self.auditing.random() < 0.25:
            self.tally.entries += audit(self.engine)

    def push(self, now: int) -> None:
        tables = {}
        for name in self.rng.sample(self.streams, self.rng.randint(1, self.count)):
            count = self.rng.randint(1, self.most)
            columns = [[self.rng.randrange(self.keys) for _ in range(count)] for _ in "abc"]
            numbers = [1_000 * now + 10 * place + STREAMS.index(name) for place in range(count)]
            times = [now + self.rng.randint(0, 2) for _ in range(count)]
            tables[name] = pa.table([*columns, numbers, times], schema=SCHEMA)
        found = sort_rows(self.limits.push(self.engine, lambda: self.engine.push(tables, watermark=now)))
        wanted = sort_rows(self.steady.push(tables, watermark=now))
        self.tally.pushes += 1
        self.tally.results += len(wanted)
        assert found == wanted, f"{self.kind}, plan {self.engine.plan}, time {now}: {len(found)} for {len(wanted)}"

    def move(self) -> None:
        """Promote or demote some entries of some STAIR."""
        eddies = list(eddies_of(self.engine._pipeline.executor))
        if not eddies:
            return
        store = self.rng.choice(eddies).store
        stairs = [stair for stair in store.stairs.values() if list(stair.contents())]
        if not stairs:
            return
        stair = self.rng.choice(stairs)
        inputs = self.rng.choice(list(stair.contents()))
        if inputs == stair.alone:
            rows = stair.rows.ids()
        else:
            state = stair.states[inputs]
            rows = np.unique(state.members_at(state.ids())[:, state.inputs.index(stair.stream)])
        rows = rows[rows >= stair.window.head]
        share = self.rng.choice([0.3, 0.7, 1.0])
        chosen = rows[[self.rng.random() < share for _ in rows]]
        vias = [edge for edge in store.edges if edge != stair.edge and edge.leads_out_of(inputs)]
        if len(inputs) > 1 and (self.rng.random() < 0.5 or not vias):
            demote(store, stair, inputs, chosen, self.draw_part(store.edges, inputs, stair.stream))
            self.tally.demoted += len(chosen)
        elif vias:
            promote(store, stair, inputs, chosen, self.rng.choice(vias))
            self.tally.promoted += len(chosen)

    def draw_part(self, edges: frozenset, inputs: frozenset[int], stream: int) -> frozenset[int]:
        """A connected part of some inputs, with the stream, that is not all of them."""
        part = {stream}
        while self.rng.random() < 0.5 and len(part) < len(inputs) - 1:
            beyond = [edge for edge in edges if edge.leads_out_of(frozenset(part))]
            reached = [edge.other(edge.inner_end(frozenset(part))) for edge in beyond]
            part.add(self.rng.choice([number for number in reached if number in inputs]))
        return frozenset(part)

    def change(self) -> None:
        """Another plan, another executor, or an engine that goes on from a snapshot."""
        if self.rng.random() < 0.2:
            self.tally.restored += 1
            options = self.rng.choice([{}, {"plan": self.draw_plan()}, {"executor": self.draw_executor()}])
            self.engine = ms.Engine.restore(self.query, self.engine.snapshot(), demand="off", **options)
            return
        plan, executor = self.draw_plan(), self.rng.choice([None, None, "tree", "stairs", "stairs", "eddy"])
        stays_eddy = self.engine.executor == "eddy" and executor in (None, "eddy")
        strategy = None if stays_eddy else self.rng.choice(["jisc", "jisc", "moving-state"])
        options = {"budget": self.rng.choice([None, 0, 0, 1, 3])} if strategy == "jisc" else {}
        target = executor or self.engine.executor
        if target == "eddy":  # which refuses to be limited
            self.engine.memory_limit = None
        if target != "tree" and self.routing.random() < 0.5:
            options["routing"] = self.draw_routing()
        if target == "stairs" and strategy == "moving-state" and self.routing.random() < 0.5:
            strategy = "staged"
        if options.get("routing") and self.routing.random() < 0.5:
            plan = None
        changes = self.count_changes()
        try:
            self.engine.migrate(plan, strategy, executor=executor, **options)
            self.tally.migrated += 1
            self.tally.rerouted += changes
        except ms.EngineError as refusal:
            assert stays_eddy and "executor='stairs'" in str(refusal), refusal

    def count_changes(self) -> int:
        routing = self.engine.routing
        return 0 if routing is None else routing.changes


def sort_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@eager()
def play(first: int, count: int, pushes: int = 25, **options: float) -> Tally:
    """So many runs; the first that fails is told by its number."""
    tally = Tally()
    for seed in range(first, first + count):
        try:
            with tight() if "limits" in options else contextlib.nullcontext():
                Play(seed, tally, **options).check(pushes)  # type: ignore[arg-type]
        except AssertionError as problem:
            raise AssertionError(f"play {seed}: {problem}") from problem
    return tally


@eager()
def find_wrong(first: int, count: int, limits: float = 0.0, pushes: int = 25) -> int | None:
    """The first of so many runs that is wrong, by its results alone; None if all are right."""
    for seed in range(first, first + count):
        try:
            with tight() if limits else contextlib.nullcontext():
                Play(seed, Tally(), audits=False, limits=limits).check(pushes)
        except (AssertionError, IndexError, KeyError):
            return seed
    return None
