"""Output stages from outside the package, held against the oracle with changes of plan and restores in between."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import midstream as ms
from midstream.engine import push_loop
from midstream.engine.executors.registry import executor_names
from midstream.engine.operators.stage import Stage
from midstream.engine.pipeline import Pipeline

from ..engine.stages import ByStep, Counting
from ..oracle.accept import accept
from ..oracle.batching import batchings
from ..oracle.cases import make_case
from ..oracle.compare import Rows, difference, multiset, rows_of
from ..oracle.run import Expected, expect, make_query
from ..oracle.spec import Case
from . import ahead
from .changes import NAMES, draw_changes
from .migrating import MigratingRun, Tally, draw_way

EXECUTORS = executor_names()
UseStage = Callable[[Any], None]


@pytest.fixture
def use_stage(monkeypatch: pytest.MonkeyPatch) -> UseStage:
    ms.get_ready()  # else the first engine of a process warms up with this stage

    def use(make_stage: Any) -> None:
        monkeypatch.setattr(push_loop, "Pipeline", functools.partial(Pipeline, make_stage=make_stage))

    return use


def stage_of(engine: ms.Engine) -> Stage:
    return engine._pipeline._lane.held._inner


def microseconds(value: Any) -> int:
    """A moment of a canonical result."""
    return value if isinstance(value, int) else value[1] // 1000


@dataclass(frozen=True)
class ExpectedBySteps(Expected):
    """Results come with the push whose watermark closes the step in which they begin; the rest when input ends."""

    step: int = 1

    def by_push(self, case: Case) -> list[Rows]:
        watermarks = accept(case).watermarks[1:]
        found: list[list[Any]] = [[] for _ in (*case.pushes, "finish")]
        for completed, results in enumerate(super().by_push(case)):
            for values, count in results.items():
                closed = (microseconds(values[-2]) // self.step + 1) * self.step
                later = enumerate(watermarks[completed:], completed)
                due = next((at for at, reached in later if reached is not None and reached >= closed), len(watermarks))
                found[due] += [values] * count
        return [multiset(rows) for rows in found]


class RunBySteps(MigratingRun):
    longest_wait = 0

    def _check_watermark(self, number: int, rows: list[tuple[Any, ...]]) -> None:
        """Results are late on purpose."""

    def _push(self, number: int, expected: Rows) -> None:
        super()._push(number, expected)
        stage = stage_of(self.engine)
        assert isinstance(stage, ByStep)
        self.longest_wait = max(self.longest_wait, stage.longest_wait)
        size = sum(state.bytes for state in self.engine.stats().states if state.kind == "output")
        assert size == stage.nbytes

    def _check_finish(self) -> None:
        rest = self.expected.by_push(self.case)[-1]
        different = difference(rest, multiset(rows_of(self.engine.finish())), self.names)
        if different:
            self._fail(f"finish: {different}")
        super()._check_finish()


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
def test_results_that_wait_for_a_step_to_close(strategy: str, use_stage: UseStage) -> None:
    longest_wait = waited = restored = 0
    for seed in range(31_005, 31_015):
        rng = random.Random(f"steps {seed} {strategy}")
        case = make_case(seed, windows=rng.choice(["range", "range", "static"]))
        if len(case.inputs) < 2:
            continue
        expected = expect(case)
        begins = sorted({microseconds(result.values[-2]) for result in expected.results})
        step = max(1, (begins[-1] - begins[0]) // rng.choice([2, 5, 20])) if begins else 10
        cut = rng.choice(list(batchings(case, rng).values()))
        use_stage(type("ByStepOf", (ByStep,), {"step": step}))
        delayed, way = ExpectedBySteps(expected.acceptance, expected.results, step=step), draw_way(cut, rng)
        run = RunBySteps(cut, delayed, way, make_query(case), draw_changes(cut, rng, (strategy,), EXECUTORS), Tally())
        run.check()
        waited += run.total
        longest_wait = max(longest_wait, run.longest_wait)
        restored += len(way.restore_before)
    assert waited > 100 and restored > 3
    assert longest_wait, "results have waited beyond their end, when the watermark alone would have purged their rows"


def test_a_stage_that_counts(use_stage: UseStage) -> None:
    use_stage(Counting)
    counted = 0
    for seed in range(32_000, 32_006):
        rng = random.Random(f"counting {seed}")
        case = make_case(seed)
        if len(case.inputs) < 2:
            continue
        way = draw_way(case, rng)
        changes = draw_changes(case, rng, NAMES, EXECUTORS)
        run = MigratingRun(case, expect(case), way, make_query(case), changes, Tally())
        totals: list[int] = []
        run._check_late = lambda run=run, totals=totals: totals.append(stage_of(run.engine).counted)  # type: ignore
        run.check()
        assert totals == [run.total]
        counted += run.total
    assert counted


def test_waiting_results_follow_the_ids_of_their_rows(use_stage: UseStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are packed while results wait, and their rows have other ids afterwards."""
    packed = ahead.count_packed(monkeypatch)
    runs: list[list[ahead.Result]] = []
    for make_stage in (Counting, type("ByMoments", (ByStep,), {"step": 3 * ahead.TICK})):
        use_stage(make_stage)
        engine = ahead.make_engine()
        packed.clear()
        results = [result for number in range(60) for result in ahead.push(engine, number)]
        runs.append(sorted(results + ahead.results_of(engine.finish())))
        assert max(packed, default=0) > ahead.EACH, "no window was packed with live rows between dead ones"
    assert runs[0] == runs[1]
