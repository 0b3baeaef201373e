"""What Midstream finds on this machine: versions, and whether compiled kernels can be kept between runs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

REQUIRED = ("numba", "numpy", "pyarrow", "rich", "sqlglot", "typer")
OPTIONAL = {"duckdb": "demo", "matplotlib": "plots", "pyspark": "spark"}


@dataclass(frozen=True)
class Finding:
    """One line of the report. `ok` is None for what is neither needed nor there."""

    what: str
    value: str
    ok: bool | None = True


def version() -> str:
    """The version of Midstream, or `unknown` where it runs from a source tree that was not installed."""
    try:
        return metadata.version("midstream")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def examine() -> Iterator[Finding]:
    """Everything worth knowing when something does not work.

    >>> [finding.what for finding in examine()][:2]
    ['midstream', 'python']
    """
    yield Finding("midstream", version())
    yield Finding("python", f"{platform.python_version()} at {sys.executable}", sys.version_info >= (3, 10))
    yield Finding("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    for package in REQUIRED:
        found = _version(package)
        yield Finding(package, found or "missing; run: make install", found is not None)
    for package, extra in OPTIONAL.items():
        found = _version(package)
        yield Finding(package, found or f"not installed; extra '{extra}'", True if found else None)
    yield _kernel_cache()


def kernel_cache() -> Path:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, or beside the kernels' source."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    if configured:
        return Path(configured)
    spec = util.find_spec("midstream.kernels")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "__pycache__"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _kernel_cache() -> Finding:
    folder = kernel_cache()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if os.access(nearest, os.W_OK):
        kept = sum(1 for _ in folder.glob("*.nbc")) if folder.exists() else 0
        return Finding("kernel cache", f"{folder}, {kept} compiled kernels")
    return Finding("kernel cache", f"{folder} cannot be written; set NUMBA_CACHE_DIR to a folder that can", False)
