"""The layer where users run it: submitted to a cluster, with the package shipped, its executors elsewhere."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest

from tests.spark.cluster import environment
from tests.spark.cluster.standalone import Cluster, submit
from tests.spark.streams import SECOND, Input, expect, few, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

_ROOT = Path(__file__).parents[3]
_JOB = Path(__file__).parent / "job.py"
_WINDOW = 4 * SECOND
_FILES, _ROWS = 6, 120


@pytest.fixture
def folder(java: None) -> Iterator[Path]:
    """A folder with a short path, for the sake of sockets."""
    path = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    (path / "scratch").mkdir()
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _given(folder: Path) -> Input:
    """Rows of two seconds a file, out of order, with keys that meet."""
    rng = random.Random(5)
    moment = 1_700_000_000 * SECOND
    batches = {
        name: [
            [
                (rng.randrange(60), n * _ROWS + i, moment + 2 * n * SECOND + rng.randrange(3 * SECOND))
                for i in range(_ROWS)
            ]
            for n in range(_FILES)
        ]
        for name in "abc"
    }
    given = Input(batches)
    given.write(folder / "input")
    return given


def _packed(folder: Path) -> Path:
    """The package as one file, as the how-to makes it."""
    path = folder / "midstream.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((_ROOT / "midstream").rglob("*.py")):
            archive.write(file, file.relative_to(_ROOT))
    return path


def _check(folder: Path, given: Input) -> dict[str, Any]:
    """The output has every row once; engines stayed where they were; what the job told."""
    found = rows_of(pyarrow.parquet.read_table(folder / "output", coerce_int96_timestamp_unit="us"))
    expected = expect(given, dict.fromkeys("abc", _WINDOW)).rows
    assert not found - expected and not expected - found, (few(expected - found), few(found - expected))
    assert sum(expected.values()) > 500
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    places = [place for batch in told["places"] for place in batch]
    assert len(places) == 2 * _FILES
    assert places[:2] == ["loaded", "loaded"]
    assert set(places[2:]) == {"host"}
    return told


def _hosts(folder: Path) -> list[str]:
    """The hosts whose sockets are in a folder, and the templates that they come from."""
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [command for command in commands if "midstream.spark.hosts" in command and str(folder) in command]


def _check_whereabouts(told: dict[str, Any], shipped: str, interpreter: str = sys.executable) -> None:
    """There were two executors, and both had the package that was shipped."""
    assert len({executor for executor, _, _ in told["whereabouts"]}) == 2
    for _, used, package in told["whereabouts"]:
        assert used.endswith(interpreter)
        assert shipped in package


def _submit(master: str, folder: Path) -> None:
    """Ship Midstream alone; the packages that it needs are there."""
    submit(
        master,
        _JOB,
        folder,
        *("--py-files", str(_packed(folder))),
        *("--conf", f"spark.pyspark.python={sys.executable}"),
    )


def _submit_environment(master: str, folder: Path) -> None:
    """Ship everything but Python itself. Part of the operator runs on the driver, by the same relative path."""
    submit(
        master,
        _JOB,
        folder,
        *("--archives", f"{environment.pack_environment(folder)}#environment"),
        *("--conf", "spark.pyspark.python=./environment/bin/python"),
    )


def test_standalone_cluster(folder: Path) -> None:
    given = _given(folder)
    with Cluster(folder) as cluster:
        _submit(cluster.url, folder)
        told = _check(folder, given)
        assert told["master"] == cluster.url
        _check_whereabouts(told, "midstream.zip")
        everything = cluster.processes()
        assert len(everything) >= 3
    assert not [process for process in everything if process.is_running()]
    assert not _hosts(folder)


def test_local_cluster(folder: Path) -> None:
    given = _given(folder)
    _submit("local-cluster[2,1,1024]", folder)
    _check_whereabouts(_check(folder, given), "midstream.zip")
    assert not _hosts(folder)


def test_shipped_environment(folder: Path) -> None:
    """Executors use nothing of what is installed here but the interpreter that the environment points to."""
    given = _given(folder)
    with Cluster(folder) as cluster:
        _submit_environment(cluster.url, folder)
        _check_whereabouts(_check(folder, given), "/environment/lib/", "/environment/bin/python")
    assert not _hosts(folder)
