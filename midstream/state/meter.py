"""What has been done, counted and not timed.

All windows, joins and states of an engine share one meter. So what a plan has done still counts when the plan is gone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Meter:
    """Entries looked at by probes, and bytes written to rings."""

    slots_visited: int = 0
    bytes_moved: int = 0
