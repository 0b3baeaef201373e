"""Plots of lines, one per contender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midstream.lab.definition import Plot

Line = Sequence[tuple[float, float]]


def lines(
    series: Mapping[str, Line],
    x: str,
    y: str,
    *,
    marked: bool = True,
    log: bool = False,
    moments: Mapping[str, float] | None = None,
) -> Plot:
    """A line per name; `moments` are marked by upright lines."""

    def draw(axes: Any) -> None:
        for name, points in series.items():
            axes.plot(
                *zip(*points, strict=True), marker="o" if marked else None, markersize=3, linewidth=1.2, label=name
            )
        for name, moment in (moments or {}).items():
            axes.axvline(moment, color="grey", linestyle=":", linewidth=1)
            axes.annotate(name, (moment, 1), xycoords=("data", "axes fraction"), fontsize=7, rotation=90, va="top")
        if log:
            axes.set_yscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, framealpha=0.6)

    return draw
