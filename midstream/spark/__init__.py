"""Joins on Spark Structured Streaming: streaming DataFrames in, a streaming DataFrame out.

``midstream.spark.sql`` and ``midstream.spark.join`` need PySpark: ``pip install 'midstream[spark]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midstream.spark.api import explain, join, sql
    from midstream.spark.checkpoint.repartitioning import repartition
    from midstream.spark.commands.control_folder import Control, control
    from midstream.spark.reasons import reason
    from midstream.spark.reports.totals import Progress, cell_reports, progress
    from midstream.spark.routing.hot_search import hot_keys

__all__ = [
    "Control",
    "Progress",
    "cell_reports",
    "control",
    "explain",
    "hot_keys",
    "join",
    "progress",
    "reason",
    "repartition",
    "sql",
]

_PLACES = {
    "Control": "midstream.spark.commands.control_folder",
    "control": "midstream.spark.commands.control_folder",
    "hot_keys": "midstream.spark.routing.hot_search",
    "Progress": "midstream.spark.reports.totals",
    "cell_reports": "midstream.spark.reports.totals",
    "explain": "midstream.spark.api",
    "join": "midstream.spark.api",
    "progress": "midstream.spark.reports.totals",
    "reason": "midstream.spark.reasons",
    "repartition": "midstream.spark.checkpoint.repartitioning",
    "sql": "midstream.spark.api",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: hosts, and tests of single parts, run without PySpark."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        return getattr(importlib.import_module(_PLACES[name]), name)
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.partition(".")[0] != "pyspark":
            raise
        raise ModuleNotFoundError(
            "midstream.spark needs PySpark 4.1 or newer: pip install 'midstream[spark]'", name="pyspark"
        ) from None


def __dir__() -> list[str]:
    """The public names, for `dir` and completion; modules can be imported all the same."""
    return sorted(__all__)
