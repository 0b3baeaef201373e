"""Reports of cells -> what a user reads: totals of a batch, each cell's last report, migrations.

Reports travel as observed metrics of Spark's own progress. Classic and Connect sessions shape these differently, and
`cell_reports` hides it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.engine.stats import DemandStats
from midstream.errors import SparkError, shown
from midstream.migrate.record import UNFILLED_ROWS
from midstream.spark.reports.cell_report import DEMAND_FIELDS, MEMORY_FIELDS, MIGRATION_FIELDS

#: The name of the observation, before the join's.
OBSERVATION = "midstream"
#: In the text of a plan, a join has this name followed by its unique id.
OPERATOR = "midstream_join"
_OPERATOR = re.compile(rf"^\W*SubqueryAlias {OPERATOR}_(\w+)", re.MULTILINE)


def column_of(cell: int) -> str:
    """The observed metric that carries a cell's report."""
    return f"cell_{cell}"


def operators_in(plan: str) -> list[str]:
    """The unique ids of the joins in the text of a query's plan; two joins may have the same name.

    >>> operators_in("   +- SubqueryAlias midstream_join_ab12")
    ['ab12']
    """
    return _OPERATOR.findall(plan)


def cell_reports(progress: Any, join: str | None = None) -> dict[int, dict[str, Any]]:
    """The reports in a `StreamingQueryProgress`, by cell; cells without work in the batch have none.

    If the query has several joins, `join` is the name of one of them, as `sql` was given it.

    ::

        for cell, report in ms.spark.cell_reports(query.lastProgress).items():
            print(cell, report["plan"], report["out"])
    """
    found = reports_by_join(progress)
    if join is None and len(found) > 1:
        raise SparkError(f"cell_reports: the query has several joins; give join=, one of {', '.join(sorted(found))}")
    if join is not None and found and join not in found:
        raise SparkError(f"cell_reports: the query has no join {shown(join)}; joins: {', '.join(sorted(found))}")
    return found.get(join, {}) if join is not None else next(iter(found.values()), {})


def reports_by_join(progress: Any) -> dict[str, dict[int, dict[str, Any]]]:
    """The reports in a `StreamingQueryProgress`, by join and cell."""
    if not (isinstance(progress, Mapping) or hasattr(progress, "observedMetrics")):
        raise SparkError(f"progress: {shown(progress)} is not a progress; give one of query.recentProgress")
    observed = progress.get("observedMetrics") if isinstance(progress, Mapping) else progress.observedMetrics
    found = {}
    for name, row in (observed or {}).items():
        if name.startswith(f"{OBSERVATION}_"):
            reports = [json.loads(text) for text in _texts(row)]
            found[name.removeprefix(f"{OBSERVATION}_")] = {report["cell"]: report for report in reports}
    return {name: dict(sorted(reports.items())) for name, reports in found.items()}


def _texts(row: Any) -> Iterable[str]:
    """The values of an observed row that are reports; a row of Connect holds them in a list called `values`."""
    if row is None:
        return []
    if isinstance(row, Mapping):
        values: Iterable[Any] = row.get("values", list(row.values()))
    else:
        fields = row.asDict() if hasattr(row, "asDict") else {}
        values = fields.get("values", list(fields.values()))
    return [value for value in values if isinstance(value, str) and value.startswith("{")]


@dataclass(frozen=True)
class Progress:
    """How a join on Spark is going: totals of the last reports of its cells.

    `holes` are the rows that are still to be filled; what other strategies wait for is in `migrations`, with its unit.
    `memory` has what `stats().memory` has for an engine, summed over cells, but for `over`, which is the most of any;
    without a memory limit it is empty. `demand` has what `stats().demand` has, and `saved`, summed over cells; it is
    empty if demand is off. `bytes_by_kind` has the bytes of `state_bytes` by what takes them: windows, hidden rows,
    joins and others.
    `held_back_by` is the stream whose event times are furthest behind, which holds the watermark back. `seconds` are
    of the slowest cell: in the engine, in the state store, and in total; the rest is transport. `in_place` is the share
    of cells that reused their in-memory engine instead of reloading it.
    """

    rows_in: dict[str, int]
    rows_out: int
    late: dict[str, int]
    dropped: int
    rejected: int
    state_bytes: int
    stored_bytes: int
    host_bytes: int
    holes: int
    plans: dict[int, str]
    migrations: dict[int, dict[str, Any]]
    held_back_by: str | None
    heavy_keys: list[tuple[str, str, float]]
    memory: dict[str, int]
    demand: dict[str, int]
    bytes_by_kind: dict[str, int]
    seconds: dict[str, float]
    in_place: float

    @classmethod
    def of(cls, reports: Mapping[int, Mapping[str, Any]]) -> Progress:
        """Totals of the cells' reports."""
        told = list(reports.values())
        migrations = {
            cell: dict(zip(MIGRATION_FIELDS, report["mig"], strict=True))
            for cell, report in reports.items()
            if "mig" in report
        }
        slowest = max(told, key=lambda report: report["ms"][2], default=None)
        parts = [0.0, 0.0, 0.0] if slowest is None else [milliseconds / 1000 for milliseconds in slowest["ms"]]
        return cls(
            rows_in=_sum_by_name(report["in"] for report in told),
            rows_out=sum(report["out"] for report in told),
            late=_sum_by_name(report["late"] for report in told),
            dropped=sum(report["dropped"] for report in told),
            rejected=sum(report["rejected"] for report in told),
            state_bytes=sum(report["state"] for report in told),
            stored_bytes=sum(report["stored"] for report in told),
            host_bytes=sum(report["host"] for report in told),
            holes=sum(migration["holes"] for migration in migrations.values() if migration["unit"] == UNFILLED_ROWS),
            plans={cell: report["plan"] for cell, report in reports.items()},
            migrations=migrations,
            held_back_by=_slowest(report["reached"] for report in told),
            heavy_keys=[tuple(report["heavy"]) for report in told if "heavy" in report],
            memory=_sum_memory(report["mem"] for report in told if "mem" in report),
            demand=_sum_demand(report["dem"] for report in told if "dem" in report),
            bytes_by_kind=_sum_by_name(report["kinds"] for report in told if "kinds" in report),
            seconds={"engine": parts[0], "store": parts[1], "total": parts[2]},
            in_place=sum(report["place"] == "host" for report in told) / len(told) if told else 0.0,
        )


def _sum_by_name(counts: Iterable[Mapping[str, int] | int]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for counted in counts:
        for name, count in counted.items() if isinstance(counted, Mapping) else [("all", counted)]:
            totals[name] = totals.get(name, 0) + count
    return totals


def _sum_memory(reports: Iterable[Sequence[int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for told in reports:
        for name, number in zip(MEMORY_FIELDS, told, strict=True):
            before = totals.get(name, 0)
            totals[name] = max(before, number) if name == "over" else before + number
    return totals


def _sum_demand(reports: Iterable[Sequence[int]]) -> dict[str, int]:
    totals = _sum_by_name(dict(zip(DEMAND_FIELDS, told, strict=True)) for told in reports)
    return totals | {"saved": DemandStats(**totals).saved} if totals else {}


def _slowest(watermarks: Iterable[Mapping[str, int | None]]) -> str | None:
    """The stream that is furthest behind. Each counts in the cell where it is furthest ahead; None is earliest."""
    furthest: dict[str, float] = {}
    for by_stream in watermarks:
        for stream, moment in by_stream.items():
            furthest[stream] = max(-math.inf if moment is None else moment, furthest.get(stream, -math.inf))
    if len(set(furthest.values())) < 2:
        return None
    return min(furthest, key=lambda stream: furthest[stream])


def progress(query: Any, join: str | None = None) -> Progress:
    """How a running `StreamingQuery`, or one `StreamingQueryProgress`, is going.

    For a query, the latest report of each cell counts, back to the oldest progress that Spark keeps. If it has several
    joins, `join` is the name of one of them, as `sql` was given it::

        print(ms.spark.progress(query).rows_out)
    """
    recent = query.recentProgress if hasattr(query, "recentProgress") else [query]
    reports: dict[int, dict[str, Any]] = {}
    for told in recent:
        reports.update(cell_reports(told, join))
    if any(map(_has_run, recent)) and not any(map(reports_by_join, recent)):
        raise SparkError("progress: the query has no join of Midstream; give the query that writes its results")
    return Progress.of(dict(sorted(reports.items())))


def _has_run(progress: Any) -> bool:
    """Whether a progress belongs to a batch; Spark also reports progress while there is nothing to do."""
    durations = progress.get("durationMs") if isinstance(progress, Mapping) else progress.durationMs
    return "addBatch" in (durations or {})
