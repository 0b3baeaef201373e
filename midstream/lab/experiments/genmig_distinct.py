"""DISTINCT moves below a join while the query runs: `genmig-distinct`, after the example of paper 002.

The paper shows by this rewrite that Parallel Track fails for other operators than joins, and leaves its measurements of
GenMig beyond joins out. Two streams of few values are joined on equality, and the query asks for the distinct values.
The old plan joins all rows and makes values of the results; the new one makes values of the rows, and joins these.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.engine.executors.registry import find_executor
from midstream.engine.transition import Proposal
from midstream.lab.answers import Digest, digest_of, require_same
from midstream.lab.definition import Experiment, Outcome, Progress, Settings, verdict
from midstream.lab.experiments.genmig import PAPER
from midstream.lab.experiments.zhu_plots import lines
from midstream.lab.peers import migrate_by
from midstream.lab.race import Contender
from midstream.migrate.strategies.genmig import GenMig, GenMigReferencePoint
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategies.moving_state import MovingState
from midstream.migrate.strategies.parallel_track import ParallelTrack
from midstream.plan import read_plan
from midstream.state.indexes import Ints

_ABOVE, _BELOW = "(A B)", "(distinct(A) distinct(B))"
_RATE, _VALUES, _WINDOWS_OF_ROWS, _STEPS_IN_A_WINDOW = 200, 50, 5, 10
_MICROSECONDS = 1_000_000

_NEVER = Contender("old plan")
_GENMIG = Contender("GenMig", GenMig())
_CONTENDERS = (_NEVER, _GENMIG, Contender("JISC", JustInTime()), Contender("Moving State", MovingState()))
_REFUSING = (ParallelTrack(), GenMigReferencePoint())


@dataclass(frozen=True)
class _Moment:
    """A push: how far event time was, what it took, and what is held after it."""

    contender: str
    event_time: float
    seconds: float
    state_bytes: int
    rows: int


@dataclass
class _Run:
    moments: list[_Moment]
    digest: Digest
    #: From the begin of the migration to the push in which it ended, in seconds of event time; 0 if there was none.
    length: float = 0.0

    def cost(self, since: float, until: float) -> float:
        """The median of what pushes of some time took."""
        return statistics.median(moment.seconds for moment in self.moments if since < moment.event_time <= until)


def _make_streams(window: float, seed: int) -> dict[str, pa.Table]:
    rows = round(_WINDOWS_OF_ROWS * window * _RATE)
    tables = {}
    for place, name in enumerate("AB"):
        values = np.random.default_rng([seed, place]).integers(0, _VALUES, rows)
        times = (np.arange(rows) + place / 2) * _MICROSECONDS / _RATE
        tables[name] = pa.table({"ts": times.astype(np.int64), "x": values})
    return tables


def _make_query(window: float) -> ms.Query:
    size, step = round(window * _MICROSECONDS), round(window * _MICROSECONDS / _STEPS_IN_A_WINDOW)
    inputs = ", ".join(f"{name} [RANGE {size} MICROSECONDS]" for name in "AB")
    row = {"ts": pa.int64(), "x": pa.int64()}
    text = f"SELECT DISTINCT A.x FROM {inputs} WHERE A.x = B.x"
    return ms.query(text, {"A": row, "B": row}, "ts", step=f"{step // 1_000} milliseconds")


def _run(query: ms.Query, tables: dict[str, pa.Table], window: float, contender: Contender, executor: str) -> _Run:
    engine = ms.Engine(query, plan=_ABOVE, executor=executor, demand="off")
    run, per_push = _Run([], Digest()), round(window * _RATE / _STEPS_IN_A_WINDOW)
    migrate_at, has_begun = 2 * window, False
    for first in range(0, tables["A"].num_rows, per_push):
        batch = {name: table.slice(first, per_push) for name, table in tables.items()}
        until = (first + per_push) / _RATE
        began = time.process_time()
        if not has_begun and contender.strategy is not None and until > migrate_at:
            migrate_by(contender.strategy, engine, _BELOW)
            has_begun = True
        found = engine.push(batch)
        seconds = time.process_time() - began
        run.digest += digest_of([found])
        run.moments.append(_Moment(contender.name, until, seconds, engine.stats().state_bytes, found.num_rows))
        if has_begun and not run.length and engine.migration is not None and engine.migration.is_done:
            run.length = until - migrate_at
    run.digest += digest_of([engine.finish()])
    return run


def _find_answer(tables: dict[str, pa.Table], window: float, step: int) -> pa.Table:
    """The distinct values of the join, cut at steps, from the times of each value alone."""
    size = round(window * _MICROSECONDS)
    found: list[tuple[int, int, int]] = []
    for value in range(_VALUES):
        there = []
        for table in tables.values():
            times = table["ts"].to_numpy()[table["x"].to_numpy() == value]
            there.append(_merge(times, size))
        left, right = there
        spans = [(max(a, c), min(b, d)) for a, b in left for c, d in right if max(a, c) <= min(b, d)]
        for first, last in spans:
            begins = range(first // step * step, last + 1, step)
            found += [(value, max(first, begin), min(last, begin + step - 1)) for begin in begins]
    columns = [np.array(column, np.int64) for column in zip(*found, strict=True)] if found else [np.empty(0)] * 3
    return pa.table(columns, names=["x", "valid_from", "valid_to"])


def _merge(times: Ints, size: int) -> list[tuple[int, int]]:
    """The spans at which a row is there, each as long as it can be."""
    spans: list[tuple[int, int]] = []
    for moment in map(int, times):
        if spans and moment <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], moment + size)
        else:
            spans.append((moment, moment + size))
    return spans


def _distinct(settings: Settings, progress: Progress) -> Outcome:
    window = float(settings.size(8, 20, least=1))
    query, tables = _make_query(window), _make_streams(window, settings.seed)
    assert query.step is not None
    progress.total(len(_CONTENDERS) + 1)
    runs: dict[str, _Run] = {}
    for contender in _CONTENDERS:
        progress.step(contender.name)
        runs[contender.name] = _run(query, tables, window, contender, settings.executor)
        progress.advance()
    progress.step("comparing")
    expected = digest_of([_find_answer(tables, window, query.step)])
    require_same({name: run.digest for name, run in runs.items()}, expected, "genmig-distinct")
    tree = find_executor("tree", "lab")
    move = Proposal(query, read_plan(_ABOVE, query), read_plan(_BELOW, query), tree, tree)
    refused = [strategy.name for strategy in _REFUSING if strategy.reason_against(move) is not None]
    progress.advance()
    end = _WINDOWS_OF_ROWS * window
    before = {name: run.cost(window, 2 * window) for name, run in runs.items()}
    during = {name: run.cost(2 * window, 3 * window) for name, run in runs.items()}
    after = {name: run.cost(end - window, end) for name, run in runs.items()}
    length = runs[_GENMIG.name].length / window
    saved = after[_NEVER.name] / after[_GENMIG.name]
    holds = 1 <= length <= 1 + 2 / _STEPS_IN_A_WINDOW and saved > 1 and len(refused) == len(_REFUSING)
    names = list(runs)
    return Outcome(
        pa.Table.from_pylist([asdict(moment) for run in runs.values() for moment in run.moments]),
        pa.table(
            {
                "contender": names,
                "migration, windows": [runs[name].length / window for name in names],
                "ms a push before": [1e3 * before[name] for name in names],
                "during": [1e3 * during[name] for name in names],
                "after": [1e3 * after[name] for name in names],
                "state bytes at the end": [runs[name].moments[-1].state_bytes for name in names],
            }
        ),
        (
            lines(
                {name: [(moment.event_time, 1e3 * moment.seconds) for moment in runs[name].moments] for name in names},
                "event time, s",
                "ms a push",
                marked=False,
                moments={"migration": 2 * window},
            ),
        ),
        verdict(holds),
        f"GenMig ends after {length:.2f} w, and a push then takes {1 / saved:.2f} times as long as under the old plan; "
        f"{expected.rows:,} rows are right under every contender, and refused are {' and '.join(refused)}",
        "" if holds else "the length, the saving or the refusals are not as expected",
        checked=True,
    )


GENMIG_DISTINCT = Experiment(
    "genmig-distinct",
    "Duplicate elimination moves below a join",
    PAPER,
    "GenMig moves it within a window and a step, exactly, where Parallel Track fails; the new plan is cheaper",
    _distinct,
)
