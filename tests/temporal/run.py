"""Run a case through the engine and hold every push against the oracle.

Checked on every push: its rows are those of the steps that its watermark closes, no more and no fewer; the schema is
the query's, with the types that the oracle says; the watermark is the oracle's. Checked at the end: what `finish` gives
out, that a second one gives nothing, that no state is left, and counters.
"""

from __future__ import annotations

import collections
import random
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa

import midstream as ms
from midstream.migrate import STRATEGIES
from midstream.migrate.begin import find_strategy

from ..evictions import evict_some
from ..limits import Limits, tight
from ..migrate.changes import fit_budget
from ..oracle.compare import Rows, difference, multiset, rows_of
from ..oracle.dress import dress_push, watermark_argument
from ..oracle.report import describe
from ..oracle.run import Mismatch
from ..oracle.spec import Push, Row, pushed_table
from .cases import Expected, expect
from .limits import make_small
from .spec import TemporalCase, find_validity
from .ways import Change, Restart, Way

MODULE = "tests.temporal.fuzz"


class Tally(collections.Counter[str]):
    """How often what happened: runs, rows, restarts, and migrations by strategy, made and refused."""


def make_query(case: TemporalCase) -> Any:
    return ms.query(case.join.text, **case.query_arguments())


class Run:
    """One engine over one case, checked push by push."""

    def __init__(self, case: TemporalCase, query: Any, expected: Expected, way: Way, tally: Tally) -> None:
        self.case, self.way, self.tally = case, way, tally
        self.acceptance, self.expected = expected
        self.query = query
        self.rng = random.Random(f"run {case.seed}")
        self.tables = case.join.tables()
        self.engine = ms.Engine(self.query, plan=way.plan, executor=way.executor, tables=self.tables, demand=way.demand)
        self.total = 0
        self.has_resumed = False
        self.limits = Limits(f"{case.seed} {way.plan} {way.executor}")

    def check(self) -> None:
        case = self.case.join
        self._equal("the step", self.query.step, self.case.step)
        self._check_types()
        for number, push in enumerate(case.pushes):
            self._let_happen(number)
            found = self.limits.push(self.engine, partial(self._push, push, self.rng.getstate()))
            self._compare(f"push {number}", found, self.expected[number])
            self._equal(f"watermark after push {number}", self.engine.stats().watermark, self._watermark(number + 1))
        self._let_happen(len(case.pushes))
        self._check_counters()
        self._compare("finish", [self.engine.finish()], self.expected[-1])
        self._equal("rows of a second finish", self.engine.finish().num_rows, 0)
        self._equal("rows of state after finish", sum(state.rows for state in self.engine.stats().states), 0)
        self.tally["runs"] += 1
        self.tally["rows"] += self.total
        if self.way.is_limited:
            self.tally["limited runs"] += 1
            self.tally["evicted by limits"] += self.limits.evicted
            self.tally["switched off by limits"] += self.limits.switched_off
            self.tally["refused by limits"] += self.limits.refused

    def _push(self, push: Push, state: Any) -> list[pa.Table]:
        """The results of a push, whose rows are dressed anew each time: some forms can be read only once."""
        self.rng.setstate(state)
        case, options = self.case.join, dict[str, Any]()
        if push.watermark is not None:
            options["watermark"] = watermark_argument(case, push.watermark, self.rng)
        tables = dress_push(case, push, self.rng)
        if self.way.in_pieces:
            return list(self.engine.push_batches(tables, **options))
        return [self.engine.push(tables, **options)]

    def _watermark(self, number: int) -> int | None:
        return self.acceptance.watermarks[number]

    def _check_types(self) -> None:
        types = [output.expr.type for output in self.case.join.outputs] + [self.case.join.time_type] * 2
        self._equal("columns", self.query.output_schema.names, self.case.column_names)
        self._equal("types", [str(type_) for type_ in self.query.output_schema.types], [str(type_) for type_ in types])

    def _compare(self, what: str, found: list[pa.Table], expected: Rows) -> None:
        for table in found:
            if not table.schema.equals(self.query.output_schema):
                self._fail(f"{what}: schema\n{table.schema}\nis not the query's\n{self.query.output_schema}")
        rows = [row for table in found for row in rows_of(table)]
        self.total += len(rows)
        different = difference(expected, multiset(rows), self.case.column_names)
        if different:
            self._fail(f"{what}: {different}")

    def _let_happen(self, number: int) -> None:
        while self.way.evicts and self.rng.random() < 0.3:
            self.tally["evicted"] += evict_some(self.engine, self.rng)
        for event in self.way.events:
            if event.before == number:
                if isinstance(event, Change):
                    self._migrate(event)
                elif event.resumes:
                    self._resume(event)
                else:
                    self._restore(event)
        if self.way.is_limited:
            self.limits.change(self.engine)

    def _migrate(self, change: Change) -> None:
        if change.executor in ("eddy", "stairs"):
            self.engine.memory_limit = None  # they know none
        strategy = find_strategy(change.strategy, STRATEGIES)
        budget = {} if change.budget is None else fit_budget(strategy, change.budget)
        try:
            self.engine.migrate(change.plan, change.strategy, executor=change.executor, **budget)
            self.tally[change.strategy] += 1
        except ms.EngineError:
            self.tally[f"{change.strategy} refused"] += 1
            if self.engine.executor == "eddy" and change.executor in (None, "eddy"):
                self._route_anew(change.plan)

    def _route_anew(self, plan: str) -> None:
        """An eddy changes its routing by no strategy, if the plan follows its edges."""
        try:
            self.engine.migrate(plan)
            self.tally["routed anew"] += 1
        except ms.EngineError:
            self.tally["routing refused"] += 1

    def _restore(self, restart: Restart) -> None:
        """From a snapshot; open steps are then as if windows had always been what they are from now on."""
        if restart.windows:
            self.case = self.case.with_windows(restart.windows)
            self.query = make_query(self.case)
            self.expected = expect(self.case).rows
            self.tally["smaller windows"] += 1
        stored = self.engine.snapshot().to_bytes()
        options: dict[str, Any] = {} if restart.plan is None else {"plan": restart.plan}
        if restart.executor is not None:
            options["executor"] = restart.executor
        before = self.engine.stats()
        options["demand"] = self.way.demand
        self.engine = ms.Engine.restore(self.query, ms.Snapshot.from_bytes(stored), **options)
        self.query = self.engine.query  # which has the step of the snapshot
        self._equal("the restored step", self.query.step, self.case.step)
        after = self.engine.stats()
        for name in ("rows_in", "rows_out", "late", "rejected", "watermark"):
            self._equal(f"restored {name}", getattr(after, name), getattr(before, name))
        self.tally["restored"] += 1

    def _resume(self, restart: Restart) -> None:
        """Go on from the rows that may still be valid in the oldest open step."""
        watermark = self._watermark(restart.before)
        assert watermark is not None
        options: dict[str, Any] = {} if restart.executor is None else {"executor": restart.executor}
        options["demand"] = self.way.demand
        rows = self._live_rows(restart.before, watermark // self.case.step * self.case.step)
        tables = {name: pushed_table(self.case.join, name, listed) for name, listed in rows.items()}
        self.engine = ms.Engine.resume(self.query, tables, watermark, tables=self.tables, plan=restart.plan, **options)
        self.has_resumed = True
        self.tally["resumed"] += 1

    def _live_rows(self, before: int, open_from: int) -> dict[str, list[Row]]:
        came = {row.id for push in self.case.join.pushes[:before] for row in push.rows}
        live: dict[str, list[Row]] = {}
        for arrival in self.acceptance.arrivals:
            windows = [relation.window for relation in self.case.join.inputs if relation.source == arrival.row.source]
            ends = [find_validity(window, arrival.ts)[1] for window in windows]
            if arrival.row.id in came and any(end is None or end >= open_from for end in ends):
                live.setdefault(arrival.row.source, []).append(arrival.row)
        return live

    def _check_counters(self) -> None:
        if self.has_resumed:  # which starts them anew
            return
        stats = self.engine.stats()
        accepted = collections.Counter(arrival.row.source for arrival in self.acceptance.arrivals)
        late = self.acceptance.counts(reason_is_late=True)
        for name in self.case.join.streams:
            self._equal(f"rows_in of {name}", stats.rows_in.get(name, 0), accepted[name])
            self._equal(f"late of {name}", stats.late.get(name, 0), sum(late.get(name, {}).values()))
        self._equal("rows_out", stats.rows_out, self.total)

    def _equal(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._fail(f"{what}: found {found}, expected {expected}")

    def _fail(self, message: str) -> None:
        step = f"step {self.case.step} us{'' if self.case.gives_step else ' by default'}"
        raise Mismatch(f"{message}\n{step}, {describe(self.case.join, self.way.text(), MODULE)}")


def check_run(case: TemporalCase, query: Any, expected: Expected, way: Way, tally: Tally) -> None:
    """Run the case in this way."""
    with ExitStack() as stack:
        stack.enter_context(make_small(way))
        if way.is_limited:
            stack.enter_context(tight())
        Run(case, query, expected, way, tally).check()
