"""The migrations of an engine: how one begins, which of them go on, and what their listeners are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.registry import check_can_evict
from midstream.engine.lane import Lane
from midstream.engine.pipeline import Pipeline
from midstream.engine.transition import Situation
from midstream.errors import EngineError, shown
from midstream.migrate import begin
from midstream.migrate.record import Listener, Migration, Recorder, Running
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategy import Strategy, Transition
from midstream.plan.tree import Plan


class Migrations:
    """Recorders of the migrations that have not ended, and of the latest one."""

    def __init__(self, strategies: Sequence[Strategy]):
        self._strategies = strategies
        self._recorders: list[Recorder] = []

    def __len__(self) -> int:
        return len(self._recorders)

    @property
    def latest(self) -> Migration | None:
        """The latest migration as it stands, or None if there was none."""
        return self._recorders[-1].current if self._recorders else None

    def begin(
        self,
        pipeline: Pipeline,
        plan: Plan,
        kind: ExecutorKind,
        strategy: str | Strategy | None,
        default: str | Strategy,
        given: Mapping[str, object],
        listener: Listener | None,
        changing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Recorder:
        """Change the plan, the executor or both by a strategy with the options that were given.

        Without a strategy it goes by the default. A refusal changes nothing; what could leave things half changed
        happens in the context of `changing`.
        """
        chosen = begin.find_strategy(default if strategy is None else strategy, self._strategies)
        options = begin.read_options(given, chosen, self._strategies)
        if listener is not None and not callable(listener):
            raise EngineError(f"migrate: on_event={shown(listener)}; give a function that takes the migration's record")
        running = pipeline.executor.kind
        if kind.name == running.name and plan.skeleton == pipeline.plan.skeleton:
            if strategy is None and pipeline.executor.refusal(plan, chosen.name) is not None:
                chosen = JustInTime()  # what the engine goes by elsewhere has nothing to do here
            begin.check_own_kind(pipeline.executor, plan, None if strategy is None else chosen.name)
        if pipeline.memory.limit is not None:
            check_can_evict(kind, "migrate")
        old, new = Running(str(pipeline.plan), running.name), Running(str(plan), kind.name)
        recorder = Recorder(chosen.name, chosen.unit, old, new, listener)
        with ExitStack() as stack:

            def make_lane(situation: Situation) -> Lane:
                transition = Transition(situation, plan, kind, options, recorder)
                accepted = begin.choose_strategy(chosen, transition, self._strategies)
                stack.enter_context(changing())
                return begin.begin_migration(accepted, transition)

            pipeline.begin(make_lane)
        begin.give_way(self._recorders, pipeline.migrations())
        self._recorders.append(recorder)
        return recorder

    def after_push(self, pipeline: Pipeline) -> None:
        """A push has passed; the latest migration may have ended those before it."""
        begin.give_way(self._recorders[:-1], pipeline.migrations())

    def finish(self) -> None:
        """The input has ended, and with it every migration."""
        for recorder in self._recorders:
            recorder.end()

    def deliver(self) -> None:
        """Tell listeners how migrations go on, the older ones first."""
        followed = list(self._recorders)
        self._recorders = [earlier for earlier in followed[:-1] if not earlier.current.has_ended] + followed[-1:]
        for recorder in followed:
            recorder.deliver()
