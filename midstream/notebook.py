"""A running engine as one picture for a notebook: its plan, what every state holds, and what is still missing.

((o p) s)                    the plan that runs, or that a migration leads to
[cards of the plan]          dashed and amber where a state has a hole
6 rows in, 1 result ...      counters, the watermark, how far a migration is
"""

from __future__ import annotations

from html import escape

from midstream.cql.model import Query
from midstream.cql.moments import moment_text
from midstream.engine.executors.protocol import Executor, ExecutorKind
from midstream.engine.executors.registry import executor_names
from midstream.engine.stats import EngineStats, StateStats
from midstream.migrate.record import Migration
from midstream.plan.nodes import JOIN, Leaf, Node, OperatorNode, SetNode, children_of, symbol_of
from midstream.plan.svg_drawing import AMBER, Card, draw_picture
from midstream.plan.tree import Plan


def count_text(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count_text(1, "row"), count_text(12_000, "row")
    ('1 row', '12,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def engine_html(
    query: Query,
    running: Executor,
    plans_at_once: int,
    stats: EngineStats,
    migration: Migration | None,
    ended: str | None,
) -> str:
    """An engine as HTML."""
    plan, kind = running.plan, running.kind
    windows = {state.aliases: state for state in stats.states if state.kind == "window"}
    joins = [state for state in stats.states if state.kind in ("join", "stair") and len(state.aliases) > 1]
    kept = [state for state in stats.states if state.kind == "operator"]
    own = len(kind.state_shapes(query, plan))
    # While two plans run, the states of the old plan come first, and states of both may have the same name.
    leading = joins[: len(joins) - own] if ended is None and plans_at_once > 1 else []
    # What is misplaced in STAIRs comes before what belongs there.
    states = {state.aliases: state for state in joins[len(leading) :]}
    keeps_states = own or plan.has_lower_operators

    def card(node: Node) -> Card:
        if isinstance(node, Leaf):
            return _window_card(query, node.input, windows)
        if node is plan.root:
            return Card(symbol_of(node, plan.aliases), (count_text(stats.rows_out, "result"),))
        if isinstance(node, SetNode):
            return Card(node.word)
        if isinstance(node, OperatorNode):
            held = next((state for state in reversed(kept) if state.name == plan.text(node)), None)
            return Card(node.word, () if held is None else (count_text(held.rows, "value"),))
        state = states.get(tuple(plan.aliases[number] for number in _leaves(node)))
        return Card(JOIN, () if keeps_states else ("no state",)) if state is None else _state_card(state)

    lines = [_counters(query, stats)]
    if leading:
        held = sum(state.bytes for state in leading)
        lines.append(f"The plan before it still runs: {count_text(len(leading), 'state')}, {_size(held)}.")
    parts = [
        f"<div><b>Engine</b> <code>{escape(str(plan))}</code>{escape(_on(kind))}</div>",
        draw_picture(plan.root, plan.aliases, card),
    ]
    parts += [f"<div>{escape(line)}</div>" for line in lines]
    if migration is not None:
        parts.append(_migration(migration))
    if ended is not None:
        parts.append(f'<div style="color:{AMBER}">{escape(ended)}</div>')
    return f'<div style="font-family:system-ui,sans-serif;font-size:13px;line-height:1.6">{"".join(parts)}</div>'


def engine_line(
    query: Query, plan: Plan, kind: ExecutorKind, stats: EngineStats, migration: Migration | None, ended: str | None
) -> str:
    """An engine in one line."""
    parts = [
        f"{plan}{_on(kind)}: {count_text(sum(stats.rows_in.values()), 'row')} in",
        count_text(stats.rows_out, "result"),
        *_left_out(stats),
    ]
    if stats.watermark is not None:
        parts.append(f"watermark {moment_text(stats.watermark, query.time_type)}")
    if migration is not None and not migration.has_ended:
        parts.append(f"{migration.strategy} {migration.percent:.0f}% complete")
    if ended is not None:
        parts.append(ended.partition(":")[0].partition(",")[0])
    return ", ".join(parts)


def _on(kind: ExecutorKind) -> str:
    """The executor, unless it is the one that an engine has if nothing is said."""
    return "" if kind.name == executor_names()[0] else f" on {kind.name}"


def _leaves(node: Node) -> list[int]:
    """The inputs of a node from left to right."""
    if isinstance(node, Leaf):
        return [node.input]
    return [number for child in children_of(node) for number in _leaves(child)]


def _window_card(query: Query, number: int, windows: dict[tuple[str, ...], StateStats]) -> Card:
    relation = query.inputs[number]
    source = relation.source if relation.source != relation.alias else ""
    window = "static table" if relation.is_static else f"[{relation.window.text}]"
    held = windows.get((relation.alias,))
    rows = () if held is None else (count_text(held.rows, "row"),)
    return Card(relation.alias, (f"{source} {window}".strip(), *rows))


def _state_card(state: StateStats) -> Card:
    missing = f"{count_text(state.holes, 'row')} to fill" if state.holes else None
    return Card(JOIN, (count_text(state.rows, "combination"),), missing)


def _counters(query: Query, stats: EngineStats) -> str:
    told = [f"{count_text(sum(stats.rows_in.values()), 'row')} in", count_text(stats.rows_out, "result")]
    told += _left_out(stats)
    dropped = sum(sum(reasons.values()) for reasons in stats.dropped.values())
    if dropped:
        told.append(f"{dropped:,} dropped")
    told.append(f"{_size(stats.state_bytes)} of state")
    if stats.watermark is None:
        told.append("no watermark yet")
    else:
        told.append(f"watermark {moment_text(stats.watermark, query.time_type)}")
    held = f", held back by {stats.held_back_by}" if stats.held_back_by is not None else ""
    return ", ".join(told) + held


def _left_out(stats: EngineStats) -> list[str]:
    """How many rows were refused, which most users want to know of."""
    late = sum(stats.late.values())
    rejected = sum(sum(reasons.values()) for reasons in stats.rejected.values())
    return [f"{count:,} {what}" for count, what in ((late, "late"), (rejected, "rejected")) if count]


def _migration(migration: Migration) -> str:
    words = f"{migration.strategy} from {migration.from_text} to {migration.to_text}: {migration.phase}"
    if migration.has_ended:
        return f"<div>Migration by {escape(words)}</div>"
    bar = (
        '<span style="display:inline-block;width:120px;height:8px;border-radius:4px;vertical-align:middle;'
        'background:rgba(128,128,128,.3)"><span style="display:block;height:8px;border-radius:4px;'
        f'width:{migration.percent:.0f}%;background:{AMBER}"></span></span>'
    )
    return (
        f"<div>Migration by {escape(words)} {bar} {migration.percent:.0f}% complete, "
        f"{escape(migration.left_text)}</div>"
    )


def _size(count: int) -> str:
    """Bytes as people read them.

    >>> _size(500), _size(2_500_000)
    ('500 bytes', '2.5 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
