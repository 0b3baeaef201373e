"""Midstream: continuous multi-way windowed joins whose plan can change midstream.

>>> import midstream as ms
>>> sorted(name for name in ms.__all__ if name.endswith("Error"))
['EngineError', 'InputError', 'MidstreamError', 'PlanError', 'QueryError', 'SnapshotError', 'SparkError']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstream.cql import Query, query
from midstream.engine.snapshot.format import Snapshot
from midstream.errors import EngineError, InputError, MidstreamError, PlanError, QueryError, SnapshotError, SparkError
from midstream.plan import Plan
from midstream.session import Engine, get_ready

if TYPE_CHECKING:
    from midstream import spark

__version__ = "0.1.0.dev0"

__all__ = [
    "Engine",
    "EngineError",
    "InputError",
    "MidstreamError",
    "Plan",
    "PlanError",
    "Query",
    "QueryError",
    "Snapshot",
    "SnapshotError",
    "SparkError",
    "get_ready",
    "query",
    "spark",
]


def __getattr__(name: str) -> Any:
    """`midstream.spark` is there without being imported, but costs nothing until it is used."""
    if name != "spark":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("midstream.spark")


def __dir__() -> list[str]:
    """The public names, for `dir` and completion; modules can be imported all the same."""
    return sorted([*__all__, "__version__"])
