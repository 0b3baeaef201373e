"""The state store's format: new checkpoints tell attempts apart where Spark can, old ones go on as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.compat import checkpoint_format, keeps_checkpoint_format
from midstream.spark.settings import ATTEMPTS_APART, CHANGELOG, prepare
from midstream.spark.task import CHECKPOINT_FORMAT

from .conftest import since
from .streams import LONG, SECOND, Input, expect, join_text, run

pytestmark = pytest.mark.versions

WINDOWS = {"a": 30 * SECOND, "b": 30 * SECOND}
ROWS = {
    name: [[((5 * at + batch) % 7, at, (10 * batch + at) * SECOND) for at in range(8)] for batch in range(6)]
    for name in WINDOWS
}


def newest(spark: Any) -> str:
    return ATTEMPTS_APART if keeps_checkpoint_format(spark) else "1"


def test_new_checkpoints_tell_attempts_apart(spark: Any) -> None:
    session = spark.newSession()
    prepare(session, 2)
    assert session.conf.get(CHECKPOINT_FORMAT) == newest(spark)
    session.conf.set(CHECKPOINT_FORMAT, "1")
    prepare(session, 2)
    assert session.conf.get(CHECKPOINT_FORMAT) == "1", "the user has chosen"


@since("4.2")
@pytest.mark.slow
@pytest.mark.parametrize("before", ["1", ATTEMPTS_APART])
def test_a_checkpoint_keeps_its_format(spark: Any, tmp_path: Path, before: str) -> None:
    """It is made in one format, goes on in a session that asks for the other, and changes its number of partitions."""
    if before > newest(spark):
        pytest.skip("this Spark goes by the session's format")
    checkpoint = tmp_path / "checkpoint"
    total: Any = None
    frames: dict[str, Any] = {}
    for at, partitions in enumerate([2, 2, 1]):
        session = spark.newSession()
        asked = before if at == 0 else {"1": newest(spark), "2": "1"}[before]
        session.conf.set(CHECKPOINT_FORMAT, asked)
        session.conf.set(CHANGELOG, "true")
        part = Input({name: batches[2 * at : 2 * at + 2] for name, batches in ROWS.items()})
        part.write(tmp_path, first=2 * at)
        if at == 2:
            ms.spark.repartition(str(checkpoint), partitions, session)
            assert session.conf.get(CHECKPOINT_FORMAT) == asked
        frames = {name: _stream(session, tmp_path / name) for name in WINDOWS}
        joined = ms.spark.sql(join_text(WINDOWS), frames, "ts", LONG, partitions=partitions, cells=2)
        ran = run(joined, checkpoint)
        total = ran.rows if total is None else total + ran.rows
        assert checkpoint_format(session, str(checkpoint)) == before
        names = [path.name for path in (checkpoint / "state").rglob("*.changelog")]
        assert names and all(("_" in name) == (before != "1") for name in names)
    assert total == expect(Input(ROWS), WINDOWS).rows


def _stream(session: Any, folder: Path) -> Any:
    schema = session.read.parquet(str(folder)).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
