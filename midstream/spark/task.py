"""What a Python worker can find out about the task that it runs."""

from __future__ import annotations


def current_run() -> str | None:
    """The run of the streaming query that this worker's task is of; None outside a streaming query."""
    # A streaming query runs its jobs under its run's identity as the job group.
    return None if current_batch() is None else _local_property("spark.jobGroup.id")


def current_batch() -> int | None:
    """The batch of the streaming query that this worker's task is of; None outside a streaming query."""
    batch = _local_property("streaming.sql.batchId")
    return None if batch is None else int(batch)


def _local_property(name: str) -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value
