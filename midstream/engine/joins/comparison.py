"""What becomes of every join state when one plan follows another: a question about plans that changes nothing.

Two plans share a state if it joins the same inputs. Whether its entries can stay as they are depends on how the join
above finds them, because that is what they are indexed by:

    same inputs, found in the same way       kept
    same inputs, found in another way        indexed anew if there are few entries, else computed
    results, columns in another order        stored anew, however many: nobody probes them, so they have no index
    only in the new plan                     computed
    only in the old plan                     given up
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from midstream.cql.model import Query
from midstream.engine.joins.access import path_into
from midstream.plan.nodes import Join, Leaf, Node
from midstream.plan.tree import Plan

Fate = Literal["kept", "indexed anew", "computed", "given up"]

#: A state that the new plan finds in another way is indexed anew if it has at most so many entries.
REINDEXED_AT_ONCE = 1 << 15
#: How the results that a root keeps are found: by nobody.
_RESULTS = ("results",)


@dataclass(frozen=True)
class StateShape:
    """A join state that a plan needs, without its entries.

    `inputs` are in the order of its columns, `signature` is how the join above finds entries, and `driver` is the input
    through whose rows missing entries are filled. `holder` is what keeps it, a join or a STAIR: neither can go on with
    what the other has.
    """

    inputs: tuple[int, ...]
    signature: tuple[object, ...]
    driver: int
    holder: Literal["join", "stair"] = "join"

    @property
    def identity(self) -> frozenset[int]:
        """What the state holds, whatever the plan: the combinations of these inputs."""
        return frozenset(self.inputs)


@dataclass(frozen=True)
class StateChange:
    """What becomes of a state; `shape` is that of the new plan, or of the old one for a state that is given up."""

    shape: StateShape
    fate: Fate


def state_shapes(query: Query, plan: Plan, keeps_root: bool = False) -> tuple[StateShape, ...]:
    """The states of a plan whose joins keep their combinations, children first.

    The root of each fragment has none, or keeps results.
    """
    shapes: list[StateShape] = []

    def walk(node: Node) -> tuple[int, ...]:
        if isinstance(node, Leaf):
            return (node.input,)
        assert isinstance(node, Join), "a fragment has joins alone"
        left, right = walk(node.left), walk(node.right)
        for child, inside, outside in ((node.left, left, right), (node.right, right, left)):
            if not isinstance(child, Leaf):
                path = path_into(query, inside, outside)
                shapes.append(StateShape(inside, path.signature, path.driver))
        return left + right

    for fragment in plan.fragments:
        everything = walk(fragment.root)
        if keeps_root and not isinstance(fragment.root, Leaf):
            shapes.append(StateShape(everything, _RESULTS, everything[0]))
    place_of = {join.inputs: place for place, join in enumerate(plan.joins())}
    return tuple(sorted(shapes, key=lambda shape: place_of[shape.identity]))


def compare_states(
    held: Sequence[StateShape], needed: Sequence[StateShape], entries: Callable[[frozenset[int]], float | None]
) -> tuple[StateChange, ...]:
    """What becomes of the states that are held if others are needed: first the needed ones, then those given up.

    `entries` tells how many entries a state that is held has; None if that is not known.
    """
    before = {(shape.identity, shape.holder): shape for shape in held}
    after = {(shape.identity, shape.holder) for shape in needed}
    changes = [
        StateChange(shape, _fate(before.get((shape.identity, shape.holder)), shape, entries)) for shape in needed
    ]
    changes += [StateChange(shape, "given up") for shape in held if (shape.identity, shape.holder) not in after]
    return tuple(changes)


def _fate(old: StateShape | None, new: StateShape, entries: Callable[[frozenset[int]], float | None]) -> Fate:
    if old is None:
        return "computed"
    if old == new:
        return "kept"
    if new.signature == _RESULTS:
        return "indexed anew"
    count = entries(old.identity)
    return "computed" if count is not None and count > REINDEXED_AT_ONCE else "indexed anew"
