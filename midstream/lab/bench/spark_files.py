"""The files that all contenders of `midstream bench spark` read: one Parquet file a stream and batch.

A file holds ten seconds of event time, so that files of one number are one batch of all streams, and what the first n
files of each stream give does not depend on what comes after them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.lab import generate
from midstream.lab.bench.answer import Answer
from midstream.lab.workload import Workload

#: Event times begin here, in microseconds.
EPOCH = 1_700_000_000_000_000
FILE_SECONDS = 10
WINDOW = 5_000_000

_STREAMS = 4
_DESCRIPTION = "case.json"


@dataclass(frozen=True)
class Case:
    """Files in a folder and the join over them; `keys` are (stream, column, stream, column) that must be equal."""

    name: str
    folder: str
    text: str
    streams: tuple[str, ...]
    keys: tuple[tuple[str, str, str, str], ...]
    file_rows: int
    files: int

    @property
    def batch_rows(self) -> int:
        """The rows of one file of each stream."""
        return self.file_rows * len(self.streams)

    def path(self, stream: str, number: int) -> Path:
        """One of the files."""
        return Path(self.folder) / stream / f"part-{number:05d}.parquet"

    def bytes_of(self, files: int) -> int:
        """The size of the first files of all streams."""
        return sum(self.path(stream, number).stat().st_size for stream in self.streams for number in range(files))

    def link(self, folder: Path, files: int) -> None:
        """Show the first files in another folder, in the order in which they are to be read."""
        for stream in self.streams:
            (folder / stream).mkdir(parents=True, exist_ok=True)
            for number in range(files):
                place = folder / stream / self.path(stream, number).name
                if not place.exists():
                    os.link(self.path(stream, number), place)

    def save(self) -> None:
        """Write the description beside the files."""
        (Path(self.folder) / _DESCRIPTION).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Case:
        """What `save` wrote."""
        told = json.loads((folder / _DESCRIPTION).read_text())
        keys = tuple(tuple(key) for key in told.pop("keys"))
        return cls(**told | {"keys": keys, "streams": tuple(told["streams"])})


def one_key(folder: Path, file_rows: int, files: int) -> Case:
    """A 4-way join on one key; a row finds half a partner in each other stream's window."""
    workload = generate.common_key(
        _STREAMS, file_rows * files, file_rows, file_rows / FILE_SECONDS, window=WINDOW / 1_000_000
    )
    pairs = pairwise(workload.streams)
    return _write_case(folder, "one key", workload, tuple((left, "k", right, "k") for left, right in pairs), file_rows)


def chain(folder: Path, file_rows: int, files: int) -> Case:
    """A 4-way join in which each stream is joined to the next one on a column of their own."""
    workload = generate.chain(
        _STREAMS, file_rows * files, file_rows, file_rows / FILE_SECONDS, window=WINDOW / 1_000_000
    )
    pairs = pairwise(workload.streams)
    keys = tuple((left, f"to_{right}", right, f"to_{left}") for left, right in pairs)
    return _write_case(folder, "different attributes", workload, keys, file_rows)


def _write_case(
    folder: Path, name: str, workload: Workload, keys: tuple[tuple[str, str, str, str], ...], file_rows: int
) -> Case:
    files = 0
    for stream, table in workload.tables.items():
        (folder / stream).mkdir(parents=True, exist_ok=True)
        moments = pa.array(table["ts"].to_numpy() + EPOCH).view(pa.timestamp("us", "UTC"))
        rows = table.set_column(0, "ts", moments)
        files = rows.num_rows // file_rows
        for number in range(files):
            path = folder / stream / f"part-{number:05d}.parquet"
            pq.write_table(rows.slice(number * file_rows, file_rows), path)
            # Spark takes files in the order of their times.
            os.utime(path, (EPOCH // 1_000_000 + number, EPOCH // 1_000_000 + number))
    case = Case(name, str(folder), workload.text, workload.streams, keys, file_rows, files)
    case.save()
    return case


def compute_answer(case: Case, files: int) -> Answer:
    """What DuckDB finds in the first files of each stream."""
    streams = case.streams
    moments = [f"epoch_us({stream}.ts)" for stream in streams]
    near = [f"abs({left} - {right}) <= {WINDOW}" for left, right in combinations(moments, 2)]
    where = [f"{left}.{column} = {right}.{key}" for left, column, right, key in case.keys] + near
    columns = {f"{stream}_v": f"{stream}.v" for stream in streams} | {
        "valid_from": f"greatest({', '.join(moments)})",
        "valid_to": f"least({', '.join(moments)}) + {WINDOW}",
    }
    sources = [
        f"read_parquet([{', '.join(repr(str(case.path(stream, number))) for number in range(files))}]) {stream}"
        for stream in streams
    ]
    return _sum_rows(f"FROM {', '.join(sources)} WHERE {' AND '.join(where)}", columns)


def read_answer(case: Case, folder: Path, files: int) -> Answer:
    """The results of the first files of each stream, as a contender has written them."""
    columns = {f"{stream}_v": f"{stream}_v" for stream in case.streams} | {
        "valid_from": "epoch_us(valid_from)",
        "valid_to": "epoch_us(valid_to)",
    }
    end = EPOCH + files * FILE_SECONDS * 1_000_000
    source = f"read_parquet('{folder}/*.parquet')"
    return _sum_rows(f"FROM {source} WHERE epoch_us(valid_from) < {end}", columns)


def _sum_rows(source: str, columns: dict[str, str]) -> Answer:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    sums = ", ".join(f"sum({text})::HUGEINT" for text in columns.values())
    row = connection.execute(f"SELECT count(*), {sums} {source}").fetchone()
    assert row is not None
    sums_of = {name: int(value or 0) for name, value in zip(columns, row[1:], strict=True)}
    return Answer(row[0], tuple(sorted(sums_of.items())))
