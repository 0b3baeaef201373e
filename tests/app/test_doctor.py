"""The doctor: what Spark needs, and what to do where it is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from midstream.app import doctor
from midstream.app.doctor import Finding, Java, examine, find_java

VERSIONS = {"pyspark": "4.3.0", "pandas": "2.3.3", "protobuf": "7.0"}


def find(what: str) -> Finding:
    return next(finding for finding in examine() if finding.what == what)


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions of packages as the doctor sees them; take one away, or change it."""
    seen = dict(VERSIONS)
    monkeypatch.setattr(doctor, "_version", seen.get)
    return seen


@pytest.mark.parametrize(
    ("package", "version", "told", "ok"),
    [
        ("pandas", "2.3.3", "2.3.3", True),
        ("pandas", "3.0.0", "3.0.0, but PySpark needs one below 3; run: pip install 'midstream[spark]'", False),
        ("pandas", None, "missing; Spark's stateful operators in Python need it", False),
        ("protobuf", None, "missing; Spark's stateful operators in Python need it", False),
        ("pyspark", "4.0.1", "4.0.1, but joins on Spark need 4.1 or newer", False),
        ("pyspark", "4.1.4", "4.1.4", True),
        ("pyspark", "4.3.12", "4.3.12", True),
        ("pyspark", "4.4.0", "4.4.0; joins on Spark were tested with 4.1 to 4.3", None),
        ("pyspark", "4.10.0.dev1", "4.10.0.dev1; joins on Spark were tested with 4.1 to 4.3", None),
        ("pyspark", None, "not installed; for joins on Spark run: pip install 'midstream[spark]'", None),
    ],
)
def test_packages_of_spark(
    versions: dict[str, str], package: str, version: str | None, told: str, ok: bool | None
) -> None:
    versions.pop(package)
    if version is not None:
        versions[package] = version
    found = find(package)
    assert found.value.startswith(told) and found.ok is ok


def test_without_pyspark_nothing_of_spark_is_bad(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    versions.clear()
    monkeypatch.setattr(doctor, "find_java", lambda: None)
    assert [find(what).ok for what in ("pyspark", "pandas", "protobuf", "java", "connect")] == [None] * 5
    versions.update(pandas="3.0.1", protobuf="4.25.1")
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    assert [find(what).ok for what in ("pandas", "protobuf", "PYSPARK_PYTHON")] == [None] * 3
    assert "3.0.1, but PySpark needs one below 3" in find("pandas").value


def java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("told", "major", "ok"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17, True),
        ('openjdk version "21" 2023-09-19', 21, True),
        ('java version "1.8.0_392"', 8, False),
        ('openjdk version "11.0.2" 2019-01-15', 11, False),
        ("Unable to locate a Java Runtime.", None, False),
    ],
)
def test_java_of_java_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str, major: int | None, ok: bool
) -> None:
    program = java(tmp_path, told)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java()
    assert found is not None and (found.path, found.major, found.ok) == (str(program), major, ok)
    assert find("java").ok is ok
    if not ok:
        assert "Spark needs 17 or newer; install it" in find("java").value


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() is None
    assert find("java").ok is False and "openjdk-17-jre-headless" in find("java").value
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_java() == Java(str(tmp_path / "nowhere" / "bin" / "java"), None)


def test_maven_is_only_for_kafka(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find("maven")
    assert found.ok is None and "Kafka" in found.value and "apt-get install maven" in found.value
    program = tmp_path / "mvn"
    program.write_text("#!/bin/sh\nexit 1\n")  # it is looked for, not run
    program.chmod(0o755)
    assert find("maven") == Finding("maven", f"{program}; only for Kafka, whose jars it fetches once")


def test_the_python_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert find("PYSPARK_PYTHON").ok is True
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert find("PYSPARK_PYTHON") == Finding("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/sh")
    assert find("PYSPARK_PYTHON").ok is None and "the same packages" in find("PYSPARK_PYTHON").value
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    found = find("PYSPARK_PYTHON")
    assert found.ok is False and f"unset it or set it to {sys.executable}" in found.value
