"""One Spark session for all tests of a process. Its time zone has a gap and a fold every year, on purpose."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FAULTS = Path(__file__).parent / "faults"
ZONE = "America/New_York"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that start Spark run in one process, so that they share one JVM and do not crowd the machine."""
    for item in items:
        needs_java = {"java", "spark"}.intersection(getattr(item, "fixturenames", ()))
        if needs_java or FAULTS in Path(item.path).parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


def since(version: str) -> pytest.MarkDecorator:
    """For tests of what only some versions of PySpark can do."""
    import pyspark

    from midstream.spark.compat import is_older

    reason = f"PySpark {version} or newer can do this, {pyspark.__version__} cannot"
    return pytest.mark.skipif(is_older(pyspark.__version__, version), reason=reason)


def need_java() -> None:
    """Skip where there is no Java; a build server has to have it."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        reason = "no Java: install Java 17 or 21, for example as the package openjdk-17-jre-headless"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def java() -> None:
    need_java()


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A small local session; what Midstream needs is left for it to set."""
    from pyspark.sql import SparkSession

    from midstream.spark.jobs.session import WORKER_SECONDS

    folder = tmp_path_factory.mktemp("spark")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": ZONE,
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        WORKER_SECONDS: "5min",
        "spark.sql.codegen.wholeStage": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("midstream tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of hosts, with a short path."""
    from midstream.spark.hosts import pool

    root = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(root))
    yield pool.host_folder()
    shutil.rmtree(root)


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    """Something to live by."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()
