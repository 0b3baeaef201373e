"""Where a batch's time goes on Spark, from Spark's event log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_WRITE = "shuffle write time"
_COMMIT = "time to commit changes"


@dataclass
class StageTimes:
    """Seconds that the stages of a batch took, in their order, and what their tasks counted, all tasks together."""

    stages: list[float] = field(default_factory=list)
    shuffle_write: float = 0.0
    commit: float = 0.0


def stage_times(log_folder: Path) -> dict[int, StageTimes]:
    """The stages of each batch, in the last log of a folder."""
    log = max(log_folder.iterdir(), key=lambda path: path.stat().st_mtime)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    batch_of: dict[int, int] = {}
    metrics: dict[int, tuple[str, str]] = {}
    found: dict[int, StageTimes] = {}
    for event in events:
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerJobStart":
            batch = (event.get("Properties") or {}).get("streaming.sql.batchId")
            if batch is not None:
                batch_of |= dict.fromkeys(event["Stage IDs"], int(batch))
        elif kind == "SparkListenerSQLExecutionStart":
            metrics |= dict(_metrics(event["sparkPlanInfo"]))
        elif kind == "SparkListenerStageCompleted":
            stage = event["Stage Info"]
            if stage["Stage ID"] in batch_of:
                times = found.setdefault(batch_of[stage["Stage ID"]], StageTimes())
                times.stages.append((stage["Completion Time"] - stage["Submission Time"]) / 1000)
                times.shuffle_write += _total(stage, metrics, _WRITE)
                times.commit += _total(stage, metrics, _COMMIT)
    return found


def _metrics(plan: dict[str, Any]) -> Iterable[tuple[int, tuple[str, str]]]:
    """The metrics of a plan's operators: number, name and unit."""
    for metric in plan["metrics"]:
        yield metric["accumulatorId"], (metric["name"], metric["metricType"])
    for child in plan["children"]:
        yield from _metrics(child)


def _total(stage: dict[str, Any], metrics: dict[int, tuple[str, str]], wanted: str) -> float:
    """What a stage's tasks counted under a name, in seconds."""
    total = 0.0
    for counter in stage["Accumulables"]:
        name, unit = metrics.get(counter["ID"], ("", ""))
        if name == wanted:
            total += float(counter["Value"]) / (1e9 if unit == "nsTiming" else 1e3)
    return total
