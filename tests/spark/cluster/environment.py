"""A virtual environment as one file, with Midstream and all that it needs, for machines that have only Python."""

from __future__ import annotations

import shutil
import tarfile
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

_ROOT = Path(__file__).parents[3]
#: What a worker needs; PySpark comes with Spark.
_WANTED = ("midstream", "pandas", "protobuf")


def pack_environment(folder: Path) -> Path:
    """Make the environment from what is installed here, so that nothing has to be fetched, and pack it beside it."""
    made = folder / "environment"
    venv.create(made, symlinks=True)
    packages = next(made.glob("lib/python*/site-packages"))
    for name in sorted(_needed()):
        _copy(name, packages)
    path = folder / "environment.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(made, ".")
    return path


def _needed() -> set[str]:
    """The names of the packages that are wanted, and of those that they need."""
    found: set[str] = set()
    to_do = list(_WANTED)
    while to_do:
        name = to_do.pop()
        if name not in found:
            found.add(name)
            needs = [Requirement(text) for text in distribution(name).requires or ()]
            to_do += [
                requirement.name
                for requirement in needs
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ]
    return found


def _copy(name: str, packages: Path) -> None:
    if name == "midstream":  # it may be installed as a link to the sources; compiled kernels go with it
        shutil.copytree(_ROOT / name, packages / name, ignore=shutil.ignore_patterns("*.pyc"))
        return
    for file in distribution(name).files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), target)
