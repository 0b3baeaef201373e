"""SteMs, after CACQ: an executor without join states. A row that arrives probes the windows of all other inputs.

    row of B  ->  A's window  ->  C's window  ->  D's window  ->  results

The plan says in which order the windows are visited: its inputs from left to right. Nothing is stored, so nothing has
to be filled, moved or purged when the plan changes; in return, intermediate results are computed again and again.

Each result is found by exactly one of its rows. Of the rows that arrive together, one of a higher input number finds
those of lower ones and not the other way round, as if inputs entered one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from midstream.cql.model import Query
from midstream.engine.executors.known_rows import KnownRows
from midstream.engine.executors.protocol import Evicting, FillCounts, HandedOver, IndexUsed
from midstream.engine.joins.combos import Delta, emit, make_block
from midstream.engine.joins.comparison import StateShape
from midstream.engine.joins.nodes import add_indexes
from midstream.engine.joins.routes import Route
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.nodes import Leaf
from midstream.plan.tree import Plan
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, Renumbering


class Stems:
    """The kind of executor that keeps no join states."""

    name = "stems"
    can_evict = True

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> StemsExecutor:
        return StemsExecutor(query, plan, windows, since)

    def state_shapes(self, query: Query, plan: Plan) -> tuple[StateShape, ...]:
        return ()


class StemsExecutor:
    """Runs one plan over base windows that it shares with whoever else needs them."""

    kind = Stems()

    def __init__(self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None):
        self.plan = plan
        self._windows = windows
        self._known = KnownRows(since)
        inputs = [node.input for node in plan.nodes() if isinstance(node, Leaf)]
        self._routes = {
            start: Route(query, (start,), [number for number in inputs if number != start], windows) for start in inputs
        }
        # Of columns, to have results in the order of FROM.
        self._orders = {start: np.argsort(route.inputs) for start, route in self._routes.items()}

    def start(self, cause: Cause, handed_over: Sequence[HandedOver] = ()) -> None:
        """Index what the routes probe. There are no states, so none are taken over and none are missing."""
        add_indexes(self._windows, self.indexes_used())

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """Take rows that have just entered the windows through all other windows; yields results."""
        first_new = {number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items() if len(delta)}
        for number in sorted(first_new):
            # Rows of inputs with higher numbers have not entered yet, as far as this route is concerned.
            before = {other: first for other, first in first_new.items() if other > number}
            yield from self._results(self._routes[number], deltas[number], before)

    def _results(self, route: Route, delta: Delta, before: Mapping[int, int]) -> Iterator[Combos]:
        if len(route.inputs) == 1:
            yield delta.combos
            return
        block = make_block(len(route.inputs), route.least_block, len(delta))
        yield from emit(route.matches(delta, block, before, self._known.since), block, self._orders[route.inputs[0]])

    def purge(self, horizon: int) -> None:
        """Nothing is kept but what the windows hold."""
        self._known.purge(self._windows)

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        self._known.renumber(number, renumbering)

    def after_push(self, horizon: int) -> StemsExecutor:
        """Nothing to do: a plan runs until it is changed."""
        return self

    @property
    def plans_at_once(self) -> int:
        """One."""
        return 1

    def migrations(self) -> Iterator[object]:
        """None: a plan that runs alone is no migration."""
        return iter(())

    @property
    def knows_all_rows(self) -> bool:
        """Whether no row of the windows is left out."""
        return self._known.are_all

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that the routes of this plan probe."""
        for route in self._routes.values():
            yield from route.indexes_used()

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        """None: any plan will do."""
        return None

    def hand_over(self) -> Sequence[HandedOver]:
        """Nothing."""
        return ()

    def evicting(self) -> Iterator[Evicting]:
        """Nothing."""
        return iter(())

    @property
    def nbytes(self) -> int:
        """0: all rows are in the windows."""
        return 0

    def state_stats(self) -> list[StateStats]:
        """None: there are no join states."""
        return []

    # Nothing is ever missing -----------------------------------------------------------------------------------------

    def lacks_entries(self, cause: Cause) -> bool:
        return False

    def holes(self, cause: Cause) -> int:
        return 0

    def missing_bytes(self) -> int:
        return 0

    @property
    def filled(self) -> FillCounts:
        return FillCounts()

    def fill_some(self, limit: int, horizon: int, cause: Cause) -> int:
        return 0

    def give_up(self, cause: Cause) -> None: ...

    def complete(self, cause: Cause, horizon: int) -> None: ...
