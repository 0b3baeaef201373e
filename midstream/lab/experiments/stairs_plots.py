"""Pictures of runs over finite relations: what grows with the rows that have come, and which way rows were sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from midstream.lab.definition import Plot
from midstream.lab.experiments.stairs_lanes import Point
from midstream.lab.experiments.zhu_plots import lines

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:olive")


def draw_over_rows(points: Sequence[Point], measure: Callable[[Point], float], what: str) -> Plot:
    """A line per contender over the rows that have come."""
    names = dict.fromkeys(point.contender for point in points)
    series = {name: [(point.rows, measure(point)) for point in points if point.contender == name] for name in names}
    return lines(series, "rows that have come", what, marked=False)


def draw_routing(points: Sequence[Point], aliases: Sequence[str]) -> Plot:
    """A bar per contender and input, in the colour of the order that rows of the input take at that time."""
    bars = [
        (name, alias) for name in dict.fromkeys(point.contender for point in points if point.ways) for alias in aliases
    ]
    orders = list(dict.fromkeys(point.ways[alias] for point in points if point.ways for alias in aliases))
    colours = dict(zip(orders, _COLOURS * (1 + len(orders) // len(_COLOURS)), strict=False))

    def draw(axes: Any) -> None:
        for place, (name, alias) in enumerate(bars):
            seen = [point for point in points if point.contender == name]
            begins = [0, *(point.rows for point in seen)]
            for point, (begin, end) in zip(seen, pairwise(begins), strict=True):
                axes.barh(place, end - begin, left=begin, color=colours[point.ways[alias]], height=0.8)
        axes.set_yticks(range(len(bars)), [f"{name}: {alias}" for name, alias in bars], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("rows that have come")
        axes.set_title("order of the joins for rows of an input", fontsize=9)
        handles = [axes.barh(0, 0, color=colour) for colour in colours.values()]
        axes.legend(handles, list(colours), fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))

    return draw
