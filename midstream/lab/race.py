"""A race: several contenders over the same rows in one run, batch by batch in turns.

Each lane is an engine of its own. All get a batch before any gets the next one, so that whatever else happens on the
machine meets all of them alike. The order is drawn anew for each batch: a lane finds the caches as the one before it
leaves them, and under a fixed order some would always run after a lane that needs them most. What counts is the
processor time of this process; checking the output is not part of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

import midstream as ms
from midstream.engine.executors.protocol import ExecutorKind
from midstream.lab.answers import Digest, digest_of, require_same
from midstream.lab.peers import CombinedTrack, migrate_by
from midstream.migrate import Options, Strategy
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategies.moving_state import MovingState
from midstream.migrate.strategies.parallel_track import ParallelTrack

Batch = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Contender:
    """What runs, and how it changes its plan; without a strategy it stays on the plan it has.

    `routing` and `moves` are for executors without a tree: how rows are routed, and how entries follow a new routing.
    With `demand`, what has no partner waits; the papers on migrations do without.
    """

    name: str
    strategy: Strategy | None = None
    executor: str | ExecutorKind = "tree"
    options: Options = field(default_factory=Options)
    routing: str | None = None
    moves: str | None = None
    demand: str = "off"

    def start(self, query: ms.Query, plan: str) -> ms.Engine:
        """An engine that runs this contender, with its first plan."""
        return ms.Engine(
            query,
            plan=plan,
            executor=self.executor,
            routing=self.routing,
            strategy=self.moves,
            demand=self.demand,
        )


#: JISC as in its paper: a state is filled by probes alone.
JISC = Contender("JISC", JustInTime(), options=Options(budget_holes=0))
MOVING_STATE = Contender("Moving State", MovingState())
PARALLEL_TRACK = Contender("Parallel Track", ParallelTrack())
CACQ = Contender("CACQ", executor="stems")
PLAIN = Contender("plain pipeline")
#: Parallel Track that drops its old plan after two windows, as the papers have it.
COMBINED = Contender("Parallel Track, 2W", CombinedTrack())


class Lane:
    """One contender's engine, the time it took, and a digest of what it gave since the last check."""

    def __init__(self, contender: Contender, query: ms.Query, plan: str):
        self.contender = contender
        self.engine = contender.start(query, plan)
        self.digest = Digest()
        self.seconds = 0.0

    @property
    def is_migrating(self) -> bool:
        migration = self.engine.migration
        return migration is not None and not migration.is_done

    def push(self, batch: Batch) -> None:
        tables = self._timed(lambda: list(self.engine.push_batches(batch)))
        self.digest += digest_of(tables)

    def migrate(self, plan: str) -> None:
        """Change the plan, if this contender has a strategy."""
        strategy = self.contender.strategy
        if strategy is not None:
            self._timed(lambda: [migrate_by(strategy, self.engine, plan, self.contender.options)])

    def _timed(self, work: Callable[[], list[object]]) -> list[object]:
        began = time.process_time()
        found = work()
        self.seconds += time.process_time() - began
        return found


def lanes_for(contenders: Sequence[Contender], query: ms.Query, plan: str, executor: str = "tree") -> list[Lane]:
    """A lane for each contender; those that change their plan begin on the given executor."""
    started = (
        contender if contender.strategy is None else replace(contender, executor=executor) for contender in contenders
    )
    return [Lane(contender, query, plan) for contender in started]


class Race:
    """Lanes that get the same rows."""

    def __init__(self, lanes: Sequence[Lane]):
        self.lanes = list(lanes)
        self._draws = random.Random(0)

    def push(self, batch: Batch) -> None:
        for lane in self._in_turn():
            lane.push(batch)

    def run(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self.push(batch)

    def migrate(self, plan: str) -> None:
        for lane in self._in_turn():
            lane.migrate(plan)

    def start_watches(self) -> None:
        """Forget the time taken so far."""
        for lane in self.lanes:
            lane.seconds = 0.0

    def check(self, expected: Digest | None, where: str) -> None:
        """Check that every lane gave the expected results since the last check, or at least the same as the others."""
        found = {f"{lane.contender.name} in lane {at}": lane.digest for at, lane in enumerate(self.lanes, 1)}
        require_same(found, self.lanes[0].digest if expected is None else expected, where)
        for lane in self.lanes:
            lane.digest = Digest()

    def times(self) -> dict[str, float]:
        """Seconds since the watches were started, by contender."""
        return {lane.contender.name: lane.seconds for lane in self.lanes}

    def _in_turn(self) -> list[Lane]:
        return self._draws.sample(self.lanes, len(self.lanes))
