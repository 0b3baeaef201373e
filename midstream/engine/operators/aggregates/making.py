"""An aggregate's description -> its accumulator."""

from __future__ import annotations

import pyarrow.types as pat

from midstream.cql.model import Aggregate
from midstream.engine.operators.aggregates.accumulator import Accumulator
from midstream.engine.operators.aggregates.counts import Count
from midstream.engine.operators.aggregates.extremes import Extreme
from midstream.engine.operators.aggregates.float_sums import FloatSum
from midstream.engine.operators.aggregates.integer_sums import DecimalSum, IntegerAverage, IntegerSum
from midstream.engine.operators.aggregates.pairs import CountDistinct


def make_accumulator(aggregate: Aggregate) -> Accumulator:
    """An accumulator without groups."""
    function, argument = aggregate.function, aggregate.argument
    if function == "count":
        return Count(argument is not None)
    assert argument is not None
    if function in ("sum", "avg"):
        is_average = function == "avg"
        if pat.is_decimal(argument.type):
            return DecimalSum(argument.type, aggregate.type, is_average)
        if pat.is_floating(argument.type):
            return FloatSum(is_average)
        return IntegerAverage() if is_average else IntegerSum()
    if function == "count_distinct":
        return CountDistinct(argument.type)
    if function in ("min", "max"):
        return Extreme(argument.type, function == "max")
    raise AssertionError(f"there is no aggregate {function}")
