"""Changing the plan of a running query. A strategy is one file in `strategies` and one entry in `registry`.

Each strategy answers two questions: why it cannot do a transition, if so, and what runs from now on. All leave the
output as it would have been: the same rows with the same `valid_from` and `valid_to`, in the same push.

| module | what it has |
| --- | --- |
| `strategy` | what a strategy is, and what it is asked |
| `strategies/` | all of them, one a file |
| `registry` | all of them by name, and the default |
| `options` | what callers may tell a strategy |
| `begin` | from what a caller asks for to what runs from now on, or a refusal |
| `under_way` | the migrations of an engine that have not ended |
| `record` | what a migration tells about itself |
| `tracks` | the old and the new plan side by side, for strategies that run both |
| `lanes` | the same with their output stages, where operators below joins move |
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
