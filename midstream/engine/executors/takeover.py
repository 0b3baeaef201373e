"""What a tree takes over from the plan before: states that both plans have, their memory, and what is missing of them.

kept           the state as it is, with its boxes
indexed anew   another index for the join above it; or a copy, if its columns are in another order
computed       nothing is there: it begins empty, in the memory of a state that is not needed any more
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.engine.executors.protocol import HandedOver, HeldState
from midstream.engine.joins.combos import Delta
from midstream.engine.joins.comparison import StateShape, compare_states
from midstream.engine.joins.filling import store
from midstream.engine.joins.nodes import JoinNode, index_state
from midstream.state.join_state import Access, JoinState
from midstream.state.missing import Cause
from midstream.state.window import BaseWindow

#: Memory of a dropped state is used again if it has this share of the largest one's room.
_REUSED_SHARE = 1 / 4


def take_over(
    joins: Sequence[JoinNode],
    shapes: Sequence[StateShape],
    handed_over: Sequence[HandedOver],
    windows: Sequence[BaseWindow],
    cause: Cause,
) -> list[JoinNode]:
    """Give joins the states that another plan had; the joins that have nothing, whose states have the other shapes.

    What the states lack because of earlier migrations is for this cause from now on.
    """
    nodes = {frozenset(node.inputs): node for node in joins if node.state is not None}
    states = [handed for handed in handed_over if isinstance(handed, HeldState)]
    held = {handed.shape.identity: handed.state for handed in states}
    missing: list[JoinNode] = []
    for change in compare_states([handed.shape for handed in states], shapes, lambda identity: len(held[identity])):
        identity = change.shape.identity
        if change.fate == "computed":
            missing.append(nodes[identity])
        elif change.fate in ("kept", "indexed anew"):
            if change.fate == "kept":
                nodes[identity].state = held[identity]
            else:
                _index_anew(nodes[identity], held[identity], windows)
            taken = nodes[identity].state
            assert taken is not None
            taken.missing.adopt(cause)
    kept = {id(node.state) for node in nodes.values()}
    _make_room(missing, [state for state in held.values() if id(state) not in kept])
    return missing


def _index_anew(node: JoinNode, old: JoinState, windows: Sequence[BaseWindow]) -> None:
    """Have the entries of a state, and what is missing from it, as a plan finds them."""
    assert node.state is not None
    if node.inputs == old.inputs:
        node.state = old
        index_state(node, windows)
    else:
        node.state.missing = old.missing.reordered(node.inputs)
        store(node, Delta(node.inputs, old.entries(node.inputs), windows))


def _make_room(nodes: Sequence[JoinNode], dropped: Sequence[JoinState]) -> None:
    """Give the empty states of joins room for as many entries as the largest of the dropped ones had.

    A large one's memory is used again, the widest entries' for the widest.
    """
    largest = max((state.capacity for state in dropped), default=0)
    reused = sorted(
        (state for state in dropped if state.capacity >= _REUSED_SHARE * largest), key=lambda state: len(state.inputs)
    )
    for node in sorted(nodes, key=lambda node: len(node.inputs), reverse=True):
        assert node.state is not None and node.path is not None
        ways, is_hashed = {node.path.signature: node.path.access}, node.path.access is Access.HASH
        place = next((state for state in reversed(reused) if state.has_hash_index is is_hashed), None)
        if place is None:
            node.state = JoinState(node.inputs, ways, largest, node.state.meter)
        else:
            reused.remove(place)
            node.state = JoinState.in_place_of(place, node.inputs, ways)
