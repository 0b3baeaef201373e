"""The cost model of Zhu, Rundensteiner and Heineman (2004) for Moving State and Parallel Track.

Equations are numbered as in the paper: nested-loops joins under one window W, λ for rates, σ for the share of pairs
that a join keeps, T_j and T_s for the cost of a comparison and of storing an entry. Here windows may differ, and a join
with an index looks at a share of the pairs only; with one window and nested loops the results are the paper's.

In four places the paper is not followed as printed:

* The size of an inner state. Equation 1 stores ``|S_A| |S_B| σ`` entries in S_AB, but Equation 8 takes the size of S_BC
  as ``λ_BC W``, which with Equation 2 is twice that. The first is right, because an entry leaves with its oldest row
  and so lives for W / 2 on average. `as_printed` gives the second, and with it Equation 8 to the letter.
* Equation 2 for a join above another join. It doubles the rate with each join; a state of k inputs makes k times its
  entries in W, not ``2 ** (k - 1)`` times. The form before it, ``λ_A |S_B| σ + λ_B |S_A| σ``, is right at any height.
* Equation 6 multiplies by W what it has already integrated over W, and names the rates of A where C is meant.
* Equation 7 integrates the rate of a join over empty states where it means the rate itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from midstream.adapt.load import Inputs, Load
from midstream.errors import EngineError
from midstream.plan.nodes import Join, Node, children_of
from midstream.plan.tree import Plan

Purge = Literal["ends", "combined"]


@dataclass(frozen=True)
class Costs:
    """Seconds of processing: to compare a pair (T_j), to store an entry (T_s), to compare the names of two states
    (T_m), to share a state (T_c). Not in the paper: `probe`, for every entry on either side of a join, and `start`,
    once for each transition.
    """

    compare: float
    store: float
    compare_names: float = 0.0
    share: float = 0.0
    probe: float = 0.0
    start: float = 0.0


@dataclass(frozen=True)
class MovingStateLength:
    """The pause of a Moving State migration in seconds of processing, by step (Equation 3), and what it computes."""

    matching: float
    moving: float
    computing: float
    comparisons: float
    entries: float

    @property
    def seconds(self) -> float:
        return self.matching + self.moving + self.computing


def state_rows(load: Load, node: Node, *, as_printed: bool = False) -> float:
    """|S|: what a node's state holds. A window has λ W rows; a join state the matching pairs of its children.

    >>> from midstream.adapt.load import InputLoad
    >>> from midstream.plan import Leaf
    >>> load = Load((InputLoad(10.0, 2.0),) * 2, {frozenset({0, 1}): 0.1})
    >>> state_rows(load, Join(Leaf(0), Leaf(1))), state_rows(load, Join(Leaf(0), Leaf(1)), as_printed=True)
    (40.0, 80.0)
    """
    if not isinstance(node, Join):
        return load.rows(node.inputs)
    if as_printed:
        return output_rate(load, node, as_printed=True) * _window(load, node.inputs)
    return load.rows(node.inputs)


def output_rate(load: Load, node: Node, *, as_printed: bool = False) -> float:
    """λ_AB, Equation 2: each new row of A meets what is kept of B, and the other way round."""
    if not isinstance(node, Join):
        return load.rate(node.inputs)
    left_rate, right_rate = (output_rate(load, side, as_printed=as_printed) for side in (node.left, node.right))
    left, right = (state_rows(load, side, as_printed=as_printed) for side in (node.left, node.right))
    return (left_rate * right + right_rate * left) * load.selectivity(node.left.inputs, node.right.inputs)


def comparisons(load: Load, join: Join, *, as_printed: bool = False) -> float:
    """Pairs that are looked at to compute a join's state: all of them with nested loops, as in Equation 1."""
    left, right = (state_rows(load, side, as_printed=as_printed) for side in (join.left, join.right))
    return left * right * load.looked_at.get(join.inputs, 1.0)


def computing_seconds(load: Load, join: Join, costs: Costs, *, as_printed: bool = False) -> float:
    """T_S, Equation 1: the time to compute a join's state from those of its children."""
    left, right = (state_rows(load, side, as_printed=as_printed) for side in (join.left, join.right))
    kept = left * right * load.selectivity(join.left.inputs, join.right.inputs)
    compared = comparisons(load, join, as_printed=as_printed)
    return costs.compare * compared + costs.store * kept + costs.probe * (left + right)


def new_states(old: Plan, new: Plan) -> tuple[Join, ...]:
    """The inner states of the new plan that the old one does not have, children first; a root keeps no state.

    >>> from midstream.plan import parse_plan
    >>> old, new = (parse_plan(text, "ABCD") for text in ("((A B) C) D", "A ((B C) D)"))
    >>> [new.text(join) for join in new_states(old, new)]
    ['(B C)', '((B C) D)']
    """
    held = {join.inputs for join in old.joins()}
    return tuple(join for join in new.joins() if join.inputs not in held)


def moving_state_length(
    old: Plan, new: Plan, load: Load, costs: Costs, *, as_printed: bool = False, computed: Sequence[Join] | None = None
) -> MovingStateLength:
    """T_MS, Equation 3: matching the states of two plans, moving what both have, computing the rest.

    With N and M joins there are 2N and 2M states to compare by name, and at most ``2 min(N, M)`` to move. What is
    computed is `new_states`, unless given. For the plans of the paper's Figure 4, and leaving out matching and moving,
    `as_printed` gives Equation 8::

        λ_B λ_C W² (T_j + T_s σ_BC) + 2 λ_B λ_C λ_D W³ (T_j σ_BC + T_s σ_BC σ_BCD)

    and the default the same without the 2.
    """
    before, after = (sum(1 for _ in plan.joins()) for plan in (old, new))
    joins = new_states(old, new) if computed is None else tuple(computed)
    return MovingStateLength(
        matching=costs.start + 4 * before * after * costs.compare_names,
        moving=2 * min(before, after) * costs.share,
        computing=sum(computing_seconds(load, join, costs, as_printed=as_printed) for join in joins),
        comparisons=sum(comparisons(load, join, as_printed=as_printed) for join in joins),
        entries=sum(state_rows(load, join) for join in joins),
    )


def height(node: Node) -> int:
    """The joins on the longest way from a node to an input.

    >>> from midstream.plan import parse_plan
    >>> height(parse_plan("((A B) C) D", "ABCD").root), height(parse_plan("(A B) (C D)", "ABCD").root)
    (3, 2)
    """
    below = max((height(child) for child in children_of(node)), default=0)
    return below + 1 if isinstance(node, Join) else below


def parallel_track_length(window: float, old: Plan, purge: Purge = "ends") -> float:
    """T_PT, Equation 4: seconds of event time until the old plan holds no old row.

    Under the paper's purging by combined timestamps that is 2W, because a row that arrives just before W has passed
    can still join an old one, and this entry waits for another W; W if the old plan is a single join. Entries that
    carry their end, as Midstream's do, leave with their oldest row: W for every plan.

    >>> from midstream.plan import parse_plan
    >>> plan = parse_plan("(A B) C", "ABC")
    >>> parallel_track_length(60.0, plan), parallel_track_length(60.0, plan, purge="combined")
    (60.0, 120.0)
    """
    return 2 * window if purge == "combined" and height(old.root) > 1 else window


def old_join_seconds(load: Load, join: Join, costs: Costs, seconds: float) -> float:
    """T_AB, Equation 5: what a join of the old plan, whose states are full, works in so many seconds of event time.

    Every row is compared with the other side, stored, and purged once; purging costs as much as storing.
    """
    left, right = join.left, join.right
    rates = {side: output_rate(load, side) for side in (left, right)}
    compared = rates[left] * state_rows(load, right) + rates[right] * state_rows(load, left)
    share = load.looked_at.get(join.inputs, 1.0)
    return seconds * (costs.compare * compared * share + 2 * costs.store * (rates[left] + rates[right]))


def new_join_seconds(load: Load, join: Join, costs: Costs, seconds: float) -> float:
    """T_BC, Equation 6: the same for a join of the new plan over two windows, whose states are empty at first.

    Nothing is purged in the first W. The paper applies its form to any join; for one above another join the rows that
    enter it grow in number as well, which `Load.rows_from_empty` takes into account.
    """
    window = _window(load, join.inputs)
    filling, full = min(seconds, window), max(0.0, seconds - window)
    stored = sum(load.rows_from_empty(side.inputs, filling) for side in (join.left, join.right))
    selectivity = load.selectivity(join.left.inputs, join.right.inputs)
    share = load.looked_at.get(join.inputs, 1.0)
    compared = load.rows_from_empty(join.inputs, filling) / selectivity if selectivity else 0.0
    return costs.store * stored + costs.compare * compared * share + old_join_seconds(load, join, costs, full)


def new_join_rate(load: Load, join: Join, seconds: float) -> float:
    """λ_BC, Equation 7: entries a second of a join over two windows, so long after its states were empty.

    >>> from midstream.adapt.load import InputLoad
    >>> from midstream.plan import Leaf
    >>> load, join = Load((InputLoad(10.0, 2.0),) * 2, {frozenset({0, 1}): 0.1}), Join(Leaf(0), Leaf(1))
    >>> [new_join_rate(load, join, moment) for moment in (0.0, 1.0, 2.0, 3.0)]
    [0.0, 20.0, 40.0, 40.0]
    """
    if isinstance(join.left, Join) or isinstance(join.right, Join):
        raise EngineError(
            "zhu: Equation 7 is for a join of two inputs; it does not say what enters a join above others"
        )
    first, second = (load.inputs[number] for number in sorted(join.inputs))
    pairs = first.rate * second.rows_after(seconds) + second.rate * first.rows_after(seconds)
    return pairs * load.match_rate(join.inputs)


def _window(load: Load, inputs: Inputs) -> float:
    """The one window of several inputs, as the paper has it."""
    windows = {load.inputs[number].lasts for number in inputs}
    if len(windows) > 1:
        raise EngineError(
            f"zhu: as printed, the model needs one window for all inputs; given: {sorted(windows)} seconds"
        )
    return windows.pop()
