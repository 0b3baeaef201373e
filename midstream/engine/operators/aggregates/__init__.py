"""What is computed of each group of join results while they come and go: an accumulator for every aggregate.

    results --encode--> words of records --apply, in the order of time--> values of the aggregate

Every result comes once and goes once, so what a change does to the state of its group, another one undoes exactly: sums
are kept without rounding, and of values that are compared, all are counted. A value is rounded once, when it is given
out. So it depends only on the results that are there, not on the order in which they came.
"""

from midstream.engine.operators.aggregates.accumulator import Accumulator
from midstream.engine.operators.aggregates.making import make_accumulator

__all__ = ["Accumulator", "make_accumulator"]
