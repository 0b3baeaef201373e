"""Changing the plan of a running query: one strategy a file, and one entry here.

Each strategy answers two questions: why it cannot do a transition, if so, and what runs from now on. All leave the
output as it would have been: the same rows with the same `valid_from` and `valid_to`, in the same push.
"""

from midstream.engine.executors.protocol import ExecutorKind
from midstream.migrate.begin import find_strategy
from midstream.migrate.genmig import GenMig, GenMigReferencePoint
from midstream.migrate.jisc import JustInTime
from midstream.migrate.moving_state import MovingState
from midstream.migrate.options import BUDGET, HOLD, Options
from midstream.migrate.parallel_track import ParallelTrack
from midstream.migrate.pause_drain_resume import PauseDrainResume
from midstream.migrate.record import Migration
from midstream.migrate.staged import Staged
from midstream.migrate.strategy import CostModel, Strategy, Transition

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


__all__ = [
    "BUDGET",
    "DEFAULT_STRATEGY",
    "HOLD",
    "STRATEGIES",
    "CostModel",
    "Migration",
    "Options",
    "Strategy",
    "Transition",
    "default_strategy",
    "find_strategy",
]
