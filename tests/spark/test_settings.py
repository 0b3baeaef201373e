"""What the operator needs from a session: set where it is missing, said once, never overridden."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import midstream as ms
import midstream.spark
from midstream.spark.settings import (
    ANY_BYTES,
    ARROW_BYTES,
    ARROW_ROWS,
    CHANGELOG,
    PROVIDER,
    ROCKSDB,
    SHUFFLE_PARTITIONS,
    cores,
    prepare,
    put_back,
)

from . import streams
from .streams import SECOND, Input

TEXT = streams.join_text({"a": SECOND, "b": SECOND})


@pytest.fixture
def session(spark: Any) -> Any:
    """A session in which nothing was set yet."""
    return spark.newSession()


def said(caplog: pytest.LogCaptureFixture, what: str, level: int = logging.INFO) -> list[str]:
    """The lines of a level that speak of something."""
    told = [record.getMessage() for record in caplog.records if record.name == "midstream" and record.levelno == level]
    return [line for line in told if what in line]


def test_what_is_missing_is_set_and_said_in_one_line(
    session: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frames = Input({"a": [[(1, 1, 1)]], "b": [[(1, 1, 1)]]}).frames(session, tmp_path)
    with caplog.at_level(logging.INFO, "midstream"):
        ms.spark.sql(TEXT, frames, "ts", partitions=3)
        ms.spark.sql(TEXT, frames, "ts", partitions=3)
    assert session.conf.get(PROVIDER) == ROCKSDB
    assert session.conf.get(CHANGELOG) == "true"
    assert session.conf.get(SHUFFLE_PARTITIONS) == "3"
    (line,) = said(caplog, "spark.sql")
    assert line.startswith("midstream: set for this session: ") and "\n" not in line
    assert all(f"{name}=" in line for name in (PROVIDER, CHANGELOG, SHUFFLE_PARTITIONS))


def test_as_many_partitions_as_cores(session: Any) -> None:
    assert cores(session) == 2 == prepare(session, None)
    assert session.conf.get(SHUFFLE_PARTITIONS) == "2"


def test_what_we_set_may_be_set_again(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning: a join for the number before would get the new one, if its query started now."""
    with caplog.at_level(logging.WARNING, "midstream"):
        for partitions in (2, 5, 5, 1):
            assert prepare(session, partitions) == partitions
            assert session.conf.get(SHUFFLE_PARTITIONS) == str(partitions)
    told = said(caplog, "whose query has not started", logging.WARNING)
    assert ["for 2 partitions" in told[0], "for 5 partitions" in told[1]] == [True, True] and len(told) == 2


def test_a_join_that_does_not_start_is_not_waited_for(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As that of batch DataFrames, or one whose query has started."""
    with caplog.at_level(logging.WARNING, "midstream"):
        prepare(session, 2, is_to_start=False)
        prepare(session, 5)
        put_back(session)
        prepare(session, 3)
    assert not said(caplog, "whose query has not started", logging.WARNING)


def test_what_the_user_has_set_stays(session: Any, caplog: pytest.LogCaptureFixture) -> None:
    session.conf.set(SHUFFLE_PARTITIONS, "7")
    session.conf.set(CHANGELOG, "false")
    with caplog.at_level(logging.INFO, "midstream"):
        assert prepare(session, 2) == 2
    assert (session.conf.get(SHUFFLE_PARTITIONS), session.conf.get(CHANGELOG)) == ("7", "false")
    (warning,) = said(caplog, SHUFFLE_PARTITIONS, logging.WARNING)
    assert f"{SHUFFLE_PARTITIONS} is 7; 2 cells use 2 of these partitions" in warning


def test_what_the_user_sets_after_us_stays(session: Any) -> None:
    prepare(session, 2)
    session.conf.set(SHUFFLE_PARTITIONS, "9")
    prepare(session, 4)
    assert session.conf.get(SHUFFLE_PARTITIONS) == "9"


def set_in(session: Any) -> dict[str, str]:
    return {row.key: row.value for row in session.sql("SET").collect()}


def test_numbers_travel_without_a_limit_on_bytes(session: Any, tmp_path: Path) -> None:
    """Rows of a fixed size are limited by their number; a text that nobody reads does not travel."""
    frames = Input({"a": [[(1, 1, 1)]], "b": [[(1, 1, 1)]]}).frames(session, tmp_path)
    with_text = {name: frame.withColumn("text", F.lit("long")) for name, frame in frames.items()}
    ms.spark.sql(TEXT, with_text, "ts", partitions=2)
    assert set_in(session)[ARROW_BYTES] == ANY_BYTES
    ms.spark.sql(TEXT.replace("SELECT ", "SELECT a.text, "), with_text, "ts", partitions=2)
    assert ARROW_BYTES not in set_in(session)
    ms.spark.sql(TEXT.replace("WHERE ", "WHERE b.text <> 'x' AND "), with_text, "ts", partitions=2)
    assert ARROW_BYTES not in set_in(session)
    ms.spark.sql(TEXT, frames, "ts", partitions=2)
    assert set_in(session)[ARROW_BYTES] == ANY_BYTES


@pytest.mark.parametrize("narrow", [True, False])
def test_limits_of_the_user_stay(session: Any, narrow: bool) -> None:
    prepare(session, 2, narrow=True)
    session.conf.set(ARROW_BYTES, "1000000")
    prepare(session, 2, narrow)
    assert session.conf.get(ARROW_BYTES) == "1000000"


def test_no_limit_on_bytes_needs_one_on_rows(session: Any) -> None:
    session.conf.set(ARROW_ROWS, "0")
    prepare(session, 2, narrow=True)
    assert ARROW_BYTES not in set_in(session)


def test_the_limit_on_bytes_comes_back_when_the_user_lifts_that_on_rows(session: Any) -> None:
    prepare(session, 2, narrow=True)
    assert set_in(session)[ARROW_BYTES] == ANY_BYTES
    session.conf.set(ARROW_ROWS, "0")
    prepare(session, 2, narrow=True)
    assert ARROW_BYTES not in set_in(session)


def test_another_state_store_is_an_error_at_once(session: Any) -> None:
    memory = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    session.conf.set(PROVIDER, memory)
    with pytest.raises(
        ms.SparkError, match=f"{PROVIDER} is {memory}, but .* need {ROCKSDB}; unset it or set it to that"
    ):
        prepare(session, 2)
    assert SHUFFLE_PARTITIONS not in {row.key for row in session.sql("SET").collect()}


@pytest.mark.parametrize("partitions", [0, -1, "3"])
def test_nothing_is_set_for_a_query_that_cannot_work(session: Any, tmp_path: Path, partitions: Any) -> None:
    frames = Input({"a": [[(1, 1, 1)]], "b": [[(1, 1, 1)]]}).frames(session, tmp_path)
    with pytest.raises(ms.MidstreamError):
        ms.spark.sql(TEXT, frames, "ts", partitions=partitions)
    with pytest.raises(ms.MidstreamError):
        ms.spark.sql(TEXT.replace("a.k", "a.nothing"), frames, "ts", partitions=3)
    assert {PROVIDER, SHUFFLE_PARTITIONS}.isdisjoint(row.key for row in session.sql("SET").collect())


def test_workers_run_this_interpreter(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    context = session.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3")
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    prepare(session, 2)
    assert context.pythonExec == "python3", "the user has chosen"
    monkeypatch.delenv("PYSPARK_PYTHON")
    prepare(session, 2)
    assert context.pythonExec == sys.executable


def test_more_shuffle_partitions_than_cells_give_the_same(session: Any, tmp_path: Path) -> None:
    """And fewer: cells then share a partition."""
    windows: dict[str, int | None] = {"a": SECOND, "b": 2 * SECOND}
    rows = [
        [(k, 10 * k + at, (3 * number + at) * SECOND // 2) for k in range(9) for at in range(4)] for number in (0, 1)
    ]
    given = Input({"a": rows, "b": rows[::-1]})
    frames = given.frames(session, tmp_path)
    session.conf.set(SHUFFLE_PARTITIONS, "2")
    frame = ms.spark.sql(streams.join_text(windows), frames, "ts", streams.LONG, partitions=3)
    ran = streams.run(frame, tmp_path / "checkpoint")
    streams.check(ran, streams.expect(given, windows))
    assert set(ran.reports()[0]) == {0, 1, 2}


# Put back ------------------------------------------------------------------------------------------------------------


def test_settings_are_put_back_when_the_query_has_started(
    session: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before `start` returns; not by the start of another query, nor while another join is to start."""
    before = set_in(session)
    frames = Input({name: [[(1, 1, 1)]] for name in ("a", "b")}).frames(session, tmp_path)
    first = ms.spark.sql(TEXT, frames, "ts", partitions=3)
    second = ms.spark.sql(TEXT, frames, "ts", partitions=1)

    def start(frame: Any, name: str) -> set[str]:
        """What is set after the start of a query, which is then stopped."""
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
        query = writer.start()
        found = set(set_in(session))
        query.stop()
        return found

    needed = {SHUFFLE_PARTITIONS, ARROW_BYTES}
    with caplog.at_level(logging.INFO, "midstream"):
        assert needed <= start(frames["a"], "other")
        assert needed <= start(first, "first")
        after = start(second, "second")
    assert needed.isdisjoint(after)
    assert after - before.keys() <= {PROVIDER, CHANGELOG}
    (line,) = said(caplog, "put back for this session")
    assert all(name in line for name in needed)


def test_a_second_start_of_a_dataframe_is_warned_of(
    session: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frames = Input({name: [[(1, 1, 1)]] for name in ("a", "b")}).frames(session, tmp_path)
    joined = ms.spark.sql(TEXT, frames, "ts", partitions=1)
    with caplog.at_level(logging.WARNING, "midstream"):
        for name in ("first", "second"):
            writer = joined.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
            writer.start().stop()
            assert len(said(caplog, "was started before", logging.WARNING)) == (name == "second")


def test_what_the_user_has_changed_meanwhile_is_not_put_back(session: Any) -> None:
    prepare(session, 3, True)
    session.conf.set(SHUFFLE_PARTITIONS, "9")
    put_back(session)
    put_back(session)
    assert session.conf.get(SHUFFLE_PARTITIONS) == "9"
    assert ARROW_BYTES not in set_in(session)
    assert not any(name.startswith("spark.midstream") for name in set_in(session))
