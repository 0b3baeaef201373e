"""Files of two attempts at the same batches meet in one state store of format 1: the query goes on and is right.

Two runs stand for the attempts. They get the same rows in other orders, so that Spark delivers other parcels. Then the
files that their state stores wrote are mixed.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.settings import CHANGELOG, PROVIDER, ROCKSDB
from midstream.spark.task import CHECKPOINT_FORMAT

from . import streams
from .streams import SECOND, Input, expect, join_text, run

WINDOWS: dict[str, int | None] = {"a": 30 * SECOND, "b": 30 * SECOND}
BATCHES, MORE, ROWS = 4, 2, 15_000


def make_input() -> Input:
    """Parcels of these are large enough to be stored as they come, where that is allowed."""
    rng = random.Random(3)

    def row(batch: int) -> tuple[int, int, int]:
        return rng.randrange(40_000), rng.getrandbits(60), (10 * batch + rng.randrange(10)) * SECOND

    return Input({name: [[row(batch) for _ in range(ROWS)] for batch in range(BATCHES + MORE)] for name in WINDOWS})


def start(spark: Any, folder: Path, checkpoint: Path, settings: dict[str, str]) -> streams.StreamRun:
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    frames = {name: streams.stream(session, folder / name) for name in WINDOWS}
    return run(ms.spark.sql(join_text(WINDOWS), frames, "ts", "1 second", partitions=2), checkpoint)


def part(input_: Input, begin: int, end: int) -> Input:
    return Input({name: batches[begin:end] for name, batches in input_.batches.items()})


def shuffle_rows(input_: Input, seed: int) -> Input:
    rng = random.Random(seed)
    return Input({name: [rng.sample(rows, len(rows)) for rows in batches] for name, batches in input_.batches.items()})


def parcels(spark: Any, checkpoint: Path, form: str) -> set[tuple[Any, ...]]:
    """What the state store, of this format, has under the name of parcels."""
    session = spark.newSession()
    session.conf.set(PROVIDER, ROCKSDB)
    session.conf.set(CHECKPOINT_FORMAT, form)
    reader = session.read.format("statestore").option("stateVarName", "parcels")
    rows = reader.load(str(checkpoint)).selectExpr("key", "user_map_key.*", "user_map_value.parcel").collect()
    return {tuple(map(repr, row)) for row in rows}


def overlay(source: Path, target: Path, chosen: Callable[[Path], bool]) -> None:
    """Copy files of one state store over those of another."""
    for path in sorted((source / "state").rglob("*")):
        if path.suffix in (".changelog", ".zip", ".sst") and not path.name.startswith(".") and chosen(path):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            place.with_name(f".{place.name}.crc").unlink(missing_ok=True)


@pytest.mark.slow
def test_the_files_of_attempts_in_every_mix(spark: Any, tmp_path: Path) -> None:
    """One attempt and another have left logs of changes, a third has left snapshots."""
    whole = make_input()
    first, second, third = (tmp_path / f"checkpoint{at}" for at in range(3))
    for at, checkpoint in enumerate((first, second, third)):
        shuffle_rows(part(whole, 0, BATCHES), at).write(tmp_path / str(at))
        settings = {CHECKPOINT_FORMAT: "1", CHANGELOG: "false" if at == 2 else "true"}
        start(spark, tmp_path / str(at), checkpoint, settings)
    assert parcels(spark, first, "1") == parcels(spark, second, "1") == parcels(spark, third, "1")
    part(whole, BATCHES, BATCHES + MORE).write(tmp_path / "0", first=BATCHES)
    expected = expect(whole, WINDOWS).by_batch[BATCHES:]
    for mix in range(4):
        mixed = tmp_path / f"mix{mix}"
        shutil.copytree(first, mixed)
        rng = random.Random(mix)
        # The files that a snapshot names have names of their own, and are there before it is.
        overlay(second, mixed, lambda path, rng=rng: path.suffix == ".sst" or rng.random() < 0.5)
        if mix:
            names = (f"{mix}.zip", f"{mix + 1}.zip")
            overlay(third, mixed, lambda path, names=names: path.suffix == ".sst" or path.name in names)
        ran = start(spark, tmp_path / "0", mixed, {CHECKPOINT_FORMAT: "1"})
        assert ran.rows_by_batch()[:MORE] == expected and all(expected)


@pytest.mark.slow
def test_parcels_are_stored_as_they_come_where_attempts_are_told_apart(spark: Any, tmp_path: Path) -> None:
    whole = make_input()
    stored = []
    for at in range(2):
        shuffle_rows(part(whole, 0, 1), at).write(tmp_path / str(at))
        start(spark, tmp_path / str(at), tmp_path / f"checkpoint{at}", {CHECKPOINT_FORMAT: "2"})
        stored.append(parcels(spark, tmp_path / f"checkpoint{at}", "2"))
    assert stored[0] and stored[0] != stored[1]
