"""The soak: a join on Spark that is fed, migrated and killed for a given time, and must stay right and not grow.

The job is a process of its own (`midstream.spark.jobs.soak`). This one writes its input, gives it migrations through
its control folder, kills parts of it or all of it, starts it again, and measures it from outside. At the end the output
is compared with a batch join.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from midstream.app import scratch
from midstream.app.check import require_duckdb
from midstream.app.doctor import JAVA_ADVICE, find_java, missing_for_spark
from midstream.app.soak_picture import draw
from midstream.app.soak_report import report, report_growth, tell
from midstream.app.soak_run import Course, Soak
from midstream.errors import MidstreamError, SparkError

_TICK_SECONDS = 0.25
_SAMPLE_SECONDS = 5.0
_TELL_SECONDS = 30.0
#: A run shorter than this is all warming up: its growth is shown, and does not count.
_MINUTES_TO_BE_FLAT = 10.0


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
    require_duckdb("soak")
    java = find_java()
    if java is None or not java.ok:
        raise SparkError(f"soak: Spark needs Java 17 or newer; {JAVA_ADVICE}")
    if not Path("/proc/self/smaps_rollup").exists():
        raise SparkError("soak: it finds and measures processes through /proc, so it needs Linux")


def _run(soak: Soak, console: Console) -> None:
    """Feed, migrate and kill on schedule, until the time is over and the job has processed all input."""
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
    with scratch.scratch_folder("soak") as folder:
        try:
            yield folder
        except (MidstreamError, AssertionError, OSError):
            keep = True
            raise
        finally:
            if keep:
                console.print(f"kept: {scratch.keep(folder)}", highlight=False, soft_wrap=True)
