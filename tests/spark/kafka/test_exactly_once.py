"""A job between topics is killed while its plan changes, and started again: every result is in the files once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest

from midstream.app import kafka_demo
from midstream.app.kafka_broker import Broker
from midstream.spark import control

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]

ROOT = Path(__file__).parents[3]
STORY = kafka_demo.Shop(rows=9_000, seed=7, parts=3)
MOST_ROWS = 1_000
PATIENCE = 480.0
_MARK = "MIDSTREAM_KAFKA_RUN"


def until(condition: Callable[[], Any], what: Callable[[], str], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what()}"
        time.sleep(0.01)


class Run:
    """The driver program over a folder, and its processes, which carry a mark in their environment."""

    def __init__(self, folder: Path, servers: str, jars: list[Path]):
        self.folder = folder
        self._mark = uuid.uuid4().hex
        self._driver: subprocess.Popen[bytes] | None = None
        self._options = ["--servers", servers, "--jars", ",".join(map(str, jars))]

    def start(self) -> None:
        assert not self.processes(), "the run before must be over"
        own = {_MARK: self._mark, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder)}
        sizes = ["--parts", str(STORY.parts), "--most-rows", str(MOST_ROWS)]
        command = [sys.executable, "-m", "tests.spark.kafka.job", "--folder", str(self.folder), *self._options, *sizes]
        with (self.folder / "log").open("ab") as log:
            self._driver = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, env=os.environ | own
            )

    @property
    def driver(self) -> subprocess.Popen[bytes]:
        assert self._driver is not None
        return self._driver

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found

    def kill(self) -> None:
        """The driver is two processes: a JVM, which runs the batches, and the Python program."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if Path(process.exe()).name == "java":
                    process.kill()
        self.driver.kill()
        self.driver.wait()
        until(lambda: not self.processes(), lambda: f"end of {self.processes()}", 60)

    def end(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._driver is not None:
            self._driver.wait()

    def finish(self) -> None:
        until(lambda: self.driver.poll() is not None, self.log)
        assert self.driver.returncode == 0, self.log()
        until(lambda: not self.processes(), lambda: f"end of {self.processes()}", 60)

    def last(self, log: str, checkpoint: str = "checkpoint") -> int:
        """The last batch that was begun (`offsets`) or is done (`commits`)."""
        folder = self.folder / checkpoint / log
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1) if folder.exists() else -1

    def is_in_batch(self) -> bool:
        assert self.driver.poll() is None, self.log()
        return self.last("offsets") > self.last("commits")

    def changes(self) -> list[tuple[str, str | None]]:
        """The plan of each cell and how far its migration is."""
        return [
            (cell_status.plan, cell_status.phase) for cell_status in control(self.folder / "control").status().values()
        ]

    def is_changing(self) -> bool:
        return (self.folder / "told").exists() and (kafka_demo.NEW_PLAN, "running") in self.changes()


@pytest.fixture
def run(broker: Broker, jars: dict[str, list[Path]]) -> Iterator[Run]:
    # Paths of sockets have to be short, so pytest's folders will not do.
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        running = Run(Path(folder), broker.address, jars["connector"])
        try:
            yield running
        finally:
            running.end()


def sink_files(results: Path) -> list[str]:
    """The files that count, as whoever reads a file sink sees them; a batch that was cut off leaves others."""
    paths = set()
    for log in (results / "_spark_metadata").iterdir():
        if log.name.removesuffix(".compact").isdigit():
            paths |= {json.loads(line)["path"].removeprefix("file://") for line in log.read_text().split("\n")[1:]}
    return sorted(paths)


def database(folder: Path) -> duckdb.DuckDBPyConnection:
    """What was sent, what the files have, and what the topic of results has."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for stream in kafka_demo.TOPICS:
        source = f"read_parquet('{folder}/input/{stream}/*.parquet')"
        rows = f"SELECT * REPLACE (make_timestamptz(ts) AS ts) FROM {source}"
        connection.execute(f"CREATE TABLE {stream} AS {rows}")
    connection.execute(f"CREATE TABLE expected AS {kafka_demo.BATCH_SQL}")
    files = ", ".join(f"'{path}'" for path in sink_files(folder / "results"))
    connection.execute(f"CREATE TABLE found AS FROM read_parquet([{files}])")
    connection.execute(f"CREATE TABLE messages AS FROM read_parquet('{folder}/messages/*.parquet')")
    return connection


def check(folder: Path) -> tuple[int, int]:
    """Every result is in the files once and in the topic at least once; how many there are of both."""
    with database(folder) as connection:

        def number(text: str) -> int:
            row = connection.execute(text).fetchone()
            assert row is not None
            return int(row[0])

        found = "SELECT * EXCLUDE (result_id) FROM found"
        assert number(f"SELECT count(*) FROM (FROM expected EXCEPT ALL {found})") == 0
        assert number(f"SELECT count(*) FROM ({found} EXCEPT ALL FROM expected)") == 0
        results, messages = number("SELECT count(*) FROM found"), number("SELECT count(*) FROM messages")
        assert number("SELECT count(DISTINCT result_id) FROM found") == results > 500
        assert number("SELECT count(DISTINCT key) FROM messages") == results
        assert number("SELECT count(*) FROM found ANTI JOIN messages ON result_id = key") == 0
        # What comes twice under one name is the same result.
        assert number("SELECT count(*) FROM (SELECT DISTINCT key, value FROM messages)") == results
        return results, messages


def forget_copying(checkpoint: Path) -> None:
    """As if the copy had been cut off after it sent everything and before it said so; only the first batch is begun.

    The last batch alone would not do: the join ends with batches that have no results.
    """
    for log, kept in (("offsets", ("metadata", "0")), ("commits", ())):
        for file in (checkpoint / log).iterdir():
            if file.name.removeprefix(".").removesuffix(".crc") not in kept:
                file.unlink()


def test_killed_and_started_again(run: Run) -> None:
    kafka_demo.write_input(STORY, run.folder / "input")
    run.start()
    until(lambda: run.is_in_batch() and run.is_changing(), run.log)
    begun = run.last("offsets")
    run.kill()
    was_in_batch = run.last("offsets") > run.last("commits")
    assert begun > 0 and not (run.folder / "messages").exists(), "it was over before it was killed"
    run.start()
    run.finish()
    assert run.last("commits") > begun + 1, "everything was joined before the kill"
    assert {plan for plan, _ in run.changes()} == {kafka_demo.NEW_PLAN}
    results, messages = check(run.folder)
    print(f"killed in batch {begun} ({was_in_batch=}): {results} results in the files, {messages} messages")

    forget_copying(run.folder / "checkpoint-copy")
    run.start()
    run.finish()
    again, more = check(run.folder)
    print(f"copied again: {again} results in the files, {more} messages")
    assert again == results and more == messages + results
