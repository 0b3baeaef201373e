"""One core for everything, so that figures of one run can be compared."""

from __future__ import annotations

import os

import pyarrow as pa


def use_one_core() -> None:
    """Keep this process, with all its threads, on one core."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
