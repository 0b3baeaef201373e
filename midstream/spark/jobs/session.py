"""A session in this process, for commands and benchmarks that bring no session of their own."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
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
    with quiet_interrupts():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextlib.contextmanager
def quiet_interrupts() -> Iterator[None]:
    """Make a session inside, and Ctrl-C stays what it was before: one `KeyboardInterrupt`, of which nobody logs.

    A SparkContext brings a handler that cancels all jobs first. If the signal comes amid a call to the JVM, it does so
    over the connection of that very call, which breaks both.
    """
    logging.getLogger().addFilter(is_no_interrupt)
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


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
