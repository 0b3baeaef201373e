"""What a Python worker can find out about the task that it runs."""

from __future__ import annotations

import gc
import itertools

#: The format in which the state store writes a checkpoint: from 2 on files carry the identity of the attempt.
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
#: A worker has everything imported and compiled after so many tasks.
_TASKS_TO_SETTLE = 3
_tasks = itertools.count()


#: The run of a task that does not tell it.
_UNKNOWN_RUN = "unknown"


def current_run() -> str:
    """The run of the streaming query that this worker's task belongs to.

    A job that a function of `foreachBatch` starts in another thread, or through Spark Connect, does not tell it.
    """
    # A streaming query runs its jobs under its run's identity as the job group.
    run = None if current_batch() is None else _local_property("spark.jobGroup.id")
    return run or _UNKNOWN_RUN


def current_batch() -> int | None:
    """The batch of the streaming query that this worker's task belongs to; None if it does not tell."""
    batch = _local_property("streaming.sql.batchId")
    return None if batch is None else int(batch)


def is_first_task() -> bool:
    """Whether this worker's task is that of its stage's first partition, which every stage has; True outside Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is None or context.partitionId() == 0


def tells_attempts_apart() -> bool:
    """Whether the state store of this worker's task keeps the files of two attempts at one batch apart.

    A streaming query has the format of its checkpoint among the settings that go with its tasks.
    """
    return (_local_property(CHECKPOINT_FORMAT) or "1") != "1"


def settle() -> None:
    """Exclude everything loaded so far from this worker's garbage collections; call it when a task begins.

    Spark's daemon collects all garbage after every task. With the modules that are loaded here that takes 70 ms, and a
    batch has a dozen tasks.
    """
    if next(_tasks) < _TASKS_TO_SETTLE:
        gc.freeze()


def _local_property(name: str) -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    value: str | None = None if context is None else context.getLocalProperty(name)
    return value
