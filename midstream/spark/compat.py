"""Where PySpark's versions differ, and the parts of PySpark in use that are not public.

Midstream runs on PySpark 4.1, 4.2 and 4.3. A new version is tried by ``make test-versions``; what it breaks is mended
here. What a version lacks is refused by name:

======================================================= =====
``transformWithState`` for rows                          4.1
``to_arrow_schema`` with the zone as an argument         4.2
another number of partitions for a checkpoint            4.2
names of sources, for source evolution                   4.2
a checkpoint keeps its format, whatever the session says 4.3
======================================================= =====
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import subprocess
from typing import IO, Any

import pyarrow as pa
import pyspark
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.listener import JStreamingQueryListener, QueryProgressEvent, StreamingQueryListener

from midstream.errors import SparkError
from midstream.spark.task import CHECKPOINT_FORMAT

OLDEST = "4.1"
#: With this setting every source of a query must have a name, and may move to another place in it.
SOURCE_EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_END_SECONDS = 20.0


# Versions ------------------------------------------------------------------------------------------------------------


def check_version(session: Any) -> None:
    """Refuse a session that cannot run a join. With Spark Connect, both client and server are checked."""
    for what, version in {"PySpark": pyspark.__version__, "Spark": session.version}.items():
        if is_older(version, OLDEST):
            raise SparkError(f"spark: {what} is {version}, but joins on Spark need {OLDEST} or newer; install one")


def is_older(version: str, wanted: str) -> bool:
    """Whether a version is before another, by their first two numbers.

    >>> is_older("4.1.0-preview2", "4.1"), is_older("4.2.1", "4.10")
    (False, True)
    """
    numbers, limit = ([int(number) for number in re.findall(r"\d+", text)[:2]] for text in (version, wanted))
    return numbers < limit


def is_connect(session: Any) -> bool:
    """Whether a session is a Spark Connect client."""
    return type(session).__module__.startswith("pyspark.sql.connect")


# Schemas -------------------------------------------------------------------------------------------------------------

_converted: Any = to_arrow_schema
# Up to 4.1 a timestamp is always of UTC; later it has no zone unless one is given.
_IN_UTC = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def to_arrow(schema: Any) -> pa.Schema:
    """A schema of Spark as Arrow's; timestamps are of UTC, whatever the session's zone is."""
    return _converted(schema, **_IN_UTC)


def from_arrow(schema: pa.Schema) -> Any:
    """A schema of Arrow as Spark's; a timestamp without zone stays one."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


# Plans ---------------------------------------------------------------------------------------------------------------


def plan_of_frame(frame: Any) -> str:
    """The plan of a DataFrame as text, a node a line."""
    if hasattr(frame, "_jdf"):
        return str(frame._jdf.queryExecution().analyzed().toString())
    return str(frame._explain_string(extended=True))


# Places --------------------------------------------------------------------------------------------------------------


def qualified(session: Any, path: str) -> str:
    """A path as Spark takes it: one without a scheme is one of Hadoop's default file system, which need not be local.

    What that is for a server, a client of Connect cannot know.
    """
    if is_connect(session) or ":" in path.partition("/")[0]:
        return path
    files = session._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS")
    return path if not files or files.startswith("file:") else f"{files.rstrip('/')}/{path.lstrip('/')}"


# Queries that have started -------------------------------------------------------------------------------------------


def _execution(session: Any, query: str) -> Any:
    """The JVM's side of a query that has started in a classic session."""
    return session.streams.get(query)._jsq.streamingQuery()


def plan_of_query(session: Any, query: str) -> str:
    """The plan of a query, as text, a node a line."""
    return str(_execution(session, query).analyzedPlan().toString())


def used_checkpoint(session: Any, query: str) -> str | None:
    """Where the checkpoint of a query is; None if no batch has ended in it."""
    checkpoint = str(_execution(session, query).resolvedCheckpointRoot())
    commits = session._jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/commits")
    files = commits.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return checkpoint if files.exists(commits) and len(files.listStatus(commits)) else None


def fail_query(session: Any, query: str, reason: str) -> None:
    """Make a query fail before its next batch, as a background error of a batch would."""
    problem = session._jvm.java.lang.IllegalStateException(reason)
    _execution(session, query).errorNotifier().markError(problem)


# Sources and checkpoints ---------------------------------------------------------------------------------------------


def name_source(session: Any, reader: Any, name: str) -> Any:
    """Give a source its name, where the session asks for names; a version without names does not know the setting."""
    if hasattr(reader, "name") and session.conf.get(SOURCE_EVOLUTION, "false") == "true":
        return reader.name(name)
    return reader


def repartition_checkpoint(session: Any, checkpoint: str, partitions: int) -> None:
    """Spread the state of a stopped query over another number of partitions."""
    if is_connect(session):
        raise SparkError("repartition: a Spark Connect session cannot do this; use a classic session")
    manager = getattr(session, "_streamingCheckpointManager", None)
    if manager is None:
        raise SparkError(f"repartition: Spark {session.version} cannot do this; use Spark 4.2 or newer")
    given = str(session.conf.get(CHECKPOINT_FORMAT))
    session.conf.set(CHECKPOINT_FORMAT, checkpoint_format(session, checkpoint))
    try:
        manager.repartition(checkpoint, partitions)
    finally:
        session.conf.set(CHECKPOINT_FORMAT, given)


def start_state_stores(session: Any) -> None:
    """Start the service that state stores look for on the driver. With Spark 4.1 only a streaming query starts it.

    A classic session starts it with its manager of streaming queries, which is made when it is first asked for.
    """
    _ = session.streams


def checkpoint_format(session: Any, checkpoint: str) -> str:
    """The format of a checkpoint's state, which its last commit tells."""
    commits = session.read.text(f"{checkpoint.rstrip('/')}/commits", wholetext=True)
    last = commits.selectExpr("cast(_metadata.file_name AS bigint) AS batch", "value").orderBy("batch").tail(1)
    return str(last[0].value.split("\n", 1)[0].removeprefix("v")) if last else "1"


# Listeners -----------------------------------------------------------------------------------------------------------


class _TakesProgressAsText(JStreamingQueryListener):
    """What the JVM calls in a classic session: it takes the progress of a batch as one text.

    PySpark's own asks for it piece by piece, and for the class that makes rows of metrics by a name that the JVM looks
    for in all its archives: 0.3 seconds of processor time a batch.
    """

    def onQueryProgress(self, jevent: Any) -> None:
        progress = json.loads(jevent.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": progress}))


class QuickListener(StreamingQueryListener):
    """A listener that costs little per batch. In Spark 4.1 it gets sources' offsets as text in Python's notation."""

    _called: Any = None

    @property
    def _jlistener(self) -> Any:
        """The JVM's side of it, which a classic session asks for."""
        if self._called is None:
            jvm: Any = SparkContext._jvm
            self._called = jvm.PythonStreamingQueryListenerWrapper(_TakesProgressAsText(self))
        return self._called


# The JVM -------------------------------------------------------------------------------------------------------------


def has_jvm() -> bool:
    """Whether this process has started a JVM; it has at most one."""
    return SparkContext._gateway is not None


def start_jvm(conf: SparkConf, log: IO[bytes]) -> Any:
    """A JVM whose output goes to a log; the gateway to it."""
    launch: Any = java_gateway.launch_gateway  # what a context calls itself, but without a place for output
    return launch(conf, {"stdout": log, "stderr": log})


def end_jvm(gateway: Any) -> None:
    """Stop the session and wait until the JVM is gone, so that nobody writes into its folders any more."""
    # After an interrupt the connection may be of no use; the JVM ends all the same.
    with contextlib.suppress(Exception):
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
