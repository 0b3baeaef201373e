"""Changing the plan of a running query: one strategy a file, and one entry in `registry`.

Each strategy answers two questions: why it cannot do a transition, if so, and what runs from now on. All leave the
output as it would have been: the same rows with the same `valid_from` and `valid_to`, in the same push.
"""

from midstream.migrate.begin import find_strategy
from midstream.migrate.options import BUDGET, HOLD, Options
from midstream.migrate.record import Migration
from midstream.migrate.registry import DEFAULT_STRATEGY, STRATEGIES, default_strategy
from midstream.migrate.strategy import CostModel, Strategy, Transition

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
