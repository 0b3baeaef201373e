"""Compiled kernels on disk: used again as they are, and compiled again after any source of the package has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midstream import kernels
from midstream.engine.compiling import all_kernels
from midstream.kernels.caching import _KernelCache

# A kernel that inlines a function of another file, and the same function compiled for this process alone.
PROGRAM = """
import json
import numpy as np
from numba import njit
from midstream.kernels.partition import add_coordinates

def cells_by(function):
    cells = np.zeros(8, np.int64)
    function(np.arange(8), np.int64(1), 1000, 1, cells)
    return cells.tolist()

cells = cells_by(add_coordinates)
from_disk = sum(add_coordinates.stats.cache_hits.values())
print(json.dumps({"cells": cells, "expected": cells_by(njit(add_coordinates.py_func)), "from_disk": from_disk}))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels alone, as a package of the same name, with nothing compiled yet."""
    package = tmp_path / "midstream"
    package.mkdir()
    (package / "__init__.py").touch()
    folder = Path(kernels.__file__).parent
    shutil.copytree(folder, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    return package


def start(package: Path, **settings: str) -> subprocess.Popen[str]:
    left_out = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=package.parent,
        env=environment | {"PYTHONPATH": str(package.parent), **settings},
        stdout=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(printed)
    return found


def change_multiplier(package: Path) -> None:
    path = package / "kernels" / "hashing.py"
    text = path.read_text()
    assert "0xD6E8FEB86659FD93" in text
    path.write_text(text.replace("0xD6E8FEB86659FD93", "0xD6E8FEB86659FD95"))


def test_a_changed_constant_of_another_file_is_used(package: Path) -> None:
    """Also by processes that start at the same time, each of which finds the old code and compiles it again."""
    first, second = outcome(start(package)), outcome(start(package))
    assert (first["from_disk"], second["from_disk"]) == (0, 1)
    assert first["cells"] == second["cells"] == first["expected"]

    change_multiplier(package)
    for changed in [outcome(process) for process in [start(package), start(package)]]:
        assert changed["expected"] != first["expected"]
        assert changed["cells"] == changed["expected"]
    last = outcome(start(package))
    assert last["from_disk"] == 1 and last["cells"] == last["expected"] != first["expected"]

    stored = list((package / "kernels" / "__pycache__").glob("partition.add_coordinates*.nbc"))
    assert len(stored) == 1, "the new code has taken the place of the old"


def test_kernels_in_a_zip_are_compiled_once_wherever_it_lies(package: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    found = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        archive = shutil.make_archive(str(tmp_path / folder / "midstream"), "zip", tmp_path, "midstream")
        found.append(outcome(start(Path(archive), HOME=home, PYTHONPATH=archive)))
    assert [run["from_disk"] for run in found] == [0, 1]
    assert all(run["cells"] == run["expected"] for run in found)
    (kept,) = (tmp_path / "home" / ".cache" / "midstream").iterdir()
    assert kept.name.startswith("kernels-")


def test_where_nothing_can_be_written_each_process_compiles(package: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "midstream"), "zip", tmp_path, "midstream")
    found = outcome(start(Path(archive), HOME="/dev/null", PYTHONPATH=archive))
    assert found["from_disk"] == 0 and found["cells"] == found["expected"]


def test_every_kernel_is_kept_in_this_way() -> None:
    """Also one that is added with `njit(cache=True)` by habit would be found here."""
    others = [name for name, kernel in all_kernels().items() if type(kernel._cache) is not _KernelCache]
    assert others == []
