"""A run of the driver program, seen from outside: its processes, how far it is, and what it has written.

Every process of a run carries a mark in its environment, by which it is found wherever it hangs in the process tree:
hosts are children of nobody, and so are workers whose daemon was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.faults.job import STREAMS

_MARK = "MIDSTREAM_FAULT_RUN"
_ROOT = Path(__file__).parents[3]
_SECOND = 1_000_000
_EPOCH = 1_700_000_000 * _SECOND
#: A machine that does other things as well takes its time.
PATIENCE = 300.0

#: Each start of a run takes another one.
_DEMANDS = ("off", "on", "auto")
KINDS = ("driver", "jvm", "worker", "daemon", "host", "template", "executor")


def need_java() -> None:
    """Skip without Java, except where the tests have to be complete."""
    if shutil.which("java") or os.environ.get("JAVA_HOME"):
        return
    if os.environ.get("CI") == "true":
        pytest.fail("Java is missing: Spark's tests need Java 17 or 21")
    pytest.skip("Java is missing: Spark's tests need Java 17 or 21")


def until(condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = PATIENCE) -> Any:
    """Wait for other processes; what the condition gave when it held. `what` may tell how things stand at the end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds:.0f} s: {what if isinstance(what, str) else what()}")


@dataclass(frozen=True)
class Kill:
    kind: str
    is_in_batch: bool


class Run:
    """A folder with input, checkpoint and output, and the driver program over it, started as often as it takes."""

    def __init__(
        self, master: str, files: int, rows: int = 2_000, seed: int = 0, settings: Mapping[str, str] | None = None
    ):
        need_java()
        self.master = master
        self._settings = [text for name, value in (settings or {}).items() for text in ("--set", f"{name}={value}")]
        # Paths of sockets have to be short, so pytest's folders will not do.
        self.folder = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
        self.journal_path = self.folder / "journal.jsonl"
        self.starts = 0
        self.kills: list[Kill] = []
        self._mark = uuid.uuid4().hex
        self._driver: subprocess.Popen[bytes] | None = None
        (self.folder / "scratch").mkdir()
        write_input(self.folder / "input", files, rows, seed)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Starting and ending ---------------------------------------------------------------------------------------------

    def start(self, *options: str) -> None:
        assert not self.processes(), "the run before must be over"
        self.starts += 1
        own = {
            _MARK: self._mark,
            "TMPDIR": str(self.folder),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(_ROOT),
        }
        command = ["-m", "tests.spark.faults.job", "--folder", str(self.folder), "--master", self.master]
        command += ["--demand", _DEMANDS[self.starts % len(_DEMANDS)]]
        with (self.folder / "log").open("ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, *command, *self._settings, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env=os.environ | own,
                start_new_session=True,
            )

    @property
    def driver(self) -> subprocess.Popen[bytes]:
        assert self._driver is not None
        return self._driver

    def is_over(self) -> bool:
        """Whether the driver program has ended, in whatever way."""
        return self._driver is None or self._driver.poll() is not None

    def end(self) -> None:
        """Kill whatever is left."""
        for _ in range(200):
            left = self.processes()
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            if self._driver is not None:
                self._driver.poll()
            if not left:
                return
            time.sleep(0.05)

    def finish(self) -> None:
        """Go on until all input is processed, over as many starts as it takes."""
        for _ in range(5):
            if self.is_over():
                self.await_end_of_all()
                self.start()
            until(self.is_over, "end of the job", 3 * PATIENCE)
            if self.driver.returncode == 0:
                return
        raise AssertionError(f"the job does not end well:\n{self.log()}")

    def tell(self, wanted: str) -> str:
        """What was waited for, which processes there are, how far the query is, and what it has said lately."""
        parts = [f"{self._kind(process)} {process.pid} {process.status()}" for process in self.processes()]
        return f"{wanted}; {self.starts} starts, {self.committed()} batches, {parts}\n{self.log()}"

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-6000:]

    def journal(self, event: str | None = None) -> list[dict[str, Any]]:
        if not self.journal_path.exists():
            return []
        lines = self.journal_path.read_text().split("\n")[:-1]
        told = [json.loads(line) for line in lines]
        return told if event is None else [line for line in told if line["event"] == event]

    # Processes -------------------------------------------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        return list(self._marked())

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == self._mark:
                    yield process
            except psutil.Error:
                continue

    def parts(self, kind: str) -> list[psutil.Process]:
        """The processes that play a part."""
        found = []
        for process in self._marked():
            with contextlib.suppress(psutil.Error):
                if self._kind(process) == kind:
                    found.append(process)
        return found

    def _kind(self, process: psutil.Process) -> str:
        if process.pid == self.driver.pid:
            return "driver"
        command = " ".join(process.cmdline())
        if Path(process.exe()).name == "java":
            return "executor" if "CoarseGrainedExecutorBackend" in command else "jvm"
        parent = process.parent()
        if "midstream.spark.hosts" in command:
            return {"midstream-host": "host", "midstream-templ": "template"}.get(process.name(), "starting")
        if "pyspark.daemon" in command:
            return "daemon" if parent is not None and Path(parent.exe()).name == "java" else "worker"
        return "other"

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill one process of a kind; False if there is none at this moment."""
        victims = self.parts(kind)
        if not victims:
            return False
        victim = rng.choice(victims)
        is_in_batch = self.is_in_batch()
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        self.kills.append(Kill(kind, is_in_batch and self.is_in_batch()))
        return True

    def await_end_of_all(self) -> None:
        """After the end of the driver program nothing may be left."""
        until(self.is_over, "end of the driver")
        until(lambda: not self.processes(), lambda: self.tell("end of all processes"), 60)

    # How far it is ---------------------------------------------------------------------------------------------------

    def committed(self) -> int:
        """The number of committed batches."""
        return self._last("commits") + 1

    def is_in_batch(self) -> bool:
        """Whether a batch was begun and is not committed."""
        return self._last("offsets") > self._last("commits")

    def _last(self, log: str) -> int:
        path = self.folder / "checkpoint" / log
        return max((int(name) for name in os.listdir(path) if name.isdigit()), default=-1) if path.exists() else -1

    # What it has written ---------------------------------------------------------------------------------------------

    def check_output(self, name: str = "output") -> None:
        """The output is the batch join of the input: no row is missing, none is there twice."""
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for stream in STREAMS:
            files = f"{self.folder}/input/{stream}/*.parquet"
            connection.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{files}')")
        connection.execute(
            """
            CREATE TABLE expected AS
            SELECT a.k, a.v AS av, b.v AS bv, c.v AS cv,
                   greatest(a.ts, b.ts, c.ts) AS valid_from, least(a.ts, b.ts, c.ts) + INTERVAL 4 SECONDS AS valid_to
            FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k
            WHERE greatest(a.ts, b.ts, c.ts) <= least(a.ts, b.ts, c.ts) + INTERVAL 4 SECONDS
            """
        )
        files = ", ".join(f"'{path}'" for path in self._sink_files(name))
        connection.execute(f"CREATE TABLE found AS FROM read_parquet([{files}])")
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("expected", "found")]
        missing = connection.execute("FROM expected EXCEPT ALL FROM found").fetchall()
        extra = connection.execute("FROM found EXCEPT ALL FROM expected").fetchall()
        assert (len(missing), len(extra)) == (0, 0), (counts, missing[:5], extra[:5])
        assert counts[0] > 1000

    def _sink_files(self, name: str) -> list[str]:
        """The files that are committed, as whoever reads a file sink sees them; attempts that failed leave others."""
        paths = set()
        for log in (self.folder / name / "_spark_metadata").iterdir():
            if log.name.removesuffix(".compact").isdigit():
                paths |= {json.loads(line)["path"].removeprefix("file://") for line in log.read_text().split("\n")[1:]}
        return sorted(paths)


def write_input(folder: Path, files: int, rows: int, seed: int) -> None:
    """Files of two seconds of event time each, one after the other in all streams."""
    rng = np.random.default_rng(seed)
    for name in STREAMS:
        (folder / name).mkdir(parents=True)
        for number in range(files):
            times = _EPOCH + 2 * _SECOND * number + np.sort(rng.integers(0, 2 * _SECOND, rows))
            table = pa.table(
                {
                    "k": rng.integers(0, 2 * rows, rows),
                    "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                    "v": np.arange(rows) + rows * number,
                }
            )
            path = folder / name / f"{number:05}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + number,) * 2)
