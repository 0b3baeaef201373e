"""Parts of a result that were found in several places -> the whole, in canonical form.

Each place runs the *query of the parts*. It has the joins and the step of the query, and its outputs are what the query
computes of every join result, or the states of its groups (`group_parts`). When steps close, a place gives out its own
rows of these steps, equal ones as runs that are not cut from step to step. One or two *rounds* make the whole of them::

    joins -> states of groups  |                   |
    joins -> states of groups  |  -> rows of the   |  -> runs of
    joins -> states of groups  |     groups        |     equal rows
                            by group            by row

A query without a grouping has the second round alone, and one whose rows tell their group the first alone. With set
operations, `branch_parts` says what is different. A round can run in several places, too, if what belongs together
comes together. How many places there are and how rows are spread over them makes no difference: all that counts is how
often a row is there at each moment.
"""

from __future__ import annotations

from dataclasses import replace

from midstream.cql.model import Query
from midstream.engine.operators.branch_parts import rounds_of_branches, unite_parts
from midstream.engine.operators.group_parts import groups_of_parts, parts_of_groups
from midstream.engine.operators.grouped import do_rows_tell_group
from midstream.engine.operators.rounds import OperatorRound, Round


def parts_query(query: Query) -> Query:
    """The query that a place runs, for one with a step: its rows are what the first round takes."""
    if query.parts:
        return unite_parts(query, [parts_query(part) for part in query.parts])
    return replace(query, is_uncut=True) if query.grouping is None else parts_of_groups(query)


def rounds_of(query: Query) -> tuple[Round, ...]:
    """What makes the result of a query with a step of the rows of its `parts_query`."""
    if query.parts:
        return rounds_of_branches(query, [parts_query(part) for part in query.parts])
    by_row = OperatorRound(replace(query, grouping=None), len(query.outputs))
    if query.grouping is None:
        return (by_row,)
    keys, grouped = len(query.grouping.keys), groups_of_parts(query)
    if do_rows_tell_group(query) or not keys:
        return (OperatorRound(grouped, keys),)
    return OperatorRound(replace(grouped, is_uncut=True), keys), by_row
