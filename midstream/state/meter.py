"""What has been done, counted and not timed.

All windows, joins and states of an engine share one meter. So what a plan has done still counts when the plan is gone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Meter:
    """Entries looked at by probes, bytes written to rings, and entries that were missing and have been filled in.

    Of combinations for which there was no demand: how many had to wait, and how many of these have gone on; and how
    often one was looked up and how often it had no partner. Rows are idle that came while a join had nothing on its
    other side, so that nothing was joined with them.
    """

    slots_visited: int = 0
    #: The same, but for hash indexes by what probes find: which keys share a bucket is chance.
    lookups: int = 0
    bytes_moved: int = 0
    entries_filled: int = 0
    #: Rows of STAIRs whose misplaced entries were moved.
    rows_moved: int = 0
    suspended: int = 0
    resumed: int = 0
    idle_rows: int = 0
    demand_checks: int = 0
    demand_hits: int = 0
