"""Run a case through the engine and hold every push against the oracle.

Checked on every push: the results are those whose last row came with it, no more and no fewer; their `valid_from` is
not before the watermark; the schema is the query's; the watermark is the oracle's. Checked at the end: counters, late
rows, that `finish` brings nothing more and frees the state.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import midstream as ms
from midstream.engine.executors.protocol import ExecutorKind
from midstream.state import sizes

from ..evictions import evict_some
from ..limits import Limits, tight
from ..restless import restless
from .accept import Acceptance, accept
from .compare import Rows, canonical, difference, multiset, rows_of
from .dress import dress_push, watermark_argument
from .naive import Result, naive_join
from .report import describe
from .spec import Case, Push, Row, pushed_table

_LONGEST_VALUE = 200
"""More bytes than any text of a case has, also while it is computed."""

#: What a column may become when a snapshot is restored under another schema.
OTHER_TYPES = (pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.decimal128(20, 4), pa.date32())


class Mismatch(AssertionError):
    """The engine and the oracle do not agree."""


@dataclass(frozen=True)
class Expected:
    """What the oracle says about a case: results do not depend on how the same arrivals are cut into pushes."""

    acceptance: Acceptance
    results: list[Result]
    #: What the first run of the case counted as dropped: no other way of running it may count anything else.
    dropped: list[dict[str, dict[str, int]]] = field(default_factory=list)

    def by_push(self, case: Case) -> list[Rows]:
        """The results of each push: those whose last row came with it."""
        push_of = {row.id: number for number, push in enumerate(case.pushes) for row in push.rows}
        rows: list[list[tuple[Any, ...]]] = [[] for _ in case.pushes]
        for result in self.results:
            rows[max(push_of[member] for member in result.members)].append(result.values)
        return [multiset(results) for results in rows]


def expect(case: Case) -> Expected:
    acceptance = accept(case)
    return Expected(acceptance, naive_join(case, acceptance))


@dataclass(frozen=True)
class Way:
    """How to run a case: plan, pushes in pieces, and the pushes before which it is stored and restored.

    `executors_after` go with `plans_after`; where there is none it stays as it was.
    `piece_bytes` is the size from which values count as large and are cut, instead of the engine's own. With `evicts`,
    entries of join states are evicted before some pushes. With `limited`, memory is, by limits that change. `demand` is
    the engine's, also after restores. With `restless`, windows are packed and rows renumbered all the time.
    """

    plan: str | None
    pieces: bool = False
    restore_before: tuple[int, ...] = ()
    plans_after: tuple[str | None, ...] = ()
    piece_bytes: int | None = None
    executor: str = "tree"
    executors_after: tuple[str | None, ...] = ()
    evicts: bool = False
    limited: bool = False
    demand: str = "off"
    routing: str | None = None
    restless: bool = False

    @property
    def restored_into(self) -> list[tuple[int, str | None, str | None]]:
        """The push before each restore, the plan and the executor after it; None stands for what ran before."""
        return list(itertools.zip_longest(self.restore_before, self.plans_after, self.executors_after))

    def text(self) -> str:
        parts = [f"plan {self.plan} on {self.executor}"]
        if self.pieces:
            parts.append("push_batches")
        if self.piece_bytes is not None:
            parts.append(f"pieces of {self.piece_bytes} bytes")
        if self.evicts:
            parts.append("evicting")
        if self.limited:
            parts.append("with limits of memory")
        if self.demand != "off":
            parts.append(f"demand {self.demand}")
        if self.routing is not None:
            parts.append(f"routing {self.routing}")
        if self.restless:
            parts.append("restless")
        for number, plan, executor in self.restored_into:
            where = f"{plan or 'the same plan'} on {executor or 'the same executor'}"
            parts.append(f"restored before push {number} into {where}")
        return ", ".join(parts)


def make_query(case: Case) -> Any:
    return ms.query(case.text, **case.query_arguments())


def _max_jump(case: Case) -> datetime.timedelta | None:
    return None if case.max_jump is None else datetime.timedelta(microseconds=case.max_jump)


class Run:
    """One engine over one case, checked push by push."""

    def __init__(
        self,
        case: Case,
        expected: Expected,
        way: Way,
        query: Any = None,
        kinds: Mapping[str, ExecutorKind] | None = None,
    ) -> None:
        self.case = case
        self.kinds = kinds or {}  # executors that nobody has registered, by name
        self.way = way
        self.expected = expected
        self.own = accept(case)  # the watermarks of this way of cutting the input
        self.query = query or make_query(case)
        self.rng = random.Random(f"run {case.seed} {way.plan}")
        self.engine = ms.Engine(
            self.query,
            plan=way.plan,
            executor=self.find_kind(way.executor),
            tables=case.tables(),
            late="keep",
            max_jump=_max_jump(case),
            demand=way.demand,
            routing=way.routing if self.query.key_classes or way.routing != "content" else "lottery",
        )
        self.late: dict[str, list[tuple[Any, ...]]] = {name: [] for name in case.streams}
        self.names = [output.name for output in case.outputs] + ["valid_from", "valid_to"]
        self.total = 0
        self.evicting = random.Random(f"evict {case.seed} {way.plan}")
        self.evicted = 0
        self.limits = Limits(f"{case.seed} {way.plan}")
        self.work = self.engine.stats().work

    def find_kind(self, executor: str) -> str | ExecutorKind:
        """What an engine is given for an executor of this name."""
        return self.kinds.get(executor, executor)

    def check(self) -> None:
        case, expected = self.case, self.expected.by_push(self.case)
        if {row.id for row, _ in self.own.refused} != {row.id for row, _ in self.expected.acceptance.refused}:
            raise ValueError(f"seed {case.seed}: this way of cutting the input changes what is accepted")
        for number in range(len(case.pushes)):
            for before, plan, executor in self.way.restored_into:
                if before == number:
                    self._restore(plan, executor)
            while self.way.evicts and self.evicting.random() < 0.3:
                self.evicted += evict_some(self.engine, self.evicting)
            if self.way.limited:
                self.limits.change(self.engine)
            self._push(number, expected[number])
        self._take_late()
        self._check_counters()
        self._check_late()
        self._check_finish()

    def _push(self, number: int, expected: Rows) -> None:
        state = self.rng.getstate()
        found = self.limits.push(self.engine, lambda: self._push_dressed(self.case.pushes[number], state))
        for batch in found:
            self._check_schema(batch, number)
        rows = [row for batch in found for row in rows_of(_as_table(batch))]
        self.total += len(rows)
        self._check_watermark(number, rows)
        different = difference(expected, multiset(rows), self.names)
        if different:
            self._fail(f"push {number}: {different}")
        stats = self.engine.stats()
        self._check_work()
        if stats.watermark != self.own.watermarks[number + 1]:
            self._fail(f"push {number}: watermark {stats.watermark}, not {self.own.watermarks[number + 1]}")
        if self.rng.random() < 0.1:
            self._take_late()

    def _push_dressed(self, push: Push, state: Any) -> list[pa.Table | pa.RecordBatch]:
        """The results of a push, whose rows are dressed anew each time: some forms can be read only once."""
        self.rng.setstate(state)
        tables = dress_push(self.case, push, self.rng)
        watermark = watermark_argument(self.case, push.watermark, self.rng)
        options: dict[str, Any] = {} if watermark is None else {"watermark": watermark}
        if self.way.pieces:
            return list(self.engine.push_batches(tables, **options))
        return [self.engine.push(tables, **options)]

    def _check_schema(self, table: pa.Table, number: int) -> None:
        if table.schema.names != self.names:
            self._fail(f"push {number}: columns {table.schema.names}, not {self.names}")
        if table.schema.types[-2:] != [self.case.time_type] * 2:
            self._fail(f"push {number}: validity is {table.schema.types[-2:]}, not {self.case.time_type}")
        if not table.schema.equals(self.query.output_schema):
            self._fail(f"push {number}: schema\n{table.schema}\nis not the query's\n{self.query.output_schema}")

    def _check_watermark(self, number: int, rows: list[tuple[Any, ...]]) -> None:
        before = self.own.watermarks[number]
        if before is None:
            return
        limit = canonical(before, self.case.time_type)
        for row in rows:
            if row[-2] < limit:
                self._fail(f"push {number}: valid_from {row[-2]} is before the watermark {limit}")

    def _restore(self, plan: str | None, executor: str | None) -> None:
        stored = self.engine.snapshot().to_bytes()
        options: dict[str, Any] = {"late": "keep", "max_jump": _max_jump(self.case)}
        if plan is not None:
            options["plan"] = plan
        if executor is not None or self.engine.executor in self.kinds:
            options["executor"] = self.find_kind(executor or self.engine.executor)
        self._take_late()
        if self.rng.random() < 0.3 and self.query.text == self.case.text:
            self._restore_under_another_schema(stored)
        before, ran = self.engine.stats(), self.engine.executor
        options["demand"] = self.way.demand
        self.engine = ms.Engine.restore(self.query, ms.Snapshot.from_bytes(stored), **options)
        self._equal("the restored executor", self.engine.executor, executor or ran)
        after = self.engine.stats()
        self.work = after.work
        for name in ("rows_in", "rows_out", "late", "rejected", "dropped", "watermark"):
            if getattr(before, name) != getattr(after, name):
                self._fail(f"restored {name} is {getattr(after, name)}, was {getattr(before, name)}")

    def _restore_under_another_schema(self, stored: bytes) -> None:
        """One column has another type: that is refused by name, or was not read, or the type is a wider one."""
        arguments = self.case.query_arguments()
        name = self.rng.choice(sorted(self.case.sources))
        field = self.rng.choice(list(self.case.sources[name].schema))
        type_ = self.rng.choice(OTHER_TYPES)
        schema = arguments["schemas"][name]
        changed = schema.set(schema.get_field_index(field.name), pa.field(field.name, type_))
        try:
            query = ms.query(self.case.text, **arguments | {"schemas": arguments["schemas"] | {name: changed}})
        except ms.QueryError:
            return
        try:
            ms.Engine.restore(query, stored, executor=self.kinds.get(self.engine.executor))
        except ms.SnapshotError as refusal:
            if f"column {field.name!r} of" not in str(refusal) or str(type_) not in str(refusal):
                self._fail(
                    f"{field.name} of {name} as {type_} instead of {field.type} is refused without its name: {refusal}"
                )

    def _take_late(self) -> None:
        for name, table in self.engine.take_late().items():
            names = self.case.sources[name].schema.names
            if table.schema.names != [*names, reason_column(names)]:
                self._fail(f"late rows of {name} have columns {table.schema.names}")
            self.late[name] += rows_of(table)

    def _check_counters(self) -> None:
        stats = self.engine.stats()
        accepted = collections.Counter(arrival.row.source for arrival in self.own.arrivals)
        late = self.own.counts(reason_is_late=True)
        rejected = self.own.counts(reason_is_late=False)
        for name in self.case.streams:
            self._equal(f"rows_in of {name}", stats.rows_in.get(name, 0), accepted[name])
            self._equal(f"late of {name}", stats.late.get(name, 0), sum(late.get(name, {}).values()))
            found = {reason: count for reason, count in stats.rejected.get(name, {}).items() if count}
            self._equal(f"rejected of {name}", found, dict(rejected.get(name, {})))
        self._equal("rows_out", stats.rows_out, self.total)
        if not self.expected.dropped:
            self.expected.dropped.append(stats.dropped)
        self._equal("dropped", stats.dropped, self.expected.dropped[0])

    def _check_work(self) -> None:
        """What has been done is never less than it was."""
        before, self.work = self.work, self.engine.stats().work
        if self.work.slots_visited < before.slots_visited or self.work.bytes_moved < before.bytes_moved:
            self._fail(f"work went back from {before} to {self.work}")

    def _check_late(self) -> None:
        for name in self.case.streams:
            expected = multiset(_late_row(self.case, row, why) for row, why in self.own.refused if row.source == name)
            names = [*self.case.sources[name].schema.names, "the reason"]
            different = difference(expected, multiset(self.late[name]), names)
            if different:
                self._fail(f"late rows of {name}: {different}")

    def _check_finish(self) -> None:
        last = self.engine.finish()
        self._equal("rows of finish", last.num_rows, 0)
        self._check_schema(last, len(self.case.pushes))
        self._equal("rows of a second finish", self.engine.finish().num_rows, 0)
        self._check_work()
        self._equal("dropped after finish", self.engine.stats().dropped, self.expected.dropped[0])
        self._equal("rows of state after finish", sum(state.rows for state in self.engine.stats().states), 0)

    def _equal(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._fail(f"{what}: found {found}, expected {expected}")

    def _fail(self, message: str) -> None:
        raise Mismatch(f"{message}\n{describe(self.case, self.way.text())}")


def _as_table(found: pa.Table | pa.RecordBatch) -> pa.Table:
    return found if isinstance(found, pa.Table) else pa.Table.from_batches([found])


def reason_column(names: list[str]) -> str:
    """What the column of reasons is called beside these columns: the first of its names that is free."""
    taken = {name.lower() for name in names}
    return next(name for name in ("_" * count + "reason" for count in range(len(names) + 1)) if name not in taken)


def _late_row(case: Case, row: Row, reason: str) -> tuple[Any, ...]:
    (values,) = rows_of(pushed_table(case, row.source, [row]))
    return (*values, reason)


def run(case: Case, expected: Expected, ways: Iterable[Way], query: Any = None) -> int:
    """Run the case in each way; the number of runs."""
    count = 0
    for way in ways:
        with large_from(way.piece_bytes), sizes_of(way):
            Run(case, expected, way, query).check()
        count += 1
    return count


@contextlib.contextmanager
def sizes_of(way: Way) -> Iterator[None]:
    """Have rings, chunks and windows behave as a way asks for."""
    with tight() if way.limited else contextlib.nullcontext(), restless() if way.restless else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def large_from(piece_bytes: int | None) -> Iterator[None]:
    """Have the engine cut values into pieces of so many bytes; None leaves its own limit.

    Arrays that expressions make then hold little more than the longest value.
    """
    before = sizes.PIECE_BYTES, sizes.ARRAY_BYTES
    if piece_bytes is not None:
        sizes.PIECE_BYTES, sizes.ARRAY_BYTES = piece_bytes, max(piece_bytes, _LONGEST_VALUE)
    try:
        yield
    finally:
        sizes.PIECE_BYTES, sizes.ARRAY_BYTES = before
