"""Reports of a soak: a line while it runs, the result at the end, and what has grown."""

from __future__ import annotations

import collections
import time
from typing import TYPE_CHECKING

from rich.console import Console

from midstream.app.screen import number_text, size_text
from midstream.app.soak_picture import TOLERANCE, Measurements, compare_halves, rank_of

if TYPE_CHECKING:
    from midstream.app.check import Comparison
    from midstream.app.soak_run import Soak


def tell(soak: Soak, console: Console) -> None:
    """One line on how it is going."""
    measured = soak.measured
    last = measured.batches[-1] if measured.batches else None
    used = sum(measured.memory[-1][1].values()) if measured.memory else 0
    batch = "no batch yet" if last is None else f"batch {last['batch']} in {last['seconds']:.1f} s"
    console.print(
        f"{(time.time() - measured.began) / 60:5.1f} min  {batch}, {soak.processed} of {soak.feed.written} files, "
        f"{len(soak.commands)} migrations, {len(measured.kills)} kills, memory {size_text(used)}",
        highlight=False,
        soft_wrap=True,
    )


def report(soak: Soak, verdict: Comparison, answered: int, console: Console) -> bool:
    """Print what was done to the job and how it ended; whether all of its results and counts were right."""
    measured = soak.measured
    batches = {batch["batch"]: batch for batch in measured.batches}
    places = [place for batch in batches.values() for place in batch["places"]]
    by_kind = collections.Counter(kind for _, kind in measured.kills)
    kills = ", ".join(f"{number} of {kind}" for kind, number in sorted(by_kind.items()))
    console.print(
        f"{(time.time() - measured.began) / 60:.1f} minutes, {number_text(soak.feed.total_rows)} rows "
        f"in {len(batches)} batches that were told of, {soak.starts} starts, {soak.failures} ends that nobody caused",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"kills: {kills or 'none'}", highlight=False, soft_wrap=True)
    if places:
        share = places.count("host") / len(places)
        console.print(f"engines found in place: {share:.1%} of {len(places)}", highlight=False, soft_wrap=True)
    console.print(
        f"migrations: {len(soak.commands)} given, {answered} answered by all cells", highlight=False, soft_wrap=True
    )
    told, late = soak.late()
    console.print(
        f"late rows: {number_text(told)} told, {number_text(late)} in the same files",
        style="" if told == late else "bold red",
        highlight=False,
        soft_wrap=True,
    )
    has_right_results = verdict.ok and verdict.expected > 0
    console.print(
        f"results: {number_text(verdict.expected)} by the batch join; missing {number_text(verdict.missing)}, "
        f"extra {number_text(verdict.extra)}",
        style="bold green" if has_right_results else "bold red",
        highlight=False,
        soft_wrap=True,
    )
    return has_right_results and told == late


def report_growth(measured: Measurements, console: Console) -> bool:
    """How each series has grown; whether all are flat."""
    is_flat = True
    for name, points in measured.series().items():
        rank = rank_of(name)
        found = compare_halves(points, rank)
        if found is None:
            console.print(f"{name}: too short to tell", highlight=False, soft_wrap=True)
            continue
        is_flat = is_flat and found.is_flat
        is_time = name.startswith("time")
        shown = [f"{level:.2f} s" if is_time else size_text(int(level)) for level in (found.first, found.second)]
        console.print(
            f"{name}: {rank:.0%} are below {shown[0]} in the first half, {shown[1]} in the second, "
            f"{found.growth:.2f} times ({'flat' if found.is_flat else f'more than {TOLERANCE}'})",
            style="" if found.is_flat else "yellow",
            highlight=False,
            soft_wrap=True,
        )
    return is_flat
