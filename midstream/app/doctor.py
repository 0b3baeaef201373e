"""What Midstream finds on this machine: versions, what Spark needs, and whether compiled kernels can be kept."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import midstream

REQUIRED = ("numba", "numpy", "pyarrow", "rich", "sqlglot", "typer")
OPTIONAL = {"duckdb": "demo", "matplotlib": "plots"}
#: What joins on Spark need: the first version that will do, and the first that will not.
SPARK = {"pyspark": ("4.1", None), "pandas": ("2.2", "3"), "protobuf": ("5", None)}
#: The newest PySpark that joins on Spark were tested with.
NEWEST_PYSPARK = "4.3"
#: What Spark Connect needs beside that.
CONNECT = ("googleapis-common-protos", "grpcio", "grpcio-status", "zstandard")
OLDEST_JAVA = 17
JAVA_ADVICE = (
    "install it (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to one"
)
MAVEN_ADVICE = "install it (Debian, Ubuntu: sudo apt-get install maven; macOS: brew install maven)"


@dataclass(frozen=True)
class Finding:
    """One line of the report. `ok` is None for something that is not installed and not needed."""

    what: str
    value: str
    ok: bool | None = True


@dataclass(frozen=True)
class Java:
    """A Java that was found; `version` is what it prints, or None if it could not be run."""

    path: str
    version: str | None

    @property
    def major(self) -> int | None:
        """The number that counts: 17 for 17.0.15, 8 for 1.8.0."""
        numbers = re.findall(r"\d+", self.version or "")
        if not numbers:
            return None
        return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])

    @property
    def ok(self) -> bool:
        return self.major is not None and self.major >= OLDEST_JAVA


def find_java() -> Java | None:
    """The Java that Spark would start: that of JAVA_HOME, or else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None:
        return None
    try:
        told = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return Java(path, None)
    found = re.search(r'version "([^"]+)"', told.stderr + told.stdout)
    return Java(path, found.group(1) if found else None)


def missing_for_spark() -> list[str]:
    """Packages that a join on Spark needs and that are not installed."""
    return [package for package in SPARK if _version(package) is None]


def examine() -> Iterator[Finding]:
    """Everything worth knowing when something does not work.

    >>> [finding.what for finding in examine()][:2]
    ['midstream', 'python']
    """
    yield Finding("midstream", midstream.__version__)
    yield Finding("python", f"{platform.python_version()} at {sys.executable}", sys.version_info >= (3, 10))
    yield Finding("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    for package in REQUIRED:
        found = _version(package)
        yield Finding(package, found or "missing; run: make install", found is not None)
    for package, extra in OPTIONAL.items():
        found = _version(package)
        yield Finding(package, found or f"not installed; extra '{extra}'", True if found else None)
    yield _kernel_cache()
    yield from _for_spark()


def kernel_cache() -> Path:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, beside the kernels' source, or in a folder of the user's."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    if configured:
        return Path(configured)
    spec = util.find_spec("midstream.kernels")
    assert spec is not None and spec.origin is not None
    beside = Path(spec.origin).parent / "__pycache__"
    if _can_be_written(beside):
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "midstream"


def _can_be_written(folder: Path) -> bool:
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _kernel_cache() -> Finding:
    folder = kernel_cache()
    if _can_be_written(folder):
        kept = sum(1 for _ in folder.rglob("*.nbc")) if folder.exists() else 0
        return Finding("kernel cache", f"{folder}, {kept} compiled kernels")
    return Finding("kernel cache", f"{folder} cannot be written; set NUMBA_CACHE_DIR to a folder that can", False)


def _for_spark() -> Iterator[Finding]:
    """What joins on Spark need. Without PySpark none of it is needed."""
    wanted = _version("pyspark") is not None
    for package, (first, beyond) in SPARK.items():
        yield _package_for_spark(package, first, beyond, wanted)
    yield _java(wanted)
    yield _maven()
    yield _worker_python(wanted)
    missing = [package for package in CONNECT if _version(package) is None]
    if missing:
        told = f"{', '.join(missing)} not installed; only for Spark Connect: pip install 'midstream[connect]'"
        yield Finding("connect", told, None)
    else:
        yield Finding("connect", ", ".join(f"{package} {_version(package)}" for package in CONNECT))


def _package_for_spark(package: str, first: str, beyond: str | None, wanted: bool) -> Finding:
    advice = "run: pip install 'midstream[spark]'"
    found = _version(package)
    if found is None:
        if package == "pyspark":
            return Finding(package, f"not installed; for joins on Spark {advice}", None)
        return Finding(
            package, f"missing; Spark's stateful operators in Python need it; {advice}", False if wanted else None
        )
    if _numbers(found) < _numbers(first):
        told = f"{found}, but joins on Spark need {first} or newer; {advice}"
        return Finding(package, told, False if wanted else None)
    if beyond is not None and _numbers(found) >= _numbers(beyond):
        return Finding(package, f"{found}, but PySpark needs one below {beyond}; {advice}", False if wanted else None)
    if package == "pyspark" and _numbers(found)[:2] > _numbers(NEWEST_PYSPARK):
        return Finding(package, f"{found}; joins on Spark were tested with {first} to {NEWEST_PYSPARK}", None)
    return Finding(package, found)


def _java(wanted: bool) -> Finding:
    java = find_java()
    if java is None:
        return Finding("java", f"none; Spark needs {OLDEST_JAVA} or newer; {JAVA_ADVICE}", False if wanted else None)
    if not java.ok:
        told = "does not tell its version" if java.version is None else f"is {java.version}"
        advice = f"{java.path} {told}; Spark needs {OLDEST_JAVA} or newer; {JAVA_ADVICE}"
        return Finding("java", advice, False if wanted else None)
    return Finding("java", f"{java.version} at {java.path}")


def _maven() -> Finding:
    """Maven may be missing: only the Kafka demo and its tests need it, until they have fetched their jars."""
    path = shutil.which("mvn")
    if path is None:
        return Finding("maven", f"none; only fetches Kafka's jars, once, for demo and tests; {MAVEN_ADVICE}", None)
    return Finding("maven", f"{path}; only for Kafka, whose jars it fetches once")


def _worker_python(wanted: bool) -> Finding:
    """The interpreter of Spark's workers: it has to have the same packages as this one."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    if chosen is None:
        return Finding("PYSPARK_PYTHON", "not set; local workers run the interpreter of the driver")
    found = shutil.which(chosen)
    if found is None:
        told = f"{chosen} cannot be run; unset it or set it to {sys.executable}"
        return Finding("PYSPARK_PYTHON", told, False if wanted else None)
    if os.path.realpath(found) == os.path.realpath(sys.executable) or not wanted:
        return Finding("PYSPARK_PYTHON", chosen)
    told = f"{chosen}, another than this one; it needs Midstream and the same packages, or set it to {sys.executable}"
    return Finding("PYSPARK_PYTHON", told, None)


def _numbers(version: str) -> tuple[int, ...]:
    """A version to compare by.

    >>> _numbers("4.1.0rc1") >= _numbers("4.1"), _numbers("2.10") > _numbers("2.9")
    (True, True)
    """
    numbers = (re.match(r"\d+", part) for part in version.split("."))
    return tuple(int(found.group()) for found in numbers if found)
