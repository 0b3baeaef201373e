"""Midstream: continuous multi-way windowed joins whose plan can change midstream.

>>> import midstream as ms
>>> sorted(name for name in ms.__all__ if name.endswith("Error"))
['EngineError', 'InputError', 'MidstreamError', 'PlanError', 'QueryError', 'SnapshotError', 'SparkError']
"""

from midstream.engine.snapshot import Snapshot
from midstream.errors import EngineError, InputError, MidstreamError, PlanError, QueryError, SnapshotError, SparkError
from midstream.plan import Plan
from midstream.query import Query, query
from midstream.session import Engine, get_ready

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
]
