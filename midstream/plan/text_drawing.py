"""Plans drawn as text, in two forms.

`draw` is the picture: the root on top, children below, each node's label under it. `outline` is the list: one node a
line, indented, labels in a column of their own; it stays readable with long labels and many inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from midstream.plan.nodes import Node, children_of, symbol_of
from midstream.plan.tree import Plan

_GAP = 3

Label = Callable[[Node], str]


@dataclass(frozen=True)
class _Block:
    """A drawn subtree: lines of one width, and the column of the node on top."""

    lines: tuple[str, ...]
    width: int
    centre: int


def draw(plan: Plan, label: Label | None = None) -> str:
    """The plan as a picture. `label` gives the text under a node, which may have several lines or none.

    >>> from midstream.plan import parse_plan
    >>> print(draw(parse_plan("(R S) T", "RST")))
         ⋈
      ┌──┴──┐
      ⋈     T
    ┌─┴─┐
    R   S
    """
    done: dict[Node, _Block] = {}
    for node in plan.nodes():
        head = [symbol_of(node, plan.aliases), *(label(node).splitlines() if label else ())]
        below = [done.pop(child) for child in children_of(node)]
        own = _column(head)
        done[node] = _below(own, _beside(*below) if len(below) == 2 else _under(*below)) if below else own
    lines = [line.rstrip() for line in done[plan.root].lines]
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    return "\n".join(line[margin:] for line in lines)


def outline(plan: Plan, label: Label | None = None) -> str:
    """The plan as an indented list. `label` gives the text to the right of a node; further lines go below it.

    >>> from midstream.plan import parse_plan
    >>> print(outline(parse_plan("(R S) T", "RST"), lambda node: f"{len(node.inputs)} input(s)"))
    ⋈          3 input(s)
    ├─ ⋈       2 input(s)
    │  ├─ R    1 input(s)
    │  └─ S    1 input(s)
    └─ T       1 input(s)
    """
    rows: list[tuple[str, str]] = []
    pending: list[tuple[Node, str, str]] = [(plan.root, "", "")]
    while pending:
        node, first, rest = pending.pop()
        texts = (label(node).splitlines() if label else []) or [""]
        rows.append((first + symbol_of(node, plan.aliases), texts[0]))
        children = children_of(node)
        rows += [(rest + "│" if children else rest, text) for text in texts[1:]]
        for child in reversed(children):
            is_last = child is children[-1]
            branch, rail = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            pending.append((child, rest + branch, rest + rail))
    width = max(len(tree) for tree, _ in rows) + 4
    return "\n".join(f"{tree:<{width}}{text}".rstrip() for tree, text in rows)


def _column(lines: list[str]) -> _Block:
    """Lines centred above each other."""
    width = max(len(line) for line in lines)
    return _Block(tuple(line.center(width) for line in lines), width, (width - 1) // 2)


def _beside(left: _Block, right: _Block) -> _Block:
    """Two subtrees side by side under the branch that joins them; the branch's foot is the centre."""
    start = left.width + _GAP
    # An odd distance between the two centres would put the foot off the middle.
    if (start + right.centre - left.centre) % 2:
        start += 1
    foot = (left.centre + start + right.centre) // 2
    reach = start + right.centre
    branch = " " * left.centre + "┌" + "─" * (foot - left.centre - 1) + "┴" + "─" * (reach - foot - 1) + "┐"
    width = start + right.width
    lines = [branch.ljust(width)]
    for row in range(max(len(left.lines), len(right.lines))):
        before = left.lines[row] if row < len(left.lines) else ""
        after = right.lines[row] if row < len(right.lines) else ""
        lines.append(f"{before.ljust(start)}{after}".ljust(width))
    return _Block(tuple(lines), width, foot)


def _under(body: _Block) -> _Block:
    """A subtree under the line to it."""
    return _Block(((" " * body.centre + "│").ljust(body.width), *body.lines), body.width, body.centre)


def _below(head: _Block, body: _Block) -> _Block:
    """A node's own lines above its branch, their centres in one column."""
    centre = max(head.centre, body.centre)
    width = max(centre - head.centre + head.width, centre - body.centre + body.width)
    lines = [(" " * (centre - block.centre) + line).ljust(width) for block in (head, body) for line in block.lines]
    return _Block(tuple(lines), width, centre)
