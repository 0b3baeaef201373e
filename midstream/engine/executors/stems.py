"""SteMs, after CACQ: an executor without join states. A row that arrives probes the windows of all other inputs.

    row of B  ->  A's window  ->  C's window  ->  D's window  ->  results

The plan says in which order the windows are visited at first: its inputs from left to right. A router may decide on
another order before each chunk. Nothing is stored, so nothing has to be filled, moved or purged when the order changes;
in return, intermediate results are computed again and again.

Each result is found by exactly one of its rows. Of the rows that arrive together, one of a higher input number finds
those of lower ones and not the other way round, as if inputs entered one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from midstream.cql.model import Query
from midstream.engine.executors.known_rows import KnownRows
from midstream.engine.executors.protocol import Evicting, ExecutorKind, FillCounts, HandedOver, IndexUsed
from midstream.engine.joins.combos import Delta, emit, make_block
from midstream.engine.joins.comparison import StateShape
from midstream.engine.joins.nodes import add_indexes
from midstream.engine.joins.routes import Route
from midstream.engine.routing.choice import RoutingChoice
from midstream.engine.routing.edges import choose_edges, find_edges
from midstream.engine.routing.policies.rank import Rank
from midstream.engine.routing.policy import Field
from midstream.engine.routing.report import RoutingReport
from midstream.engine.routing.router import Order, Router
from midstream.engine.routing.ways import Ways
from midstream.engine.stats import StateStats
from midstream.kernels.types import Combos
from midstream.plan.nodes import Join, Leaf, Node, quoted
from midstream.plan.tree import Plan
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, Renumbering


class Stems(ExecutorKind):
    """The kind of executor that keeps no join states. Without a choice of routing the order is the plan's."""

    name = "stems"
    can_evict = True
    default_routing = Rank.name

    def __init__(self, choice: RoutingChoice | None = None):
        self.choice = RoutingChoice() if choice is None else choice

    def routed(self, choice: RoutingChoice) -> Stems:
        return Stems(choice)

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> StemsExecutor:
        return StemsExecutor(self, query, plan, windows, since)

    def state_shapes(self, query: Query, plan: Plan) -> tuple[StateShape, ...]:
        return ()


class StemsExecutor:
    """Takes rows through base windows that it shares with whoever else needs them."""

    def __init__(
        self,
        kind: Stems,
        query: Query,
        plan: Plan,
        windows: Sequence[BaseWindow],
        since: Mapping[int, int] | None = None,
    ):
        self.kind = kind
        self._given = plan
        self._query = query
        self._windows = windows
        self._known = KnownRows(since)
        self._leaves = [node.input for node in plan.nodes() if isinstance(node, Leaf)]
        self._largest = self._leaves[0]
        tree = choose_edges(query, plan)
        edges = tuple(dict.fromkeys((*tree, *find_edges(query, plan.root.inputs))))
        by_plan = {(start, end): self._leaves.index(end) for edge in edges for start, end in edge.directions}
        self.router = Router(kind.choice.policy, Field(edges, tree, by_plan, keeps=False), kind.choice.rates)
        self._by_plan = self.router.orders
        self._routes: dict[tuple[int, ...], Route] = {}
        #: The route of each input and class of rows.
        self._ways: dict[int, list[Route]] = {}
        self._splits: dict[int, Ways[Route]] = {}
        self._lay_routes()

    def _lay_routes(self) -> None:
        """Make the routes of the router's orders, unless they are there."""
        before, self._routes, self._ways = self._routes, {}, {}
        for start in self._leaves:
            self._ways[start] = []
            for order in self.router.orders:
                visits = (start, *self._visits(start, order))
                if visits not in self._routes:
                    known = before.get(visits)
                    self._routes[visits] = known or Route(self._query, (start,), visits[1:], self._windows)
                self._ways[start].append(self._routes[visits])
            self._splits[start] = Ways(self._ways[start], self.router.classes)

    def _visits(self, start: int, order: Order) -> tuple[int, ...]:
        """The other inputs in the order in which rows of one are to visit them."""
        places = {direction: place for place, direction in enumerate(order)}
        visited = [start]
        while len(visited) < len(self._leaves):
            left = [number for number in self._leaves if number not in visited]
            visited.append(
                min(left, key=lambda number: min(places.get((known, number), len(places)) for known in visited))
            )
        return tuple(visited[1:])

    @property
    def plan(self) -> Plan:
        """The plan, or the order that the routing gives the rows of the largest input and class of the last chunk."""
        if self.router.orders == self._by_plan:
            return self._given
        first, *others = self._ways[self._largest][self.router.largest_class].inputs
        tree: Node = Leaf(first)
        for number in others:
            tree = Join(tree, Leaf(number))
        return replace(self._given, root=tree)

    def start(self, cause: Cause, handed_over: Sequence[HandedOver] = ()) -> None:
        """Index what the routes probe. There are no states, so none are taken over and none are missing."""
        add_indexes(self._windows, self.indexes_used())

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """Take rows that have just entered the windows through all other windows; yields results."""
        first_new = {number: int(delta.combos.rows[0, 0]) for number, delta in deltas.items() if len(delta)}
        if first_new:
            self._largest = max(first_new, key=lambda number: len(deltas[number]))
        if self.router.decide():
            self._lay_routes()
            add_indexes(self._windows, self.indexes_used())
        for number in sorted(first_new):
            # Rows of inputs with higher numbers have not entered yet, as far as this route is concerned.
            before = {other: first for other, first in first_new.items() if other > number}
            for route, delta in self._splits[number].split(deltas[number]):
                yield from self._results(route, delta, before)

    def _results(self, route: Route, delta: Delta, before: Mapping[int, int]) -> Iterator[Combos]:
        if len(route.inputs) == 1:
            yield delta.combos
            return
        block = make_block(len(route.inputs), route.least_block, len(delta))
        yield from emit(route.matches(delta, block, before, self._known.since), block, route.order)

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

    def routing_report(self) -> RoutingReport:
        """In which order rows of each input visit the others."""
        return self.router.report(
            self._given, (), lambda start, number: " ".join(self._names(self._ways[start][number].inputs))
        )

    def _names(self, inputs: Sequence[int]) -> list[str]:
        return [quoted(self._given.aliases[number]) for number in inputs]

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
