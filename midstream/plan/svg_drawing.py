"""Plans drawn as SVG for a notebook: the root on top, a card for every node, lines from a join to its sides.

The drawing takes the colour of its text from the page around it, so it can be read on a light ground and on a dark one.
It has no scripts and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from midstream.plan.nodes import Leaf, Node, children_of, notation_of, post_order, symbol_of

AMBER = "#d97706"
_BLUE = "#3b82f6"
_CHARACTER, _LINE, _PADDING, _GAP, _DROP, _MARGIN = 6.9, 17, 10, 18, 26, 2


@dataclass(frozen=True)
class Card:
    """What a node shows: its name, lines of text below it, and, if entries are missing, a text that says so."""

    name: str
    lines: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.name, *self.lines, *([self.missing] if self.missing else []))

    @property
    def width(self) -> float:
        return max(44.0, max(map(len, self.texts)) * _CHARACTER + 2 * _PADDING)

    @property
    def height(self) -> float:
        return len(self.texts) * _LINE + 8.0


@dataclass(frozen=True)
class _Subtree:
    """A drawn subtree: its parts in drawing order, its size, and where the middle of its top node is."""

    parts: tuple[tuple[float, float, str], ...]
    width: float
    height: float
    middle: float


def draw_picture(root: Node, aliases: Sequence[str], card: Callable[[Node], Card] | None = None) -> str:
    """A tree as SVG text; `card` tells what its nodes show.

    >>> from midstream.plan.nodes import Join
    >>> drawn = draw_picture(Join(Join(Leaf(0), Leaf(1)), Leaf(2)), "RST")
    >>> drawn.startswith("<svg") and drawn.count("<rect") == 5 and drawn.count("<path") == 4
    True
    """
    tell = card or (lambda node: Card(symbol_of(node, aliases)))
    done: dict[Node, _Subtree] = {}
    for node in post_order(root):
        below = [done.pop(child) for child in children_of(node)]
        done[node] = _with_card(tell(node), _beside(below) if below else None, isinstance(node, Leaf))
    drawn = done[root]
    width, height = drawn.width + 2 * _MARGIN, drawn.height + 2 * _MARGIN
    body = "".join(f'<g transform="translate({x:.1f} {y:.1f})">{text}</g>' for x, y, text in drawn.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="plan {escape(notation_of(root, aliases))}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="{-_MARGIN} {-_MARGIN} {width:.1f} {height:.1f}" '
        'style="max-width:100%;height:auto;margin:4px 0;color:inherit" fill="currentColor" '
        f'font-family="system-ui,sans-serif" font-size="12" text-anchor="middle">{body}</svg>'
    )


def _with_card(card: Card, below: _Subtree | None, is_leaf: bool) -> _Subtree:
    """A node's card above what is below it, their middles in one line."""
    own = (0.0, 0.0, _draw_subtree(card, is_leaf))
    if below is None:
        return _Subtree((own,), card.width, card.height, card.width / 2)
    middle = max(card.width / 2, below.middle)
    shift, top = middle - below.middle, card.height
    moved = tuple((x + shift, y + top, text) for x, y, text in below.parts)
    width = max(middle + card.width / 2, shift + below.width)
    return _Subtree(((middle - card.width / 2, 0.0, own[2]), *moved), width, top + below.height, middle)


def _beside(below: Sequence[_Subtree]) -> _Subtree:
    """One or two subtrees side by side under the lines to them, which start in their middle."""
    starts = [0.0, below[0].width + _GAP][: len(below)]
    ends = [start + subtree.middle for start, subtree in zip(starts, below, strict=True)]
    middle = sum(ends) / len(ends)
    lines = [
        f'<path d="M{middle:.1f} 0C{middle:.1f} {_DROP / 2} {end:.1f} {_DROP / 2} {end:.1f} {_DROP}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.45"/>'
        for end in ends
    ]
    parts = [(0.0, 0.0, "".join(lines))]
    for start, subtree in zip(starts, below, strict=True):
        parts += [(x + start, y + _DROP, text) for x, y, text in subtree.parts]
    height = _DROP + max(subtree.height for subtree in below)
    return _Subtree(tuple(parts), starts[-1] + below[-1].width, height, middle)


def _draw_subtree(card: Card, is_leaf: bool) -> str:
    colour = AMBER if card.missing else "currentColor" if is_leaf else _BLUE
    dashes = ' stroke-dasharray="5 3"' if card.missing else ""
    texts = []
    for place, line in enumerate(card.texts):
        is_last = card.missing is not None and place == len(card.texts) - 1
        look = ' font-weight="600"' if place == 0 else f' fill="{AMBER}"' if is_last else ' fill-opacity="0.75"'
        texts.append(f'<text x="{card.width / 2:.1f}" y="{_LINE * (place + 1) - 1}"{look}>{escape(line)}</text>')
    return (
        f'<rect width="{card.width:.1f}" height="{card.height:.1f}" rx="6" fill="{colour}" '
        f'fill-opacity="{0.06 if is_leaf else 0.12}" stroke="{colour}" stroke-opacity="0.6"{dashes}/>' + "".join(texts)
    )
