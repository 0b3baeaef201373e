"""One point of a figure of paper 003: the same rows with demand and without it, by hash joins and by nested loops.

The product joins by hash, the paper by nested loops, so both run. The first window of rows only fills the states. A
further engine, whose time does not count, counts what the paper has and the product leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.tree import Tree, TreeExecutor
from midstream.engine.stats import EngineStats
from midstream.lab.definition import Settings
from midstream.lab.experiments.jit_left_out import CountingTree, LeftOut, left_out_of
from midstream.lab.experiments.jit_streams import Setting, Streams
from midstream.lab.nested_loops import NestedLoops, count_pairs
from midstream.lab.race import Contender, Lane, Race
from midstream.state.join_state import JoinState

#: What `demand` is set to: the paper's REF, and its JIT.
OFF, ON = "off", "on"
DEMANDS = (OFF, ON)
HASH, LOOPS, COUNTED = "hash", "nested loops", "counted"
_EXECUTORS: dict[str, ExecutorKind] = {HASH: Tree(), LOOPS: NestedLoops()}
#: Windows of rows in a default run, the first of which is not measured.
_WINDOWS = {HASH: 4.0, LOOPS: 2.0}
_FULL_MINUTES = 300.0


@dataclass(frozen=True)
class Measurement:
    """What one engine took after its first window; `seconds` are those for a window of rows.

    `made` are the combinations that were stored or had to wait, `most_entries` those that were there at a time, and
    `pairs` those that nested loops looked at. `most_bytes` is what `stats()` counted when that was most; windows, join
    states and what waits, hidden or suspended, are its parts. `hidden` to `checks` count the first window, too. The
    last three are counted by an engine of its own, see `jit_left_out`.
    """

    joins: str
    demand: str
    seconds: float
    pairs: int
    made: int
    most_entries: int
    most_bytes: int
    window_bytes: int
    join_bytes: int
    waiting_bytes: int
    hidden: int
    suspended: int
    resumed: int
    checks: int
    without_partner: int
    outlived: int
    entries_seen: int


class _Gauge:
    """What a lane has done since its first window, beside the time that it took."""

    def __init__(self, lane: Lane, joins: str):
        self._lane, self._joins = lane, joins
        self._pairs_before = self._made_before = 0
        self._left_out_before = LeftOut()
        self._most_entries = 0
        self._largest: EngineStats = lane.engine.stats()

    @property
    def _executor(self) -> TreeExecutor:
        executor = self._lane.engine._pipeline.executor
        assert isinstance(executor, TreeExecutor)
        return executor

    def _states(self) -> list[JoinState]:
        """Where there are combinations: in the states of joins, and where they wait; single rows wait elsewhere."""
        found = [node.state for node in self._executor.joins() if node.state is not None]
        suspender = self._executor._suspender
        waits = () if suspender is None else suspender._all()
        return found + [waiting.state for waiting in waits if len(waiting.node.inputs) > 1]

    def _count_made(self) -> int:
        return sum(state.stored_in_all for state in self._states())

    def begin(self) -> None:
        self._pairs_before, self._made_before = count_pairs(self._executor), self._count_made()
        self._left_out_before = left_out_of(self._executor)

    def look(self) -> None:
        stats = self._lane.engine.stats()
        self._most_entries = max(self._most_entries, sum(len(state) for state in self._states()))
        if stats.state_bytes > self._largest.state_bytes:
            self._largest = stats

    def _bytes_of(self, *kinds: str) -> int:
        return sum(state.bytes for state in self._largest.states if state.kind in kinds)

    def read(self, windows: float) -> Measurement:
        """What was measured, over so many windows of rows."""
        demand = self._lane.engine.stats().demand
        left_out = left_out_of(self._executor) - self._left_out_before
        return Measurement(
            joins=self._joins,
            demand=self._lane.contender.demand,
            seconds=self._lane.seconds / windows,
            pairs=count_pairs(self._executor) - self._pairs_before,
            made=self._count_made() - self._made_before,
            most_entries=self._most_entries,
            most_bytes=self._largest.state_bytes,
            window_bytes=self._bytes_of("window"),
            join_bytes=self._bytes_of("join"),
            waiting_bytes=self._bytes_of("hidden", "suspended"),
            hidden=0 if demand is None else demand.hidden,
            suspended=0 if demand is None else demand.suspended,
            resumed=0 if demand is None else demand.resumed,
            checks=0 if demand is None else demand.checks,
            without_partner=left_out.without_partner,
            outlived=left_out.outlived,
            entries_seen=left_out.entries,
        )


def get_ready(setting: Setting) -> None:
    """Run everything on a few rows, so that compiling kernels is not measured."""
    small = replace(setting, window=1.0, rate=1.0, dmax=20)
    for joins in _EXECUTORS:
        _race(Streams(small, 2.0, 0), joins, "the first rows")


def measure(setting: Setting, joins: str, settings: Settings) -> list[Measurement]:
    """Run all contenders that join in this way; their results are those of DuckDB."""
    windows = _FULL_MINUTES / setting.window if settings.full else _WINDOWS[joins]
    return _race(Streams(setting, windows, settings.seed), joins, f"{setting}, {joins}")


def _race(streams: Streams, joins: str, where: str) -> list[Measurement]:
    contenders = [
        Contender(f"{joins}, demand {demand}", executor=_EXECUTORS[joins], demand=demand) for demand in DEMANDS
    ]
    names = [joins] * len(contenders)
    if joins == HASH:
        contenders.append(Contender(COUNTED, executor=CountingTree(), demand=ON))
        names.append(COUNTED)
    lanes = [Lane(contender, streams.query, streams.setting.plan) for contender in contenders]
    gauges = [_Gauge(lane, name) for lane, name in zip(lanes, names, strict=True)]
    race, seen, measured = Race(lanes), 0, 0
    for batch in streams.pushes():
        is_measured = seen >= streams.setting.window_rows
        if is_measured and measured == 0:
            race.start_watches()
            for gauge in gauges:
                gauge.begin()
        race.push(batch)
        rows = next(iter(batch.values())).num_rows
        seen += rows
        if is_measured:
            measured += rows
            for gauge in gauges:
                gauge.look()
    race.check(streams.answer(), where)
    return [gauge.read(measured / streams.setting.window_rows) for gauge in gauges]
