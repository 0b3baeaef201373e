"""The job of a soak seen from outside: its process, its input, its migrations and its ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstream.app.soak_picture import Measurements
from midstream.app.soak_processes import MARK, find_processes, measure_memory
from midstream.engine.executors.tree import Tree
from midstream.errors import SparkError
from midstream.migrate import STRATEGIES
from midstream.migrate.strategies.pause_drain_resume import PauseDrainResume

_GONE_SECONDS = 60.0
_END_SECONDS = 900.0
_MOST_BACKLOG = 20
#: Ends that nobody has caused; more of them, and the run is given up.
_MOST_FAILURES = 3
#: What is killed, in this order, again and again: all processes at once, or one of a kind.
_VICTIMS = ("everything", "workers", "everything", "hosts")
_PLANS = ("((a b) (c d))", "(((d c) b) a)", "(a (b (c d)))", "(((a c) b) d)", "(((a b) c) d)")


@dataclass(frozen=True)
class Course:
    """How long a soak takes and what happens in it; seconds, and minutes in all."""

    minutes: float = 20.0
    feed_every: float = 3.0
    migrate_every: float = 60.0
    kill_every: float = 240.0
    rows: int = 10_000
    seed: int = 0


def _changes() -> Iterator[tuple[str, str]]:
    """Plans in turn, each time by another strategy, of all that can make these changes."""
    strategies = [
        strategy.name for strategy in STRATEGIES if strategy.suits(Tree()) and strategy.name != PauseDrainResume.name
    ]
    for turn in itertools.count():
        for place, plan in enumerate(_PLANS):
            yield plan, strategies[(place + turn) % len(strategies)]


class Soak:
    """One run: the job's process, its input, and what is done to it when."""

    def __init__(self, course: Course, folder: Path, log: Path):
        from midstream.app.soak_streams import Feed
        from midstream.spark.commands.control_folder import ControlFolder

        self.course = course
        self.feed = Feed(folder / "input", course.rows, course.seed)
        self.measured = Measurements(time.time())
        self.starts = 0
        self.failures = 0
        self.commands: list[Any] = []
        self._folder = folder
        self._log = log
        self._mark = uuid.uuid4().hex
        self._rng = random.Random(course.seed)
        self._victims = itertools.cycle(_VICTIMS)
        self._changes = _changes()
        self._job: subprocess.Popen[bytes] | None = None
        self._read = 0
        ControlFolder(str(folder / "control")).make()
        (folder / "scratch").mkdir()
        self.feed.write_next()

    # The job's process -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the job, once all processes of its last run are gone."""
        self._await_nothing_left()
        self.starts += 1
        with self._log.open("ab") as log:
            self._job = subprocess.Popen(
                [sys.executable, "-m", "midstream.spark.jobs.soak", str(self._folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {MARK: self._mark, "PYSPARK_PYTHON": sys.executable},
                start_new_session=True,
            )

    def keep_running(self) -> None:
        """Start the job again if it has ended; an end that nobody has caused is a failure."""
        assert self._job is not None
        if self._job.poll() is None:
            return
        if self._job.returncode != -signal.SIGKILL:
            self.failures += 1
            if self.failures > _MOST_FAILURES:
                raise SparkError(f"soak: the job has failed {self.failures} times; see {self._log}")
        self.start()

    def kill(self) -> None:
        """Kill what is next."""
        victim = next(self._victims)
        found = [part for part in find_processes(self._mark) if victim in ("everything", part.kind)]
        chosen = found if victim == "everything" or not found else [self._rng.choice(found)]
        if sum(part.kill() for part in chosen):
            self.measured.kills.append((time.time(), victim))

    def kill_all(self) -> None:
        """End everything, whatever state it is in."""
        for part in find_processes(self._mark):
            part.kill()
        if self._job is not None:
            self._job.wait()

    def _await_nothing_left(self) -> None:
        deadline = time.monotonic() + _GONE_SECONDS
        while any(True for _ in find_processes(self._mark)):
            if time.monotonic() > deadline:
                raise SparkError(f"soak: processes of the job are left: {list(find_processes(self._mark))}")
            time.sleep(0.1)

    # What happens to it ----------------------------------------------------------------------------------------------

    def write_input(self) -> None:
        """The next file of each stream, unless the job is far behind."""
        if self.feed.written - self.processed < _MOST_BACKLOG:
            self.feed.write_next()

    def migrate(self) -> None:
        """Have the job change to the next plan, by the next strategy, at its next trigger.

        Not before its first batch has ended: a new checkpoint obeys no commands there.
        """
        from midstream.spark.commands.control_folder import control

        if not self.measured.batches:
            return
        plan, strategy = next(self._changes)
        self.commands.append(control(str(self._folder / "control")).migrate(plan, strategy, wait=False))
        self.measured.migrations.append((time.time(), f"{plan} by {strategy}"))

    def sample(self) -> None:
        """Record the memory in use, and the new lines of the journal."""
        self.measured.memory.append((time.time(), measure_memory(self._mark)))
        self.read_journal()

    def read_journal(self) -> None:
        path = self._folder / "journal.jsonl"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if line.endswith(b"\n"):
                    self._read += len(line)
                    with contextlib.suppress(json.JSONDecodeError):  # a kill has cut a line
                        self.measured.batches.append(json.loads(line))

    @property
    def processed(self) -> int:
        """How many files of each stream are known to be processed."""
        ends = [last for batch in self.measured.batches[-20:] for _, last in batch["files"].values()]
        return max(ends, default=-1) + 1

    def finish(self) -> None:
        """Let the job process what there is, and end."""
        (self._folder / "stop").touch()
        deadline = time.monotonic() + _END_SECONDS
        assert self._job is not None
        while self._job.poll() != 0:
            if time.monotonic() > deadline:
                raise SparkError(f"soak: the job did not end within {_END_SECONDS:.0f} s; see {self._log}")
            self.keep_running()
            self.sample()
            time.sleep(1)
        self._await_nothing_left()
        self.read_journal()

    # What came of it -------------------------------------------------------------------------------------------------

    def late(self) -> tuple[int, int]:
        """How many rows the job counted as late, and how many really were, over all batches in its journal.

        A kill between the end of a batch and its line in the journal leaves the batch out.
        """
        batches = {batch["batch"]: batch for batch in self.measured.batches}
        expected = sum(
            self.feed.late[number][name]
            for batch in batches.values()
            for name, (first, last) in batch["files"].items()
            for number in range(first, last + 1)
        )
        return sum(batch["late"] for batch in batches.values()), expected

    def answered(self) -> int:
        """How many migrations all cells have confirmed; a refused one is an error."""
        from midstream.spark.commands.control_folder import control
        from midstream.spark.jobs.soak import CELLS

        talk = control(str(self._folder / "control"))
        return sum(len(talk.answer(command)) == CELLS for command in self.commands)
