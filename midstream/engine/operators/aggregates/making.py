"""An aggregate's description -> its accumulator."""

from __future__ import annotations

import pyarrow.types as pat

from midstream.cql.model import Aggregate
from midstream.engine.operators.aggregates.accumulator import Accumulator
from midstream.engine.operators.aggregates.counts import Count, CountOfCounts
from midstream.engine.operators.aggregates.extremes import Extreme
from midstream.engine.operators.aggregates.float_sums import FloatSum
from midstream.engine.operators.aggregates.integer_sums import DecimalSum, IntegerAverage, IntegerSum, Total
from midstream.engine.operators.aggregates.pairs import CountDistinct

#: The exact total of integers or decimals: the state of a sum or an average.
TOTAL = "total"
#: What sums and averages are called that are made of totals, and counts that are made of counts.
OF_STATES = {"sum": "sum_of_totals", "avg": "avg_of_totals"}
COUNT_OF_STATES = "count_of_counts"


def make_accumulator(aggregate: Aggregate) -> Accumulator:
    """An accumulator without groups."""
    function, argument = aggregate.function, aggregate.argument
    if function == "count":
        return Count(argument is not None)
    assert argument is not None
    if function == COUNT_OF_STATES:
        return CountOfCounts()
    if function == TOTAL:
        return Total()
    if function in ("sum", "avg", *OF_STATES.values()):
        of_totals, is_average = function in OF_STATES.values(), function in ("avg", OF_STATES["avg"])
        if pat.is_decimal(argument.type):
            return DecimalSum(argument.type, aggregate.type, is_average, of_totals)
        if pat.is_floating(argument.type):
            return FloatSum(is_average)
        return IntegerAverage(of_totals) if is_average else IntegerSum(of_totals)
    if function == "count_distinct":
        return CountDistinct(argument.type)
    if function in ("min", "max"):
        return Extreme(argument.type, function == "max")
    raise AssertionError(f"there is no aggregate {function}")
