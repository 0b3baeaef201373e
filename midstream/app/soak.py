"""The soak: a join on Spark that is fed, migrated and killed for as long as told, and must neither err nor grow.

The job is a process of its own (`midstream.spark.soak`). This one writes its input, gives it migrations through its
control folder, kills parts of it or all of it, starts it again, and measures it from outside. At the end the output is
compared with a batch join.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from midstream.app.doctor import JAVA_ADVICE, find_java, missing_for_spark
from midstream.app.soak_picture import Measured, draw
from midstream.app.soak_processes import MARK, memory, parts
from midstream.app.soak_report import report, report_growth, tell
from midstream.errors import MidstreamError, SparkError

_TICK_SECONDS = 0.25
_SAMPLE_SECONDS = 5.0
_TELL_SECONDS = 30.0
_GONE_SECONDS = 60.0
_END_SECONDS = 900.0
_MOST_BACKLOG = 20
#: A run shorter than this is all warming up: its growth is shown, and does not count.
_MINUTES_TO_BE_FLAT = 10.0
#: Ends that nobody has caused; more of them, and the run is given up.
_MOST_FAILURES = 3
#: What is killed, in this order, again and again: all processes at once, or one of a kind.
_VICTIMS = ("everything", "workers", "everything", "hosts")
_PLANS = ("((a b) (c d))", "(((d c) b) a)", "(a (b (c d)))", "(((a c) b) d)", "(((a b) c) d)")
_STRATEGIES = ("jisc", "moving-state", "parallel-track", "genmig")


@dataclass(frozen=True)
class Course:
    """How long a soak takes and what happens in it; seconds, and minutes in all."""

    minutes: float = 20.0
    feed_every: float = 3.0
    migrate_every: float = 60.0
    kill_every: float = 240.0
    rows: int = 10_000
    seed: int = 0


class Soak:
    """One run: the job's process, its input, and what is done to it when."""

    def __init__(self, course: Course, folder: Path, log: Path):
        from midstream.app.soak_streams import Feed
        from midstream.spark.control_folder import ControlFolder

        self.course = course
        self.feed = Feed(folder / "input", course.rows, course.seed)
        self.measured = Measured(time.time())
        self.starts = 0
        self.failures = 0
        self.commands: list[Any] = []
        self._folder = folder
        self._log = log
        self._mark = uuid.uuid4().hex
        self._rng = random.Random(course.seed)
        self._victims = itertools.cycle(_VICTIMS)
        self._changes = zip(itertools.cycle(_PLANS), itertools.cycle(_STRATEGIES), strict=False)
        self._job: subprocess.Popen[bytes] | None = None
        self._read = 0
        ControlFolder(str(folder / "control")).make()
        (folder / "scratch").mkdir()
        self.feed.write_next()

    # The job's process -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the job, when nothing of its former life is left."""
        self._await_nothing_left()
        self.starts += 1
        with self._log.open("ab") as log:
            self._job = subprocess.Popen(
                [sys.executable, "-m", "midstream.spark.soak", str(self._folder)],
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
        found = [part for part in parts(self._mark) if victim in ("everything", part.kind)]
        chosen = found if victim == "everything" or not found else [self._rng.choice(found)]
        if sum(part.kill() for part in chosen):
            self.measured.kills.append((time.time(), victim))

    def kill_all(self) -> None:
        """End everything, whatever state it is in."""
        for part in parts(self._mark):
            part.kill()
        if self._job is not None:
            self._job.wait()

    def _await_nothing_left(self) -> None:
        deadline = time.monotonic() + _GONE_SECONDS
        while any(True for _ in parts(self._mark)):
            if time.monotonic() > deadline:
                raise SparkError(f"soak: processes of the job are left: {list(parts(self._mark))}")
            time.sleep(0.1)

    # What happens to it ----------------------------------------------------------------------------------------------

    def write_input(self) -> None:
        """The next file of each stream, unless the job is far behind."""
        if self.feed.written - self.processed < _MOST_BACKLOG:
            self.feed.write_next()

    def migrate(self) -> None:
        """Have the job change to the next plan, by the next strategy, at its next trigger."""
        from midstream.spark.control_folder import control

        plan, strategy = next(self._changes)
        self.commands.append(control(str(self._folder / "control")).migrate(plan, strategy))
        self.measured.migrations.append((time.time(), f"{plan} by {strategy}"))

    def sample(self) -> None:
        """Note memory, and what the journal has got since."""
        self.measured.memory.append((time.time(), memory(self._mark)))
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
        ends = [last for one in self.measured.batches[-20:] for _, last in one["files"].values()]
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
        """Rows that the job called late, and those that were, over all batches that it told of.

        A kill between a batch's end and its line in the journal leaves a batch untold.
        """
        batches = {one["batch"]: one for one in self.measured.batches}
        expected = sum(
            self.feed.late[number][name]
            for one in batches.values()
            for name, (first, last) in one["files"].items()
            for number in range(first, last + 1)
        )
        return sum(one["late"] for one in batches.values()), expected

    def answered(self) -> int:
        """How many migrations all cells have said to have taken; one that is refused is an error."""
        from midstream.spark.control_folder import control
        from midstream.spark.soak import CELLS

        talk = control(str(self._folder / "control"))
        return sum(len(talk.answer(command)) == CELLS for command in self.commands)


def run(course: Course, console: Console, out: Path, keep: bool = False) -> bool:
    """Runs a soak; whether the output was right and nothing grew."""
    _require()
    from midstream.app.soak_streams import compare

    out.mkdir(parents=True, exist_ok=True)
    log = out / "soak.log"
    log.unlink(missing_ok=True)
    with _folder(keep, console) as folder:
        soak = Soak(course, folder, log)
        try:
            _run(soak, console)
        finally:
            soak.kill_all()
        with console.status("comparing with a batch join by DuckDB"):
            verdict = compare(folder)
        answered = soak.answered()
    is_right = report(soak, verdict, answered, console)
    is_flat = report_growth(soak.measured, console)
    (out / "soak.json").write_text(json.dumps(vars(soak.measured)))
    if draw(soak.measured, out / "soak.png"):
        console.print(f"picture: {out / 'soak.png'}", highlight=False, soft_wrap=True)
    return is_right and (is_flat or course.minutes < _MINUTES_TO_BE_FLAT)


def _require() -> None:
    """An error in one line if the soak cannot run here."""
    missing = missing_for_spark()
    if missing:
        raise SparkError(f"soak: missing: {', '.join(missing)}; run: pip install 'midstream[spark,demo,plots]'")
    java = find_java()
    if java is None or not java.ok:
        raise SparkError(f"soak: Spark needs Java 17 or newer; {JAVA_ADVICE}")
    if not Path("/proc/self/smaps_rollup").exists():
        raise SparkError("soak: it finds and measures processes through /proc, so it needs Linux")


def _run(soak: Soak, console: Console) -> None:
    """Everything in its time, until the time is over and the job has processed all input."""
    course = soak.course
    rng = random.Random(course.seed + 1)
    soak.start()
    end = time.monotonic() + 60 * course.minutes
    due = dict.fromkeys(("feed", "sample"), time.monotonic())
    due["tell"] = time.monotonic() + _TELL_SECONDS
    due["migrate"] = time.monotonic() + course.migrate_every
    due["kill"] = time.monotonic() + course.kill_every * rng.uniform(0.5, 1.5)
    acts: dict[str, tuple[Callable[[], None], Callable[[], float]]] = {
        "feed": (soak.write_input, lambda: course.feed_every),
        "sample": (soak.sample, lambda: _SAMPLE_SECONDS),
        "tell": (lambda: tell(soak, console), lambda: _TELL_SECONDS),
        "migrate": (soak.migrate, lambda: course.migrate_every),
        "kill": (soak.kill, lambda: course.kill_every * rng.uniform(0.5, 1.5)),
    }
    while (now := time.monotonic()) < end:
        for name, (act, pause) in acts.items():
            if now >= due[name]:
                due[name] = now + pause()
                act()
        soak.keep_running()
        time.sleep(_TICK_SECONDS)
    console.print("the time is over; the rest of the input is processed", style="dim")
    soak.finish()


@contextlib.contextmanager
def _folder(keep: bool, console: Console) -> Iterator[Path]:
    """A folder for everything that the job reads and writes; kept if asked for, or if something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="ms-soak-"))
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield folder
    except (MidstreamError, AssertionError, OSError):
        console.print(f"kept: {folder}", highlight=False, soft_wrap=True)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, former)
    if keep:
        console.print(f"kept: {folder}", highlight=False, soft_wrap=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
