"""One contender over streams on a virtual clock: what it gives and what it holds, moment by moment.

Rows are there when their time has come; while the engine keeps up, the clock is event time, and where it lags, the
clock is ahead by what processing took. The change of the plan is asked for at a time of this clock. Checking the output
and looking at the states takes no time on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import midstream as ms
from midstream.lab.answers import Digest, digest_of, require_same
from midstream.lab.clock import VirtualClock
from midstream.lab.combined_purge import CombinedPurge
from midstream.lab.experiments.zhu_streams import LEFT_DEEP, MICROSECONDS, RIGHT_DEEP, Setting, Streams, make_streams
from midstream.lab.peers import migrate_by
from midstream.lab.race import PARALLEL_TRACK, Contender

#: Parallel Track under the paper's purge rule.
COMBINED = Contender("Parallel Track, combined", CombinedPurge())
_PUSHES_PER_WINDOW = 25

_NEVER = float("inf")


@dataclass(frozen=True)
class Moment:
    """After a push: the clock, the event time reached, and results of the push; entries and bytes of all states.

    `values` counts the rows of the base windows and the rows that the entries of the join states are made of.
    """

    clock: float
    event_time: float
    results: int
    entries: int
    values: int
    bytes: int


@dataclass(frozen=True)
class Run:
    """A contender's run. `stage` is the length of the migration on the clock, `event_stage` in event time."""

    contender: str
    moments: Sequence[Moment]
    asked: float
    stage: float
    event_stage: float
    digest: Digest
    sample: Digest
    seconds: float

    def between(self, since: float, until: float) -> list[Moment]:
        """The moments of a span of the clock."""
        return [moment for moment in self.moments if since < moment.clock <= until]

    def rates(self, width: float, until: float) -> list[tuple[float, float]]:
        """Results a second in each span of the clock, with the middle of the span."""
        edges = np.arange(0, until + width / 2, width)
        clocks = [min(moment.clock, edges[-1]) for moment in self.moments]
        counts, _ = np.histogram(clocks, edges, weights=[moment.results for moment in self.moments])
        return [(float(edge + width / 2), float(count / width)) for edge, count in zip(edges, counts, strict=False)]


@dataclass(frozen=True)
class Trial:
    """What all contenders have in common: rows, plans, when the change is asked for.

    `sample` are the seconds of event time whose results DuckDB is asked for. With `stops_after_stage` a run ends when
    the migration and the sample are over.
    """

    streams: Streams
    step: float
    migrate_at: float
    sample: tuple[float, float] = (0.0, _NEVER)
    old: str = LEFT_DEEP
    new: str = RIGHT_DEEP
    stops_after_stage: bool = False

    def run(self, contender: Contender, plan: str | None = None) -> Run:
        """Run a contender from the old plan, or one that stays on the plan given."""
        engine = ms.Engine(self.streams.query, plan=plan or self.old, executor=contender.executor, demand="off")
        clock = VirtualClock(timer=time.process_time)
        moments: list[Moment] = []
        asked, stage, event_stage = _NEVER, 0.0, 0.0
        digest, sample, spent = Digest(), Digest(), 0.0
        for until, batch in self.streams.slices(self.step):
            clock.wait_for(until - self.step)
            before = clock.now
            if asked == _NEVER and clock.now >= self.migrate_at and contender.strategy is not None:
                asked = clock.now
                event_start = until - self.step
                with clock.working():
                    migrate_by(contender.strategy, engine, self.new, contender.options)
                if _is_done(engine):
                    stage = clock.now - asked
            spent += clock.now - before
            clock.wait_for(until)
            before = clock.now
            with clock.working():
                tables = list(engine.push_batches(batch, watermark=round(until * MICROSECONDS)))
            spent += clock.now - before
            if asked != _NEVER and stage == 0 and _is_done(engine):
                stage, event_stage = clock.now - asked, until - event_start
            digest += digest_of(tables)
            sample += digest_of([_select_begun(table, *self.sample) for table in tables])
            moments.append(_moment(engine, clock.now, until, sum(table.num_rows for table in tables)))
            if self.stops_after_stage and stage and until >= self.sample[1]:
                break
        return Run(contender.name, moments, asked, stage, event_stage, digest, sample, spent)


def _is_done(engine: ms.Engine) -> bool:
    return engine.migration is not None and engine.migration.is_done


def _select_begun(table: pa.Table, since: float, until: float) -> pa.Table:
    if (since, until) == (0.0, _NEVER):
        return table
    starts = table["valid_from"]
    low, high = round(since * MICROSECONDS), round(until * MICROSECONDS)
    return table.filter(pc.and_(pc.greater_equal(starts, low), pc.less(starts, high)))


def _moment(engine: ms.Engine, clock: float, event_time: float, results: int) -> Moment:
    stats = engine.stats()
    joins = [state for state in stats.states if state.kind == "join"]
    rows = sum(state.rows for state in stats.states if state.kind == "window")
    return Moment(
        clock,
        event_time,
        results,
        sum(state.rows for state in joins),
        rows + sum(state.rows * len(state.aliases) for state in joins),
        stats.state_bytes,
    )


def check(runs: Iterable[Run], trial: Trial, where: str) -> None:
    """All contenders agree on everything, if they ran to the end, and with DuckDB on what begins in the sample."""
    found = list(runs)
    since, until = trial.sample
    expected = trial.streams.answer(since, min(until, found[0].moments[-1].event_time))
    require_same({run.contender: run.sample for run in found}, expected, where)
    if not trial.stops_after_stage:
        require_same({run.contender: run.digest for run in found}, found[0].digest, f"{where}, whole run")


def run_tracks(setting: Setting, seed: int, where: str, names: str = "ABCD") -> list[Run]:
    """The stage of Parallel Track on the same rows, as the engine ends it and as the paper does.

    DuckDB checks what comes out in its first tenth of a window.
    """
    window = setting.window
    begin = 1.2 * window
    old, new = (LEFT_DEEP, RIGHT_DEEP) if len(names) == 4 else ("(A B)", "(B A)")
    trial = Trial(
        make_streams(setting, begin + 2.4 * window, seed, names),
        window / _PUSHES_PER_WINDOW,
        begin,
        sample=(begin, begin + 0.1 * window),
        old=old,
        new=new,
        stops_after_stage=True,
    )
    runs = [trial.run(contender) for contender in (PARALLEL_TRACK, COMBINED)]
    check(runs, trial, where)
    return runs


def rows_of(runs: Mapping[str, Run]) -> pa.Table:
    """Every moment of every run as raw rows."""
    found = [
        {
            "contender": name,
            "clock": moment.clock,
            "event_time": moment.event_time,
            "results": moment.results,
            "entries": moment.entries,
            "values": moment.values,
            "bytes": moment.bytes,
        }
        for name, run in runs.items()
        for moment in run.moments
    ]
    return pa.Table.from_pylist(found)
