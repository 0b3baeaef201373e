"""Changing the plan of a running query: one strategy a file, and one entry here.

Each strategy answers two questions: why it cannot do a transition, if so, and what runs from now on. All leave the
output as it would have been: the same rows with the same `valid_from` and `valid_to`, in the same push.
"""

from midstream.migrate.genmig import GenMig, GenMigReferencePoint
from midstream.migrate.jisc import JustInTime
from midstream.migrate.moving_state import MovingState
from midstream.migrate.options import BUDGET, HOLD, Options
from midstream.migrate.parallel_track import ParallelTrack
from midstream.migrate.pause_drain_resume import PauseDrainResume
from midstream.migrate.record import Migration
from midstream.migrate.strategy import CostModel, Strategy, Transition

#: All that users can name; the first is the default.
STRATEGIES: tuple[Strategy, ...] = (
    JustInTime(),
    MovingState(),
    ParallelTrack(),
    GenMig(),
    GenMigReferencePoint(),
    PauseDrainResume(),
)

DEFAULT_STRATEGY = STRATEGIES[0].name

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
]
