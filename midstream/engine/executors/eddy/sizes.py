"""The sizes of STAIRs, as `stats` tells them: one line for each set of inputs that a STAIR has entries of or wants."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.engine.executors.eddy.routing import Routing
from midstream.engine.executors.eddy.stair import Stair
from midstream.engine.executors.eddy.store import StairStore
from midstream.engine.stats import StateStats
from midstream.plan.nodes import Leaf, quoted
from midstream.plan.tree import Plan


def stair_stats(store: StairStore, routings: Sequence[Routing], plan: Plan, counts_misplaced: bool) -> list[StateStats]:
    """First what is not as the plan has it, then the plan's own states in its order.

    A line is called after the STAIR's input, the other end of its edge and the inputs of the entries: ``s to t: r s``.
    """
    leaves = [node.input for node in plan.nodes() if isinstance(node, Leaf)]
    place_of = {join.inputs: place for place, join in enumerate(plan.joins())}
    misplaced: list[StateStats] = []
    wanted: list[tuple[int, StateStats]] = []
    for stair in store.stairs.values():
        wants = {routing.climb(stair.stream, stair.edge).wanted for routing in routings}
        for inputs in {*stair.contents(), *wants}:
            order = [number for number in leaves if number in inputs]
            aliases = tuple(plan.aliases[number] for number in order)
            rows, size = _size(stair, inputs)
            holes = rows if counts_misplaced and inputs not in wants else 0
            is_off = stair.off is not None and inputs == stair.alone
            stats = StateStats(_name(stair, plan, aliases), "stair", rows, size, holes, aliases, is_off)
            if inputs in wants:
                wanted.append((place_of.get(inputs, -1), stats))
            else:
                misplaced.append(stats)
    return sorted(misplaced, key=lambda stats: stats.name) + [
        stats for _, stats in sorted(wanted, key=lambda at: at[0])
    ]


def _size(stair: Stair, inputs: frozenset[int]) -> tuple[int, int]:
    """How many entries of these inputs a STAIR has, and how many bytes they take."""
    if inputs == stair.alone:
        return len(stair.rows), stair.rows.nbytes
    state = stair.states.get(inputs)
    return (0, 0) if state is None else (len(state), state.nbytes)


def _name(stair: Stair, plan: Plan, aliases: tuple[str, ...]) -> str:
    stream, beyond = plan.aliases[stair.stream], plan.aliases[stair.edge.other(stair.stream)]
    return f"{quoted(stream)} to {quoted(beyond)}: {' '.join(quoted(alias) for alias in aliases)}"
