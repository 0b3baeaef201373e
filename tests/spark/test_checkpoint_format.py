"""The state store's format is Spark's to choose, or the user's, and a checkpoint goes on in its own.

A driver may end after a sink has committed a batch and before the query has: then the sink is ahead, and in Spark's own
format the query goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.compat import checkpoint_format, is_older
from midstream.spark.settings import CHANGELOG, prepare
from midstream.spark.task import CHECKPOINT_FORMAT

from .conftest import since
from .streams import LONG, SECOND, Input, expect, join_text, rows_of, run, stream

pytestmark = pytest.mark.versions

WINDOWS = {"a": 30 * SECOND, "b": 30 * SECOND}
ROWS = {
    name: [[((5 * at + batch) % 7, at, (10 * batch + at) * SECOND) for at in range(8)] for batch in range(6)]
    for name in WINDOWS
}


def keeps_format(spark: Any) -> bool:
    """Whether a query goes on in the format of its checkpoint's state, whatever format the session asks for."""
    return not is_older(spark.version, "4.3")


def test_the_format_is_left_to_spark_and_the_user(spark: Any) -> None:
    session = spark.newSession()
    prepare(session, 2)
    assert session.conf.get(CHECKPOINT_FORMAT) == "1"
    session.conf.set(CHECKPOINT_FORMAT, "2")
    prepare(session, 2)
    assert session.conf.get(CHECKPOINT_FORMAT) == "2"


@since("4.2")
@pytest.mark.slow
@pytest.mark.parametrize("before", ["1", "2"])
def test_a_checkpoint_keeps_its_format(spark: Any, tmp_path: Path, before: str) -> None:
    """It is made in one format, goes on in a session that asks for the other, and changes its number of partitions."""
    if before == "2" and not keeps_format(spark):
        pytest.skip("this Spark goes by the session's format")
    checkpoint = tmp_path / "checkpoint"
    total: Any = None
    frames: dict[str, Any] = {}
    for at, partitions in enumerate([2, 2, 1]):
        session = spark.newSession()
        other = "2" if before == "1" and keeps_format(spark) else "1"
        asked = before if at == 0 else other
        session.conf.set(CHECKPOINT_FORMAT, asked)
        session.conf.set(CHANGELOG, "true")
        part = Input({name: batches[2 * at : 2 * at + 2] for name, batches in ROWS.items()})
        part.write(tmp_path, first=2 * at)
        if at == 2:
            ms.spark.repartition(str(checkpoint), partitions, session)
            assert session.conf.get(CHECKPOINT_FORMAT) == asked
        frames = {name: stream(session, tmp_path / name) for name in WINDOWS}
        joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=partitions, cells=2)
        ran = run(joined, checkpoint)
        total = ran.rows if total is None else total + ran.rows
        assert checkpoint_format(session, str(checkpoint)) == before
        names = [path.name for path in (checkpoint / "state").rglob("*.changelog")]
        assert names and all(("_" in name) == (before != "1") for name in names)
    assert total == expect(Input(ROWS), WINDOWS).rows


def test_a_query_goes_on_when_its_sink_is_ahead(spark: Any, tmp_path: Path) -> None:
    """Spark's sink for files passes over a batch that it has: no task runs, and nothing is stored for it again."""
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    for half in range(2):
        part = Input({name: batches[3 * half : 3 * half + 3] for name, batches in ROWS.items()})
        part.write(tmp_path, first=3 * half)
        session = spark.newSession()
        frames = {name: stream(session, tmp_path / name) for name in WINDOWS}
        joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=2)
        writer = joined.writeStream.format("parquet").trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start(str(output)).awaitTermination()
        if half == 0:
            last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
            assert (output / "_spark_metadata" / last.name).exists()
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink()
    assert rows_of(spark.read.parquet(str(output)).toArrow()) == expect(Input(ROWS), WINDOWS).rows
