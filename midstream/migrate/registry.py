"""All strategies. A new one is a file in `strategies` and an entry here."""

from __future__ import annotations

from midstream.engine.executors.protocol import ExecutorKind
from midstream.migrate.strategies.genmig import GenMig, GenMigReferencePoint
from midstream.migrate.strategies.jisc import JustInTime
from midstream.migrate.strategies.moving_state import MovingState
from midstream.migrate.strategies.parallel_track import ParallelTrack
from midstream.migrate.strategies.pause_drain_resume import PauseDrainResume
from midstream.migrate.strategies.staged import Staged
from midstream.migrate.strategy import Strategy

#: All that users can name; the first is the default.
STRATEGIES: tuple[Strategy, ...] = (
    JustInTime(),
    MovingState(),
    ParallelTrack(),
    GenMig(),
    GenMigReferencePoint(),
    PauseDrainResume(),
    Staged(),
)

DEFAULT_STRATEGY = STRATEGIES[0].name


def default_strategy(kind: ExecutorKind) -> str:
    """What migrations on a kind of executor, and its router, go by unless another strategy is named."""
    return Staged.name if kind.moves_entries else DEFAULT_STRATEGY
