"""What a Python worker can find out about the task that it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """The streaming query's run and batch; both None outside a streaming query."""

    run: str | None
    batch: int | None

    @classmethod
    def current(cls) -> Task:
        """The task of this worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if context is None or batch is None:
            return cls(None, None)
        # A streaming query runs its jobs under its run's identity as the job group.
        return cls(context.getLocalProperty("spark.jobGroup.id"), int(batch))

    @property
    def is_first_batch(self) -> bool:
        """Whether the checkpoint is new; a batch query has none before it either."""
        return self.batch is None or self.batch == 0
