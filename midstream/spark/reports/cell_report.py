"""What a cell reports of a batch: a short JSON text that travels in Spark's own progress.

Names are short because every cell's report of every batch is kept by Spark; `progress` gives them their full ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: A report has at most so many characters.
LARGEST_REPORT = 1000
_LONGEST_PLAN = 240
#: The lengths to which a plan and the reasons of refusals are cut before anything else is left out.
_SHORT_PLAN, _SHORT_REASON = 50, 40
#: What `mig` lists, in this order.
MIGRATION_FIELDS = ("strategy", "phase", "percent", "holes", "unit")
#: What `mem` lists, in this order: bytes by kind, and what was done to keep to the limit since the engine was loaded.
MEMORY_FIELDS = (
    "limit",
    "windows",
    "states",
    "holes",
    "output",
    "over",
    "evictions",
    "evicted",
    "refilled",
    "states_off",
)
#: What `dem` lists, in this order: what became of rows without a partner since the engine was loaded.
DEMAND_FIELDS = (
    "hidden",
    "waiting",
    "woken",
    "released",
    "dropped",
    "suspended",
    "resumed",
    "checks",
    "hits",
    "idle",
)


def report_of(cell: int, told: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a cell. If it is too long, the plan is cut, then parts are left out, the longest lists first."""
    migration = told.get("migration")
    report: dict[str, Any] = {
        "cell": cell,
        "in": told["in"],
        "out": told["out"],
        "late": told["late"],
        "dropped": told["dropped"],
        "rejected": told["rejected"],
        "state": told["bytes"],
        "kinds": told["kinds"],
        "stored": told["stored"],
        "parcels": told["parcels"],
        "wm": told["watermark"],
        "reached": told["reached"],
        "plan": _short(told["plan"]),
        "exec": told["executor"],
        "place": told["place"],
        "loads": told["loads"],
        "host": told.get("resident", 0),
        "ms": [_milliseconds(told[name]) for name in ("seconds", "store", "total")],
    }
    if "policy" in told:
        report["policy"] = told["policy"]
    if migration is not None:
        report["mig"] = [migration[name] for name in MIGRATION_FIELDS]
    if told.get("memory") is not None:
        report["mem"] = [told["memory"][name] for name in MEMORY_FIELDS]
    if told.get("demand") is not None:
        report["dem"] = [told["demand"][name] for name in DEMAND_FIELDS]
    if told.get("answers"):
        report["ans"] = told["answers"]
    if told.get("step") is not None:
        report["step"] = told["step"]
    if "heavy" in told:
        report["heavy"] = told["heavy"]
    if len(write_report(report)) > LARGEST_REPORT:
        report["plan"] = _short(report["plan"], _SHORT_PLAN)
    for name in ("kinds", "dem", "mem"):
        if len(write_report(report)) > LARGEST_REPORT:
            report.pop(name, None)
    for name in ("reached", "in", "late"):
        if len(write_report(report)) > LARGEST_REPORT:
            report[name] = sum(report[name].values()) if name != "reached" else {}
    if len(write_report(report)) > LARGEST_REPORT and report.get("ans"):
        report["ans"] = [[identity, _short(reason, _SHORT_REASON)] for identity, reason in report["ans"]]
    while len(write_report(report)) > LARGEST_REPORT and report.get("ans"):
        report["ans"] = report["ans"][1:]
    if len(write_report(report)) > LARGEST_REPORT:
        report.pop("heavy", None)
    length = _SHORT_PLAN
    while len(write_report(report)) > LARGEST_REPORT and length > 1:
        length //= 2
        report["plan"] = _short(report["plan"], length)
    return report


def write_report(report: Mapping[str, Any]) -> str:
    """A report as text.

    >>> write_report({"cell": 3, "in": {"a": 10}})
    '{"cell":3,"in":{"a":10}}'
    """
    return json.dumps(report, separators=(",", ":"))


def _milliseconds(seconds: float) -> float:
    """In tenths below a second, else whole: a digit that nobody reads is left out."""
    return round(1000 * seconds, 1) if seconds < 1 else round(1000 * seconds)


def _short(text: str, length: int = _LONGEST_PLAN) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
