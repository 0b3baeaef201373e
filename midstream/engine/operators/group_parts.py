"""What a place gives out of its groups, and what makes groups of that again.

Mostly that is the *state* of each aggregate: how many values there are, their sum, the least or the greatest of them. A
place has one row of a group for each state that the group was in there, however many results made it up::

    group  count  total         group  count  total          group  sum
    x      3      17       +    x      2      5        ->    x      22

Totals are exact, in more bits than the result has, and what is made of them is rounded once. So it makes no difference
how results were spread over places.

Other aggregates need the values themselves: how many are different, or a sum of doubles. Then a place gives out keys
and arguments of all its results, equal ones as runs. It does so, too, under RANGE: there every result begins and ends
at moments of its own and changes the state twice, so that there may be more states than results. Under TUMBLE all
results of a bucket come and go together.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pat

from midstream.cql.functions import call
from midstream.cql.model import OF_AGGREGATES, OF_KEYS, Aggregate, Column, Expr, Grouping, Literal, Output, Query
from midstream.engine.operators.aggregates.integer_sums import TOTAL_TYPE
from midstream.engine.operators.aggregates.making import COUNT_OF_STATES, OF_STATES, TOTAL


def parts_of_groups(query: Query) -> Query:
    """The query that a place runs for one with a grouping."""
    assert query.grouping is not None
    keys, aggregates = query.grouping.keys, query.grouping.aggregates
    given: list[Expr]
    grouping = None
    if gives_states(query):
        grouping = Grouping(keys, tuple(_state_of(aggregate) for aggregate in aggregates))
        given = [Column(OF_KEYS, str(place), key.type) for place, key in enumerate(keys)]
        given += [Column(OF_AGGREGATES, str(place), state.type) for place, state in enumerate(grouping.aggregates)]
    else:
        given = [*keys, *(_needed(aggregate) for aggregate in aggregates if aggregate.argument is not None)]
    outputs = tuple(Output(f"part_{place}", expr) for place, expr in enumerate(given))
    return replace(query, outputs=outputs, grouping=grouping, is_distinct=False, is_uncut=True)


def groups_of_parts(query: Query) -> Query:
    """The query whose operator makes the groups of what `parts_of_groups` has found."""
    assert query.grouping is not None
    if not gives_states(query):
        return query
    merged = tuple(_merged(aggregate) for aggregate in query.grouping.aggregates)
    return replace(query, grouping=replace(query.grouping, aggregates=merged))


def gives_states(query: Query) -> bool:
    """Whether places give out the states of a query's groups, and not the arguments of all results."""
    assert query.grouping is not None
    slide = any(relation.window.slides for relation in query.inputs)
    return not slide and all(map(_has_state, query.grouping.aggregates))


def _has_state(aggregate: Aggregate) -> bool:
    if aggregate.function in ("sum", "avg"):
        assert aggregate.argument is not None
        return not pat.is_floating(aggregate.argument.type)
    return aggregate.function in ("count", "min", "max")


def _state_of(aggregate: Aggregate) -> Aggregate:
    return replace(aggregate, function=TOTAL, type=TOTAL_TYPE) if aggregate.function in OF_STATES else aggregate


def _merged(aggregate: Aggregate) -> Aggregate:
    """The same aggregate, of states."""
    if aggregate.function == "count":
        return replace(aggregate, function=COUNT_OF_STATES, argument=Literal(None, pa.int64()))
    return replace(aggregate, function=OF_STATES.get(aggregate.function, aggregate.function))


def _needed(aggregate: Aggregate) -> Expr:
    """What an aggregate has to know of its argument: a count has to know only whether it is null."""
    assert aggregate.argument is not None
    if aggregate.function != "count":
        return aggregate.argument
    return call("nullif", [call("isnotnull", [aggregate.argument]), Literal(False, pa.bool_())])
