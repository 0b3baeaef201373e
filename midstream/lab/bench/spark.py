"""How fast a join on Spark is beside Spark's own chain of stream-stream joins.

All contenders run on two cores, each in a process and JVM of its own, one after the other, over the same files and the
same query, and write all result columns to Parquet. Batches count from the third on. What each has written is compared
with DuckDB's answer to the files that it has read.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from midstream.lab.bench import spark_files
from midstream.lab.bench.spark_contenders import CORES, find_contender
from midstream.lab.bench.spark_files import Case
from midstream.lab.bench.spark_times import stage_times

OURS, MEMORY, ROCKSDB = "midstream", "chain-memory", "chain-rocksdb"
TRACED = "midstream-traced"
#: Midstream sets changelog checkpointing; Spark's default is without it, so the chain is measured with and without.
CHANGELOG = "chain-rocksdb-changelog"
FLOOR_READ, FLOOR_HAND_OVER = "floor-read", "floor-hand-over"
_WARM_UP = 2
_LINES_OF_ERRORS = 30


@dataclass(frozen=True)
class Scale:
    """Rows of a stream and file, and how many files each contender reads: two of them are to get warm."""

    large: int
    small: int
    files: Mapping[str, int]
    #: How many the others read: floors, runs with fewer rows, runs that only tell where time goes.
    other_files: int

    def files_of(self, name: str) -> int:
        return self.files.get(name, self.other_files)


#: Midstream's batches get faster while the JVM compiles, the chain's slower until its state has its full size: two
#: batches of warming up would show neither as it stays. No target asks for changelog checkpointing: a few are enough.
FULL = Scale(500_000, 5_000, {OURS: 40, MEMORY: 8, ROCKSDB: 6, CHANGELOG: 4}, 20)
QUICK = Scale(50_000, 5_000, {OURS: 12, MEMORY: 5, ROCKSDB: 3, CHANGELOG: 3}, 8)


@dataclass(frozen=True)
class Measurement:
    """One run of a contender: Spark's progress of each batch that had rows."""

    contender: str
    case: Case
    work: Path
    files: int
    batches: list[dict[str, Any]]

    @property
    def steady(self) -> list[dict[str, Any]]:
        """The batches that count."""
        return self.batches[_WARM_UP:]

    @property
    def batch_seconds(self) -> float:
        """The mean time of a batch, from the beginning of the first one that counts to the end of the last."""
        return (_end(self.steady[-1]) - _begin(self.steady[0])) / len(self.steady)

    @property
    def rows_per_second(self) -> float:
        return self.case.batch_rows / self.batch_seconds

    @property
    def checkpoint_bytes_per_input_byte(self) -> float:
        return bytes_in(self.work / "checkpoint") / self.case.bytes_of(self.files)


def _begin(batch: Mapping[str, Any]) -> float:
    return datetime.datetime.fromisoformat(batch["timestamp"]).timestamp()


def _end(batch: Mapping[str, Any]) -> float:
    return _begin(batch) + float(batch["durationMs"]["triggerExecution"]) / 1000


def bytes_in(folder: Path) -> int:
    """The size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Bench:
    """Runs contenders, compares their answers, and prints what they took."""

    def __init__(self, folder: Path, scale: Scale, console: Console):
        self._folder = folder
        self._scale = scale
        self._console = console
        self.is_right = True

    def run(self) -> bool:
        """Run everything; whether all answers were right and all targets reached."""
        large, small = self._scale.large, self._scale.small
        most = max(self._scale.files.values()) + 1
        case = self._made("large", "one key", large, most)
        names = (FLOOR_READ, FLOOR_HAND_OVER, TRACED, OURS, MEMORY, CHANGELOG, ROCKSDB)
        runs = {name: self.measure(name, case, self._scale.files_of(name)) for name in names}
        self._console.print(self._speeds(f"4-way, one key, {case.batch_rows:,} rows a batch", runs))
        self._console.print(self._where_time_goes(runs))
        self._console.print(self.restart({name: runs[name] for name in (OURS, MEMORY, ROCKSDB)}))
        case = self._made("small", "one key", small, self._scale.other_files)
        small_runs = {name: self.measure(name, case, case.files) for name in (OURS, MEMORY, ROCKSDB)}
        self._console.print(self._speeds(f"4-way, one key, {case.batch_rows:,} rows a batch", small_runs))
        case = self._made("attributes", "different attributes", large, self._scale.files_of(OURS))
        others = {name: self.measure(name, case, self._scale.files_of(name)) for name in (OURS, MEMORY)}
        self._console.print(self._speeds(f"4-way, different attributes, {case.batch_rows:,} rows a batch", others))
        holds = [self._verdict(*verdict) for verdict in _verdicts(runs, small_runs)]
        return self.is_right and all(holds)

    def _made(self, folder: str, name: str, rows: int, files: int) -> Case:
        with self._console.status(f"{name}: writing files"):
            make = spark_files.one_key if name == "one key" else spark_files.chain
            return make(self._folder / folder, rows, files)

    def measure(self, name: str, case: Case, files: int) -> Measurement:
        """Run a contender over the first files of each stream."""
        work = self._folder / f"{Path(case.folder).name}-{name}"
        case.link(work / "in", files)
        batches = [progress for progress in self._told(name, case, work, files) if progress["numInputRows"]]
        run = Measurement(name, case, work, files, batches)
        if find_contender(name).sink == "parquet":
            self._compare(run, files)
        what = f"{case.name}, {case.batch_rows:,} rows a batch: {find_contender(name).title}"
        self._console.print(f"{what}: {run.batch_seconds:.2f} s a batch", style="dim", highlight=False)
        seconds = " ".join(f"{_end(batch) - _begin(batch):.1f}" for batch in batches)
        self._console.print(f"  each batch, from the first one on: {seconds}", style="dim", highlight=False)
        return run

    def _told(self, name: str, case: Case, work: Path, files: int) -> Iterator[dict[str, Any]]:
        """The progress of the contender's batches, as its process prints it."""
        arguments = [sys.executable, "-m", "midstream.lab.bench.spark_contenders", name, case.folder, str(work)]
        title = f"{case.name}, {case.batch_rows:,} rows a batch: {find_contender(name).title}"
        with (
            self._console.status(f"{title}: starting") as status,
            (work / "errors.txt").open("w") as errors,
            subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
                elif line.strip().isdigit():
                    status.update(f"{title}: {line.strip()} of {files} batches")
        if process.returncode != 0:
            last = "".join((work / "errors.txt").read_text().splitlines(keepends=True)[-_LINES_OF_ERRORS:])
            raise RuntimeError(f"{title}: its process ended with {process.returncode}; the last that it told:\n{last}")

    def _compare(self, run: Measurement, files: int) -> None:
        with self._console.status(f"{run.case.name}: DuckDB's answer"):
            wanted = spark_files.compute_answer(run.case, files)
        given = spark_files.read_answer(run.case, run.work / "out", files)
        if given != wanted:
            self._console.print(
                f"[red]{find_contender(run.contender).title}: wrong answer[/] {given}, DuckDB has {wanted}"
            )
            self.is_right = False

    # What is printed -------------------------------------------------------------------------------------------------

    def _speeds(self, title: str, runs: Mapping[str, Measurement]) -> Table:
        table = Table("contender", "rows/s", "s a batch", "batches that count", "Midstream is", title=title)
        for name, run in runs.items():
            table.add_row(
                find_contender(name).title,
                f"{run.rows_per_second:,.0f}",
                f"{run.batch_seconds:.2f}",
                str(len(run.steady)),
                f"{runs[OURS].rows_per_second / run.rows_per_second:.1f} times as fast",
            )
        return table

    def _where_time_goes(self, runs: Mapping[str, Measurement]) -> Table:
        table = Table(
            "part", "s a batch", title=f"Where the time of {find_contender(TRACED).title} goes, {CORES} cores"
        )
        for part, seconds in parts_of(runs[TRACED], runs[FLOOR_READ], runs[FLOOR_HAND_OVER]):
            table.add_row(part, f"{seconds:.2f}")
        return table

    def restart(self, runs: Mapping[str, Measurement]) -> Table:
        """Restart each contender with one more file, after its checkpoint has been measured."""
        table = Table("contender", "checkpoint bytes per input byte", "s from restart to first results")
        for name, run in runs.items():
            share = run.checkpoint_bytes_per_input_byte
            run.case.link(run.work / "in", run.files + 1)
            told = list(self._told(name, run.case, run.work, run.files + 1))
            self._compare(run, run.files + 1)
            first = next(progress for progress in told if progress["numInputRows"])
            table.add_row(find_contender(name).title, f"{share:.2f}", f"{_end(first) - first['began']:.1f}")
        return table

    def _verdict(self, text: str, holds: bool) -> bool:
        self._console.print(f"{'[green]holds[/]' if holds else '[red]does not hold[/]'}  {text}")
        return holds


def parts_of(ours: Measurement, read: Measurement, hand_over: Measurement) -> Iterator[tuple[str, float]]:
    """The parts of a batch in seconds, from Spark's stages, the cells' reports and the floors of the same run."""
    import midstream.spark

    first, second, write, commit = _stages(ours)
    source, handed = _stages(read)[0], _stages(hand_over)[0]
    cells = [list(midstream.spark.cell_reports(progress).values()) for progress in ours.steady]
    engine, store, total = (
        sum(max(report["ms"][place] for report in reports) for reports in cells) / len(cells) / 1000
        for place in range(3)
    )
    yield "source (the floor that only reads)", source
    yield "rows to Python (the other floor, less that)", handed - source
    yield "packing by cell (the rest of the first stage)", first - handed - write / CORES
    yield "shuffle write", write / CORES
    yield "cells: engine", engine
    yield "cells: state store, in part while the engine works", store
    yield "cells: from the first parcel to the last result", total
    yield "state store's commit", commit / CORES
    yield "start, shuffle read, unpacking, Parquet (the rest of the second stage)", second - total - commit / CORES
    yield "planning and logs between the stages", ours.batch_seconds - first - second
    yield "altogether", ours.batch_seconds


def _stages(run: Measurement) -> tuple[float, float, float, float]:
    """Means over the batches that count: the first stage, the others, writing the shuffle, the store's commit."""
    times = stage_times(run.work / "events")
    counted = [times[progress["batchId"]] for progress in run.steady]
    sums = [
        (stage_time.stages[0], sum(stage_time.stages[1:]), stage_time.shuffle_write, stage_time.commit)
        for stage_time in counted
    ]
    first, others, write, commit = (sum(column) / len(counted) for column in zip(*sums, strict=True))
    return first, others, write, commit


def _verdicts(runs: Mapping[str, Measurement], small: Mapping[str, Measurement]) -> Iterator[tuple[str, bool]]:
    ours = runs[OURS].rows_per_second
    for name, least in ((MEMORY, 12), (ROCKSDB, 50)):
        ratio = ours / runs[name].rows_per_second
        rows = runs[name].case.batch_rows
        yield f"{rows:,} rows a batch: {ratio:.1f} times {find_contender(name).title}, at least {least}", ratio >= least
    ratio = small[OURS].rows_per_second / small[MEMORY].rows_per_second
    rows = small[OURS].case.batch_rows
    yield f"{rows:,} rows a batch: {ratio:.1f} times {find_contender(MEMORY).title}, at least 1", ratio >= 1


def run(folder: Path, quick: bool = False, console: Console | None = None) -> bool:
    """Measure everything, print it, and tell whether all answers were right and all targets reached.

    Files and checkpoints are put into the folder, 11 GB of them, and stay there.
    """
    console = console or Console()
    scale = QUICK if quick else FULL
    console.print(f"Joins on Spark, local\\[{CORES}], each contender in a JVM of its own, batches from the third on.")
    if quick:
        console.print("Quick: a tenth of the rows; the targets are meant for 2,000,000 rows a batch.")
    return Bench(folder, scale, console).run()
