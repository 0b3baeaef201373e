"""Session settings that the operator needs: set and logged where the user has set nothing, never overridden."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from midstream.errors import SparkError
from midstream.spark.compat import is_connect

_logger = logging.getLogger("midstream")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
WORKER_PYTHON = "spark.sql.execution.pyspark.python"
#: After every row that goes to Python, Spark adds up the buffers of its Arrow batch to keep below this many bytes: in a
#: profile half of the processor time of handing rows over. With the largest value it does not.
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ANY_BYTES = str(2**31 - 1)
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
#: What was set by this module, so that a second query may set it again.
_OURS = "spark.midstream.shufflePartitions"
_OUR_BYTES = "spark.midstream.arrowMaxBytesPerBatch"
#: Set while a query is to start that needs what was set.
_AWAITED = "spark.midstream.awaited"


def cores(session: Any) -> int:
    """How many tasks a session runs at once."""
    if not is_connect(session):
        return int(session.sparkContext.defaultParallelism)
    # A client cannot ask for the parallelism, but a range is cut by it.
    return int(session.range(1 << 20).selectExpr("spark_partition_id() AS p").distinct().count())


def prepare(session: Any, partitions: int | None, narrow: bool = False, is_to_start: bool = True) -> int:
    """Set what is missing; the number of partitions to use.

    `narrow` is whether all columns that travel have values of a fixed size, so that the limit on an Arrow batch's rows
    limits its bytes as well. `is_to_start` is whether the join is one of a query that starts, after which `put_back` is
    called.
    """
    given = {row.key: row.value for row in session.sql("SET").collect()}
    chosen = cores(session) if partitions is None else partitions
    if given.get(PROVIDER, ROCKSDB) != ROCKSDB:
        raise SparkError(
            f"spark: {PROVIDER} is {given[PROVIDER]}, but stateful operators in Python need {ROCKSDB}; "
            "unset it or set it to that"
        )
    if given.get(WATERMARK_POLICY, "min").lower() != "min":
        raise SparkError(
            f"spark: {WATERMARK_POLICY} is {given[WATERMARK_POLICY]}, but a join needs the smallest of its streams' "
            "watermarks: with another the rows of the slower streams are late; unset it or set it to min"
        )
    wanted = {PROVIDER: ROCKSDB, CHANGELOG: "true", SHUFFLE_PARTITIONS: str(chosen)}
    missing = {name: value for name, value in wanted.items() if name not in given}
    if given.get(SHUFFLE_PARTITIONS) is not None and given[SHUFFLE_PARTITIONS] == given.get(_OURS):
        if given[_OURS] != str(chosen):
            missing[SHUFFLE_PARTITIONS] = str(chosen)
            if _AWAITED in given:
                _logger.warning(
                    "midstream: a join for %s partitions was made whose query has not started; if it starts now, its "
                    "new checkpoint gets %d. Start each query before the next join is made",
                    given[_OURS],
                    chosen,
                )
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
    if is_to_start:
        session.conf.set(_AWAITED, "true")
    missing |= _bytes_limit(session, given, narrow)
    for name, value in missing.items():
        session.conf.set(name, value)
    python = _set_worker_python(session, given)
    said = [f"{name}={value}" for name, value in missing.items()] + python
    if said:
        _logger.info("midstream: set for this session: %s", ", ".join(said))
    return chosen


def put_back(session: Any) -> None:
    """Undo the settings that only the start of a join's query needed, so that they do not affect other queries.

    The settings of the state store stay: a query that is started again from the same DataFrame needs them.
    """
    said = []
    session.conf.unset(_AWAITED)
    for name, mark in ((SHUFFLE_PARTITIONS, _OURS), (ARROW_BYTES, _OUR_BYTES)):
        ours = session.conf.get(mark, None)
        if ours is not None:
            if session.conf.get(name, None) == ours:
                session.conf.unset(name)
                said.append(name)
            session.conf.unset(mark)
    if said:
        _logger.info("midstream: the query has started; put back for this session: %s", ", ".join(said))


def _bytes_limit(session: Any, given: dict[str, str], narrow: bool) -> dict[str, str]:
    """Lift the limit on an Arrow batch's bytes if the limit on its rows suffices; else undo our own setting."""
    rows_are_enough = narrow and ARROW_ROWS not in given
    if rows_are_enough and ARROW_BYTES not in given:
        session.conf.set(_OUR_BYTES, ANY_BYTES)
        return {ARROW_BYTES: ANY_BYTES}
    if not rows_are_enough and _OUR_BYTES in given and given.get(ARROW_BYTES) == given[_OUR_BYTES]:
        session.conf.unset(ARROW_BYTES)
        session.conf.unset(_OUR_BYTES)
    return {}


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
