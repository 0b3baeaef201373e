"""A session in this process, for commands and benchmarks that bring no session of their own."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

#: For checkpoints on a local disk, where renaming a file is atomic with either manager. Spark's default starts a shell
#: for every checkpoint file to test for symbolic links: some eighty processes a batch.
_FILES_WITHOUT_SHELL = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: How long Spark and Python wait for each other's sockets: 15 seconds are too short on a busy machine.
WORKER_SECONDS = "spark.python.authenticate.socketTimeout"


def local_session(cores: int, options: Mapping[str, str] | None = None) -> Any:
    """A quiet local session whose workers run this interpreter.

    Options that the JVM needs at its start, its memory among them, count only for the first session of a process.
    """
    from pyspark.sql import SparkSession

    logging.getLogger().addFilter(is_no_interrupt)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("midstream")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        WORKER_SECONDS: "2min",
        "spark.sql.streaming.checkpointFileManagerClass": _FILES_WITHOUT_SHELL,
    }
    for name, value in (settings | dict(options or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a record tells of something else than Ctrl-C: Py4J logs one that comes amid a call, and raises it too.

    Who has pressed the keys need not be told, least of all by a traceback.
    """
    problem = None if record.exc_info is None else record.exc_info[1]
    while problem is not None:
        if isinstance(problem, KeyboardInterrupt):
            return False
        problem = problem.__cause__ or problem.__context__
    return True
