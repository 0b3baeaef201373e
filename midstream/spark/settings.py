"""What the operator needs from a session: set where the user has not set it, said in one line, never overridden."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from midstream.errors import SparkError

_logger = logging.getLogger("midstream")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WORKER_PYTHON = "spark.sql.execution.pyspark.python"
#: What was set by this module, so that a second query may set it again.
_OURS = "spark.midstream.shufflePartitions"


def is_connect(session: Any) -> bool:
    """Whether a session is a Spark Connect client."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def cores(session: Any) -> int:
    """How many tasks a session runs at once."""
    if not is_connect(session):
        return int(session.sparkContext.defaultParallelism)
    # A client cannot ask for the parallelism, but a range is cut by it.
    return int(session.range(1 << 20).selectExpr("spark_partition_id() AS p").distinct().count())


def prepare(session: Any, partitions: int | None) -> int:
    """Set what is missing; the number of partitions to use."""
    given = {row.key: row.value for row in session.sql("SET").collect()}
    chosen = cores(session) if partitions is None else partitions
    if given.get(PROVIDER, ROCKSDB) != ROCKSDB:
        raise SparkError(
            f"spark: {PROVIDER} is {given[PROVIDER]}, but stateful operators in Python need {ROCKSDB}; "
            "unset it or set it to that"
        )
    wanted = {PROVIDER: ROCKSDB, CHANGELOG: "true", SHUFFLE_PARTITIONS: str(chosen)}
    missing = {name: value for name, value in wanted.items() if name not in given}
    if given.get(SHUFFLE_PARTITIONS) is not None and given[SHUFFLE_PARTITIONS] == given.get(_OURS):
        if given[_OURS] != str(chosen):
            missing[SHUFFLE_PARTITIONS] = str(chosen)
    elif SHUFFLE_PARTITIONS in given and int(given[SHUFFLE_PARTITIONS]) != chosen:
        _logger.warning(
            "midstream: %s is %s; %d cells use %d of these partitions, the others cost time only",
            SHUFFLE_PARTITIONS,
            given[SHUFFLE_PARTITIONS],
            chosen,
            min(chosen, int(given[SHUFFLE_PARTITIONS])),
        )
    if SHUFFLE_PARTITIONS in missing:
        session.conf.set(_OURS, str(chosen))
    for name, value in missing.items():
        session.conf.set(name, value)
    python = _set_worker_python(session, given)
    said = [f"{name}={value}" for name, value in missing.items()] + python
    if said:
        _logger.info("midstream: set for this session: %s", ", ".join(said))
    return chosen


def _set_worker_python(session: Any, given: dict[str, str]) -> list[str]:
    """Workers run the interpreter of this process, unless the user has chosen one."""
    chosen = ("PYSPARK_PYTHON" in os.environ) or "spark.pyspark.python" in given or WORKER_PYTHON in given
    if chosen or is_connect(session):
        return []  # the server of a client may be on another machine
    context = session.sparkContext
    if context.pythonExec == sys.executable or context.getConf().contains("spark.pyspark.python"):
        return []
    context.pythonExec = sys.executable
    return [f"worker python={sys.executable}"]
