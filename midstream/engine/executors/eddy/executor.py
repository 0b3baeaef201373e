"""Two executors that route: EddyJoins, and STAIRs, which move what earlier routing has left behind.

One chunk: its rows are in the base windows already. Input by input, in the order of FROM, they are sent over the edges:
stored at one end, probed at the other, whole sets at a time, until nothing is in flight. Rows of later inputs stand in
no STAIR yet, so that every result is found by exactly one of its rows. Over an edge, the rows of one input all go the
same way, away from it: no STAIR is stored into and probed for the same input.

Both kinds keep the same STAIRs. On an *eddy*, entries stay where the routing of their time has put them, and lead later
rows the same way; a new routing holds for new rows. On *stairs*, entries are moved after the routing. Before each chunk
a router may decide on another routing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from midstream.cql.model import Query
from midstream.engine.executors.eddy.demoting import Holdings, StairHolding
from midstream.engine.executors.eddy.guide import MOST_ROUNDS, Guide
from midstream.engine.executors.eddy.inserting import insert
from midstream.engine.executors.eddy.moving import Mover
from midstream.engine.executors.eddy.sizes import stair_stats
from midstream.engine.executors.eddy.store import Crossing, Hop, StairStore
from midstream.engine.executors.known_rows import KnownRows
from midstream.engine.executors.protocol import Evicting, ExecutorKind, FillCounts, HandedOver, IndexUsed
from midstream.engine.joins.combos import Block, Delta, emit, make_block
from midstream.engine.joins.comparison import StateShape, state_shapes
from midstream.engine.joins.nodes import add_indexes, least_block
from midstream.engine.routing.choice import RoutingChoice
from midstream.engine.routing.edges import Edge, order_edges, recall_edges
from midstream.engine.routing.policies.cost import Cost
from midstream.engine.routing.report import RoutingReport
from midstream.engine.stats import StateStats
from midstream.kernels.types import LARGEST, SMALLEST, Combos
from midstream.plan.nodes import Leaf
from midstream.plan.tree import Plan
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow, Renumbering


class Eddy(ExecutorKind):
    """EddyJoins: what has been stored stays, the burden of history. Without a choice the routing is the plan's."""

    name = "eddy"
    can_evict = False
    default_routing = Cost.name

    def __init__(self, choice: RoutingChoice | None = None):
        self.choice = RoutingChoice() if choice is None else choice

    def routed(self, choice: RoutingChoice) -> Eddy:
        return type(self)(choice)

    def make(
        self, query: Query, plan: Plan, windows: Sequence[BaseWindow], since: Mapping[int, int] | None = None
    ) -> EddyExecutor:
        return EddyExecutor(self, query, plan, windows, since)

    def state_shapes(self, query: Query, plan: Plan) -> tuple[StateShape, ...]:
        return tuple(replace(shape, holder="stair") for shape in state_shapes(query, plan))


class Stairs(Eddy):
    """STAIRs: what has been stored is moved to where the routing wants it."""

    name = "stairs"
    can_evict = True
    moves_entries = True


class _SpareBlocks:
    """Blocks that nobody reads any more, for the next that are needed in the same chunk: new memory takes its time."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Block]] = {}

    def take(self, width: int, size: int) -> Block:
        """An empty block."""
        blocks = self._blocks.get(width)
        if not blocks or len(blocks[-1].combos.starts) < size:
            return Block(width, size)
        return blocks.pop()

    def give_back(self, block: Block) -> None:
        block.count = 0
        self._blocks.setdefault(block.combos.rows.shape[1], []).append(block)


@dataclass(frozen=True)
class HeldStairs:
    """The STAIRs that an executor hands over."""

    inputs: frozenset[int]
    store: StairStore


class EddyExecutor:
    """Runs one plan by sending rows over the edges of a spanning tree, over base windows that it shares."""

    def __init__(
        self,
        kind: Eddy,
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
        self._inputs = plan.root.inputs
        self._cause: Cause | None = None
        self._fewest_misplaced = int(LARGEST)
        self._demoted_before = self._moved_before = 0
        self._go_by(StairStore(query, recall_edges(query, plan, kind.choice.tree), windows))

    def _go_by(self, store: StairStore) -> None:
        self.store = store
        self.guide = Guide(self._query, self._given, store, self.kind.choice, self.kind.moves_entries)
        self._holdings = Holdings(store, self.guide)
        store.set_orders(self._given, self.guide.edges)
        self._order = np.argsort(store.order(self._inputs))  # of columns, to have results in the order of FROM
        self._least_block = max((least_block(stair.path) for stair in store.stairs.values()), default=0)

    def _go_over(self, edges: Sequence[Edge], plan: Plan) -> None:
        """Go on along other edges: every row stands in every STAIR of its input again."""
        before, demoted = self.guide, self.store.demoted
        self._given = plan
        self._go_by(StairStore(self._query, edges, self._windows))
        self.store.demoted = demoted
        self.guide.go_on_after(before)
        add_indexes(self._windows, self.indexes_used())
        self.store.restore()

    @property
    def mover(self) -> Mover | None:
        """What moves entries; None where they stay."""
        return self.guide.mover

    @property
    def plan(self) -> Plan:
        """The plan, or the tree that the routing gives the rows of the largest input of the last chunk."""
        return self.guide.plan

    def start(self, cause: Cause, handed_over: Sequence[HandedOver] = ()) -> None:
        """Go on with the STAIRs that another executor has had, if the plan can follow their edges.

        Else begin with every row in every STAIR of its input. One that knows only later rows begins with empty ones;
        static rows are sent first.
        """
        self._cause = cause
        self._fewest_misplaced = int(LARGEST)
        self._moved_before = 0 if self.mover is None else self.mover.rows_moved
        held = [handed.store for handed in handed_over if isinstance(handed, HeldStairs)]
        if held and order_edges(held[0].edges, self._given) is not None:
            self._go_by(held[0])
            self._demoted_before = self.store.demoted
            return
        add_indexes(self._windows, self.indexes_used())
        if self._known.since is None:
            self.store.restore()
            return
        for number in sorted(self._inputs - self._known.since.keys()):
            window = self._windows[number]
            rows = Delta.of_rows(number, np.arange(window.head, window.tail), self._windows)
            for _ in self.process({number: rows}, SMALLEST):
                pass  # Results of static tables alone: a stage that needs them has them found from the windows.

    def process(self, deltas: Mapping[int, Delta], horizon: int) -> Iterator[Combos]:
        """Send rows that have just entered the windows; yields results in the order of FROM."""
        if isinstance(self._given.root, Leaf):
            yield from (delta.combos for delta in deltas.values())
            return
        arrived = {number: delta for number, delta in sorted(deltas.items()) if len(delta)}
        if not arrived:
            return
        self.store.horizon = horizon
        self.guide.decide(arrived)
        block = make_block(len(self._inputs), self._least_block, sum(map(len, arrived.values())))
        yield from emit(self._send_all(arrived, block), block, self._order)
        self._consider_other_edges(arrived)

    def _consider_other_edges(self, arrived: Mapping[int, Delta]) -> None:
        """After a chunk, whose rows are in the STAIRs by now, perhaps go over to another spanning tree."""
        if self._known.are_all:
            better = self.guide.find_better_tree(arrived)
            if better is not None:
                self._go_over(*better)

    def _send_all(self, deltas: Mapping[int, Delta], block: Block) -> Iterator[None]:
        spare = _SpareBlocks()
        for delta in deltas.values():
            yield from self._send(delta, block, spare)

    def _send(self, delta: Delta, results: Block, spare: _SpareBlocks) -> Iterator[None]:
        """Send rows of one input on until nothing is in flight; yields whenever the results have to be taken."""
        in_flight: dict[frozenset[int], Block] = {}
        joined = frozenset(delta.inputs)
        sent: Block | None = None
        while True:
            for crossing, part in self.guide.split(joined, delta):
                for hop in self._send_over(crossing, part, in_flight, spare):
                    yield from hop.matches(part, results)
            if sent is not None:
                spare.give_back(sent)
            while in_flight:
                # What has fewer inputs may still become what has more: it goes first, so that each set goes once.
                joined = min(in_flight, key=len)
                sent = in_flight.pop(joined)
                if sent.count:
                    break
                spare.give_back(sent)
            else:
                return
            delta = Delta(self.store.order(joined), sent.content(), self._windows)

    def _send_over(
        self, crossing: Crossing, delta: Delta, in_flight: dict[frozenset[int], Block], spare: _SpareBlocks
    ) -> list[Hop]:
        """Store combinations at their end of an edge and probe the other; what comes of it is in flight.

        The hops that lead to results are left to the caller.
        """
        insert(self.store, crossing.own, delta)
        dual = crossing.dual
        dual.probes += len(delta)
        finds_none_alone = self.guide.settle(dual, delta)
        last: list[Hop] = []
        for hop in crossing.hops():
            if finds_none_alone and hop.entries == dual.alone:
                continue
            if hop.target == self._inputs:
                last.append(hop)
                continue
            block = in_flight.get(hop.target)
            if block is None:
                block = in_flight[hop.target] = spare.take(len(hop.target), max(hop.least_block, 2 * len(delta)))
            before = block.count
            hop.find_all(delta, block)
            self.guide.count_found(dual, hop.entries, block.count - before)
        return last

    def purge(self, horizon: int) -> None:
        """Forget what can never matter again, after the windows have forgotten their rows."""
        self._known.purge(self._windows)
        self.store.purge(horizon)
        if self.mover is not None:
            self.mover.forget_dead()

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        self._known.renumber(number, renumbering)
        self.store.renumber(number, renumbering)

    def after_push(self, horizon: int) -> EddyExecutor:
        """Nothing to do: a plan runs until it is changed."""
        return self

    @property
    def plans_at_once(self) -> int:
        """One."""
        return 1

    def migrations(self) -> Iterator[object]:
        """None: a plan that runs alone is no migration."""
        return iter(())

    def refusal(self, plan: Plan, strategy: str | None) -> str | None:
        """Why it cannot go on by another plan: an eddy moves nothing, and keeps the edges that it has."""
        if self.kind.moves_entries:
            return None
        if strategy is not None:
            return (
                f"on eddy only the routing of new rows changes, so that {strategy} has nothing to do; leave the "
                "strategy out, or go on with executor='stairs', which moves what is stored"
            )
        if order_edges(self.store.edges, plan) is None:
            return (
                f"the eddy sends rows over {self.guide.edges_text()}, and {plan} joins what none of these edges does; "
                "keep to plans that do, or go on with executor='stairs', which may have other edges"
            )
        return None

    @property
    def knows_all_rows(self) -> bool:
        """Whether no row of the windows is left out."""
        return self._known.are_all

    def indexes_used(self) -> Iterator[IndexUsed]:
        """The hash indexes of base windows that probes use."""
        return self.store.indexes_used()

    # Giving up what is stored ----------------------------------------------------------------------------------------

    def evicting(self) -> Iterator[Evicting]:
        """Itself where entries move; on an eddy what is stored stays."""
        if self.kind.moves_entries:
            yield self

    def holdings(self) -> Sequence[StairHolding]:
        """The combinations of each STAIR, by sets of inputs."""
        return self._holdings.find()

    def give_up_rest(self) -> int:
        """Have every row stand alone in every STAIR of its input: a set without gaps, which takes nothing."""
        if self.nbytes == 0:
            return 0
        count = sum(len(state) for stair in self.store.stairs.values() for state in stair.states.values())
        self.store.demoted += max(count, 1)  # rows that were in some STAIRs alone are in all now, if nothing else
        self.store.restore(self._known.since)
        return count

    def heed(self, may_fill: Callable[[], bool] | None) -> None:
        """From now on ask this before moving what no probe is about to read."""
        self.guide.may_fill = may_fill

    def work_without(self, number: int, neighbour: int) -> float:
        """What all probes have looked at: which way rows have taken is not kept."""
        return self._windows[0].meter.lookups / len(self._windows)

    def suspend(self, is_on: bool, is_adaptive: bool = False) -> bool:
        """Nothing: no combination waits in STAIRs."""
        return False

    def routing_report(self) -> RoutingReport:
        """Over which edges rows of each input go, and in which order."""
        return self.guide.report()

    def hand_over(self) -> Sequence[HandedOver]:
        """All STAIRs."""
        return (HeldStairs(self._inputs, self.store),)

    @property
    def nbytes(self) -> int:
        """The bytes of all STAIRs."""
        return self.store.nbytes

    def state_stats(self) -> list[StateStats]:
        """The size of every STAIR, for each set of inputs that it has entries of or wants."""
        return stair_stats(self.store, self.guide.routings, self.plan, self.kind.moves_entries)

    # What is misplaced -----------------------------------------------------------------------------------------------

    def lacks_entries(self, cause: Cause) -> bool:
        """Whether something is misplaced since it started for this cause.

        What has been demoted for want of memory is misplaced for good; nothing more is moved ahead then.
        """
        if self.mover is None or cause is not self._cause or self.store.demoted > self._demoted_before:
            return False
        return not self.mover.is_done and not self._moves_to_and_fro(self.mover)

    def _moves_to_and_fro(self, mover: Mover) -> bool:
        """Whether all rows could have moved more than once, and classes of rows still want them elsewhere.

        What one class wants somewhere may be misplaced for another, so that moving could go on for ever.
        """
        if self.guide.router.classes is None:
            return False
        most = MOST_ROUNDS * sum(len(stair.window) for stair in self.store.stairs.values())
        return mover.rows_moved - self._moved_before > most

    def holes(self, cause: Cause) -> int:
        """Entries that are misplaced since it started for this cause.

        What comes while others are misplaced may be misplaced with them; these are not counted on top, so that the
        number never grows.
        """
        if self.mover is None or not self.lacks_entries(cause):
            return 0
        self._fewest_misplaced = min(self._fewest_misplaced, self.mover.count_misplaced())
        return max(1, self._fewest_misplaced)

    def missing_bytes(self) -> int:
        """0: what is misplaced is a part of the STAIRs."""
        return 0

    @property
    def filled(self) -> FillCounts:
        """Rows that were moved, and what came of them."""
        return FillCounts() if self.mover is None else FillCounts(self.mover.rows_moved, self.mover.entries_made)

    def fill_some(self, limit: int, horizon: int, cause: Cause) -> int:
        """Move up to so many rows of one STAIR that has misplaced entries."""
        assert self.mover is not None, "nothing is misplaced on an eddy"
        self.store.horizon = horizon
        return self.mover.move_some(limit)

    def give_up(self, cause: Cause) -> None:
        """What is misplaced is moved by probes alone from now on."""
        if cause is self._cause:
            self._cause = None

    def complete(self, cause: Cause, horizon: int) -> None:
        """Move everything that is misplaced."""
        if self.lacks_entries(cause):
            self.store.horizon = horizon
            self.guide.move_all()
