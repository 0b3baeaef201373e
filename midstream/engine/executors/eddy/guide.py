"""What an eddy goes by: the router's decision for each chunk, and what becomes of entries that it wants elsewhere.

Where entries move at all, they do so as the choice of routing says: at once when the router has decided, when a probe
is about to touch them, or in stages. While an input that has come back from a pause before has no rows for some chunks
again, the others' rows go to it last, and what is stored for it is joined ahead, some rows in every chunk: then it is
there when the input comes again.

Where memory is limited, nothing is joined ahead near the limit. STAIRs may be off, and hold rows alone, whatever the
routing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from midstream.cql.model import Query
from midstream.engine.executors.eddy.moving import Mover
from midstream.engine.executors.eddy.routing import Routing
from midstream.engine.executors.eddy.stages import Stages
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import Crossing, StairStore
from midstream.engine.joins.combos import Delta
from midstream.engine.routing.choice import Moves, RoutingChoice
from midstream.engine.routing.counts import Direction
from midstream.engine.routing.edges import Edge, find_edges, order_edges
from midstream.engine.routing.policy import Field
from midstream.engine.routing.report import RoutingReport
from midstream.engine.routing.router import Router
from midstream.engine.routing.trees import TreeSearch
from midstream.engine.routing.ways import Ways
from midstream.plan.nodes import notation_of
from midstream.plan.tree import Plan

_MOVED_AT_ONCE = 1 << 16
#: Rows moved between two looks at the memory that is left.
_MOVED_BETWEEN_LOOKS = 512
#: How often all rows of all STAIRs may move at once where classes of rows disagree.
MOST_ROUNDS = 2


class Guide:
    """Leads rows over the edges of a store, beginning in the order of a plan. Without moves, what is stored stays."""

    def __init__(self, query: Query, plan: Plan, store: StairStore, choice: RoutingChoice, moves_entries: bool):
        edges = order_edges(store.edges, plan)
        assert edges is not None, "the plan follows the edges"
        self._query, self._given, self._store, self._choice = query, plan, store, choice
        self.edges = edges
        by_plan = {direction: place for place, edge in enumerate(edges) for direction in edge.directions}
        self.router = Router(choice.policy, Field(edges, edges, by_plan), choice.rates)
        self._by_plan = self.router.orders
        #: Whether there is memory to move what no probe is about to read; None if memory is not limited.
        self.may_fill: Callable[[], bool] | None = None
        #: One for each class of rows.
        self.routings = tuple(Routing(edges, order, off=self._find_off()) for order in self.router.orders)
        #: Those of the last decision, by what they were made of: most classes go on as before.
        self._made: dict[tuple[object, ...], Routing] = {}
        #: The way over the next edge, for each class of rows, by the inputs that are joined.
        self._ways: dict[frozenset[int], Ways[Crossing]] = {}
        self.mover: Mover | None = None
        self._stages: Stages | None = None
        self._trees: TreeSearch | None = None
        if moves_entries:
            self.mover = Mover(store, self.routings)
            if choice.moves is Moves.IN_STAGES:
                self._stages = Stages(self.mover)
            if choice.policy.looks_at_rates:
                self._trees = TreeSearch(tuple(dict.fromkeys((*edges, *find_edges(query, store.inputs)))))
                if self._trees.has_choice:
                    choice.rates.watch(self._trees.edges)
        #: The rates by which trees were compared, and their version.
        self._known: Mapping[Direction, float] | None = None
        self._compared: tuple[int, int] | None = None
        self._largest = edges[0].left if edges else 0

    @property
    def plan(self) -> Plan:
        """The plan, or the tree that the routing gives the rows of the largest input of the last chunk."""
        if self.router.orders == self._by_plan:
            return self._given
        return replace(self._given, root=self.routings[self.router.largest_class].tree_from(self._largest))

    def decide(self, arrived: Mapping[int, Delta]) -> None:
        """Ask the router which way the rows of a chunk take, and have entries moved after it."""
        self._largest = max(arrived, key=lambda number: len(arrived[number]))
        if self.router.decide():
            self._lay_ways()
            if self.mover is not None:
                self._follow(self.mover)
        if self._stages is not None:
            self._stages.next_chunk()
        if self.mover is not None and self._choice.rates.awaited and (self.may_fill is None or self.may_fill()):
            self._join_ahead(self.mover, sum(map(len, arrived.values())))

    def _lay_ways(self) -> None:
        """Make the routing of each class of rows."""
        orders, classes = self.router.orders, self.router.classes
        keyed = frozenset[int]()
        if classes is not None:
            keyed = frozenset(self._query.key_classes[classes.key_class].inputs)
        off = frozenset(self._find_off())
        before, self._made = self._made, {}
        for order in orders:
            made_of = (order, keyed, orders[0], off)
            if made_of not in self._made:
                self._made[made_of] = before.get(made_of) or Routing(self.edges, order, keyed, orders[0], off)
        self.routings = tuple(self._made[order, keyed, orders[0], off] for order in orders)
        self._ways = {}

    def _find_off(self) -> list[tuple[int, Edge]]:
        return [key for key, stair in self._store.stairs.items() if stair.off is not None]

    def split(self, joined: frozenset[int], delta: Delta) -> Sequence[tuple[Crossing, Delta]]:
        """Over which edges combinations of these inputs go, and those that go over each."""
        ways = self._ways.get(joined)
        if ways is None:
            edges = (routing.next_edge(joined) for routing in self.routings)
            crossings = [self._store.crossing(joined, edge) for edge in edges]
            ways = self._ways[joined] = Ways(crossings, self.router.classes)
        return ways.split(delta)

    def _follow(self, mover: Mover) -> None:
        """Find out what has to move under the routings of now, and move it if that is done at once."""
        self._find_wanted(mover)
        if self._stages is None and self._choice.moves is Moves.AT_ONCE:
            self.move_all()

    def _find_wanted(self, mover: Mover) -> None:
        mover.follow(self.routings, self.router.classes)
        if self._stages is not None:
            self._stages.follow(mover.wanted(), self._expect_made)

    def _expect_made(self, stair: Stair) -> float:
        """The combinations that a row of a STAIR should make on its way to what the STAIR wants, by the rates known."""
        total = 0.0
        for routing in self.routings:
            climb = routing.climb(*stair.key)
            made = 1.0
            for inputs, via in zip(climb.sets, climb.edges, strict=False):
                end = via.inner_end(inputs)
                made *= self._choice.rates.rate((end, via.other(end))) or 0.0
                total += made
        return total / len(self.routings)

    def switch(self, stair: Stair, off: frozenset[int] | None) -> None:
        """Have only rows alone in a STAIR that was to hold combinations of these inputs; None switches it on again."""
        assert self.mover is not None, "only where entries move can STAIRs be off"
        stair.off = off
        self._lay_ways()
        self._find_wanted(self.mover)

    def note_demoted(self, stair: Stair, count: int) -> None:
        """So many combinations of a STAIR were demoted for want of memory."""
        self._store.demoted += count
        if self._stages is not None:
            self._stages.begin_anew(stair)

    def _join_ahead(self, mover: Mover, limit: int) -> None:
        """Move what waits for an input that has no rows, up to so many rows."""
        awaited = self._choice.rates.awaited
        for edge in self.edges:
            for end in (edge.left, edge.right):
                if edge.other(end) in awaited and limit > 0:
                    limit -= mover.move_some_of(self._store.stair(end, edge), limit)

    def find_better_tree(self, arrived: Mapping[int, Delta]) -> tuple[tuple[Edge, ...], Plan] | None:
        """Other edges and a plan along them, if they have paid for going over to them."""
        rates, search = self._choice.rates, self._trees
        if search is None or not search.has_choice:
            return None
        rates.watch(search.edges)
        if self._compared != rates.version:
            self._compared = rates.version
            self._known = Field(search.edges, self.edges, {}).rates(rates)
            if self._known is not None:
                search.compare(self.edges, self._known)
        known = self._known
        if known is None:
            return None
        live_rows = sum(len(self._store.windows[number]) for number in self._store.inputs)
        found = search.find_better({number: len(delta) for number, delta in arrived.items()}, live_rows)
        if found is None:
            return None
        order = tuple(sorted((way for edge in found for way in edge.directions), key=lambda way: (known[way], way)))
        return found, replace(self._given, root=Routing(found, order).tree_from(self._largest))

    def settle(self, stair: Stair, delta: Delta) -> bool:
        """A STAIR is about to be probed: move what has to be moved before. True if no row alone can be found then."""
        if self._stages is not None:
            self._stages.settle(stair)
            return False
        return self.mover is not None and self.mover.settle(stair, delta)

    def count_found(self, stair: Stair, entries: frozenset[int], found: int) -> None:
        """A probe has found so many combinations, to be sent on, by entries of a STAIR over these inputs."""
        if self._stages is not None and self._stages.is_misplaced(stair, entries):
            self._stages.lose(stair, found)

    def move_all(self) -> None:
        """Move everything that is misplaced, or as much of it as there is memory for."""
        mover = self.mover
        assert mover is not None, "nothing is misplaced where nothing moves"
        # Where rows of different classes take different ways, what one of them builds on may be misplaced for another,
        # so that moving could go on for ever. Else no row of a STAIR moves more than a few times.
        most = mover.rows_moved + MOST_ROUNDS * sum(len(stair.window) for stair in self._store.stairs.values())
        limit = _MOVED_AT_ONCE if self.may_fill is None else _MOVED_BETWEEN_LOOKS
        while not mover.is_done and (self.router.classes is None or mover.rows_moved < most):
            if self.may_fill is not None and not self.may_fill():
                return
            mover.move_some(limit)

    def report(self) -> RoutingReport:
        """What users see."""
        aliases = self._given.aliases

        def way_of(start: int, number: int) -> str:
            return notation_of(self.routings[number].tree_from(start), aliases)

        return self.router.report(self._given, self.edges, way_of)

    def edges_text(self) -> str:
        """The edges as pairs of aliases."""
        aliases = self._given.aliases
        return ", ".join(f"{aliases[edge.left]}-{aliases[edge.right]}" for edge in self.edges)

    def go_on_after(self, other: Guide) -> None:
        """Count on from another guide, whose edges were given up for these."""
        self.router.changes = other.router.changes + 1
        self._trees = other._trees
        self.may_fill = other.may_fill
        if self.mover is not None and other.mover is not None:
            self.mover.count_on_from(other.mover)
