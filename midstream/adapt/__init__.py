"""Statistics -> what a change of plan would cost: measured loads, published cost models, one estimate a strategy.

::

    data -> measure -> Load, Costs -> zhu, estimate -> what each strategy of `midstream.migrate` would take
                                      completeness     how many states a random change keeps, from the plan's size alone
"""

from midstream.adapt.estimate import Estimate, MigrationEstimate, StateChange, estimate
from midstream.adapt.load import InputLoad, Load
from midstream.adapt.measure import Measured, measure
from midstream.adapt.strategy_costs import Costs

__all__ = [
    "Costs",
    "Estimate",
    "InputLoad",
    "Load",
    "Measured",
    "MigrationEstimate",
    "StateChange",
    "estimate",
    "measure",
]
