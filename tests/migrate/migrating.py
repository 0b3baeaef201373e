"""An oracle run with changes of plan between its pushes: every push must still give what the oracle says."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import midstream as ms
from midstream.engine.executors.protocol import ExecutorKind
from midstream.migrate import STRATEGIES, Migration, Strategy
from midstream.migrate.begin import MOST_PLANS

from ..oracle.batching import batchings
from ..oracle.cases import make_case
from ..oracle.compare import Rows
from ..oracle.run import Expected, Run, Way, expect, make_query, sizes_of
from ..oracle.spec import Case
from .changes import EXECUTORS, MIXED, NAMES, SUITABLE, Change, draw_changes, fit_budget
from .follow import Follower

FEWEST_CASES = 4
NAMED = re.compile(r"\b(" + "|".join(sorted(NAMES, key=len, reverse=True)) + r")\b(?!-)")


@dataclass
class Tally:
    """Migrations that were made, and those that were refused, by strategy."""

    made: collections.Counter[str] = field(default_factory=collections.Counter)
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    runs: int = 0
    cases: int = 0
    results: int = 0
    evicted: int = 0

    def count(self, strategy: str) -> int:
        return sum(self.made.values()) if strategy == MIXED else self.made[strategy]


class MigratingRun(Run):
    """A run that also changes plans, follows every migration, and looks at what a refusal leaves behind."""

    def __init__(
        self,
        case: Case,
        expected: Expected,
        way: Way,
        query: Any,
        changes: list[Change],
        tally: Tally,
        given: Sequence[Strategy] = (),
        kinds: Mapping[str, ExecutorKind] | None = None,
    ):
        super().__init__(case, expected, way, query, kinds)
        self._strategies = {strategy.name: strategy for strategy in (*STRATEGIES, *given)}
        self._changes = changes
        self._follower = Follower()
        self._followers: list[Follower] = []
        self._tally = tally

    def _push(self, number: int, expected: Rows) -> None:
        for change in self._changes:
            if change.before == number:
                self._change(change)
        super()._push(number, expected)
        self._follower.check_push(self.engine)

    def _change(self, change: Change) -> None:
        if change.executor in ("eddy", "stairs"):
            self.engine.memory_limit = None  # they know none
        target = change.target(self.engine.plan)
        before = (self.engine.plan, self.engine.migration, self.engine.stats())
        if self.engine.executor == "eddy" and change.executor in (None, "eddy"):
            self._change_on_eddy(target, change, before)
            return
        try:
            self._migrate(target, change.strategy, change)
        except ms.EngineError as refusal:
            after = (self.engine.plan, self.engine.migration, self.engine.stats())
            assert before == after, f"a refused migration changed the engine: {refusal}"
            self._tally.refused[change.strategy] += 1
            named = [name for name in NAMED.findall(str(refusal)) if name != change.strategy]
            assert named, f"the refusal names nothing that works: {refusal}"
            self._migrate(target, named[change.turn % len(named)], change)
        assert str(self.engine.plan) == target
        self._check_work()

    def _change_on_eddy(self, target: str, change: Change, before: tuple[object, ...]) -> None:
        """No strategy may be named, and the plan must follow the edges that there are; stairs take any."""
        for strategy in (self._strategies[change.strategy], None):
            try:
                record = self.engine.migrate(target, strategy)
            except ms.EngineError as refusal:
                after = (self.engine.plan, self.engine.migration, self.engine.stats())
                assert before == after, f"a refused migration changed the engine: {refusal}"
                assert "executor='stairs'" in str(refusal), f"the refusal names nothing that works: {refusal}"
            else:
                assert strategy is None and (record.strategy, record.phase) == ("jisc", "done")
                self._check_ended()
                self._follower = Follower(record)
                return
        self._change(dataclasses.replace(change, executor="stairs"))

    def _migrate(self, target: str, strategy: str, change: Change) -> None:
        events: list[Migration] = []
        asked = strategy if strategy in NAMES else self._strategies[strategy]
        ran = self.engine.executor
        executor = None if change.executor is None else self.find_kind(change.executor)
        record = self.engine.migrate(
            target, asked, executor=executor, on_event=events.append, **fit_budget(asked, change.budget)
        )
        assert (record.from_executor, record.to_executor) == (ran, change.executor or ran)
        assert self.engine.executor == record.to_executor
        self._tally.made[record.strategy] += 1
        if not self._strategies[record.strategy].runs_beside:  # it has taken over, so all others have come to their end
            self._check_ended()
        self._follower = Follower(events=events)
        self._followers.append(self._follower)
        self._follower.check_begun(record)
        assert record == self.engine.migration
        assert record.to_plan == target
        assert record.strategy == ("jisc" if record.note else strategy)
        assert sum(not follower.events[-1].has_ended for follower in self._followers) <= MOST_PLANS

    def _restore(self, plan: str | None, executor: str | None) -> None:
        super()._restore(plan, executor)
        self._follower = Follower()
        self._followers = []

    def _check_finish(self) -> None:
        super()._check_finish()
        self._check_ended()

    def _check_ended(self) -> None:
        """Every migration so far has had its end, and told it once."""
        for follower in self._followers:
            follower.check_end()


def check_seed(
    seed: int,
    strategy: str,
    tally: Tally,
    big: bool | None = None,
    given: Sequence[Strategy] = (),
    make_query: Callable[[Case], Any] = make_query,
    kinds: Sequence[ExecutorKind] = (),
) -> None:
    """One case, cut in two ways, with its own changes in each, some of them stored and restored in between.

    `given` are strategies and `kinds` executors that nobody has registered. `make_query` makes the query of a case,
    or gives None if the case is not wanted.
    """
    rng = random.Random(f"migrations {seed} {strategy}")
    windows = rng.choice(SUITABLE[strategy]) if strategy in SUITABLE and rng.random() < 0.9 else None
    case = make_case(seed, windows=windows, big=big)
    if len(case.inputs) < 2:
        return
    query = make_query(case)
    if query is None:
        return
    strategies = (*NAMES, *(other.name for other in given)) if strategy == MIXED else (strategy,)
    expected = expect(case)
    cuts = batchings(case, rng)
    tally.cases += 1
    for label in rng.sample(sorted(cuts), min(2, len(cuts))):
        cut = cuts[label]
        executors = (*rng.choice(EXECUTORS), *(kind.name for kind in kinds))
        named = {kind.name: kind for kind in kinds}
        changes = draw_changes(cut, rng, strategies, executors)
        way = draw_way(cut, rng, executors)
        try:
            with sizes_of(way):
                run = MigratingRun(cut, expected, way, query, changes, tally, given, named)
                run.check()
        except Exception as problem:
            steps = "\n".join(f"  {change}" for change in changes)
            blame = (
                "fails without any migration too"
                if fails_alone(cut, expected, way, query, named)
                else "right if left alone"
            )
            raise AssertionError(
                f"seed {seed}, strategy {strategy}, cut {label!r}, {way.text()}; {blame}\n"
                f"replay: python -m tests.migrate.replay --strategy {strategy} --seed {seed}{' --big' * bool(big)}\n"
                f"changes:\n{steps}\n{type(problem).__name__}: {problem}"
            ) from problem
        tally.runs += 1
        tally.results += run.total
        tally.evicted += run.evicted


def fails_alone(
    case: Case, expected: Expected, way: Way, query: Any, kinds: Mapping[str, ExecutorKind] | None = None
) -> bool:
    """Whether the run goes wrong without any migration, so that migrating is not to blame."""
    try:
        Run(case, expected, way, query, kinds).check()
    except Exception:
        return True
    return False


def draw_way(case: Case, rng: random.Random, executors: tuple[str, ...] = ("tree",)) -> Way:
    """The first plan and executor, whether results come in pieces, up to two restores, and whether it evicts."""
    moments = sorted(rng.randrange(len(case.pushes)) for _ in range(rng.choice([0, 0, 1, 2])))
    plans = tuple(rng.choice([None, None, *case.plans]) for _ in moments)
    after = tuple(rng.choice([None, *executors]) for _ in moments)
    return Way(
        rng.choice(case.plans),
        rng.random() < 0.1,
        tuple(moments),
        plans,
        executor=rng.choice(executors),
        executors_after=after,
        evicts=rng.random() < 0.7,
        limited=rng.random() < 0.4,
        demand=rng.choice(["off", "on", "auto"]),
        restless=rng.random() < 0.3,
    )


def check_block(
    first: int,
    strategy: str,
    quota: int,
    big: bool | None = None,
    most: int = 500,
    given: Sequence[Strategy] = (),
    make_query: Callable[[Case], Any] = make_query,
    kinds: Sequence[ExecutorKind] = (),
) -> Tally:
    """Seeds from `first` on until so many migrations were made, in several cases with results, some with evictions."""
    tally = Tally()
    for seed in itertools.islice(itertools.count(first), most):
        check_seed(seed, strategy, tally, big, given, make_query, kinds)
        if tally.count(strategy) >= quota and tally.cases >= FEWEST_CASES and tally.results and tally.evicted:
            break
    return tally
