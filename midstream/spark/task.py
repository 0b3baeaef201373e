"""What a Python worker can find out about the task that it runs."""

from __future__ import annotations


def current_run() -> str | None:
    """The run of the streaming query that this worker's task is of; None outside a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None or context.getLocalProperty("streaming.sql.batchId") is None:
        return None
    # A streaming query runs its jobs under its run's identity as the job group.
    run: str | None = context.getLocalProperty("spark.jobGroup.id")
    return run
