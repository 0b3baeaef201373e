"""Joins on Spark with every version of PySpark that Midstream supports: ``python -m tests.spark.versions [4.1 ...]``.

The newest release of each version gets an environment of its own, ``.venv-pyspark-4.1`` and so on, beside ``.venv``;
the version that the running interpreter has is tested with that. Then the tests marked `versions` run: exactness,
restart, control, kills. The last lines say how each version did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORTED = ("4.1", "4.2", "4.3")
#: Versions of PySpark that need a newer Python than Midstream does.
PYTHON_FOR = {"4.3": (3, 11)}
MARKED = ("-m", "pytest", "-q", "-m", "versions", "tests/spark")


@dataclass(frozen=True)
class Outcome:
    """How the tests went with a version; `ok` is None where they could not run on this Python."""

    version: str
    told: str
    ok: bool | None

    def __str__(self) -> str:
        return f"PySpark {self.version}: {self.told}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.versions", description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", default=SUPPORTED, help=f"default: {' '.join(SUPPORTED)}")
    parser.add_argument("--only", help="an expression as pytest's -k takes it")
    given = parser.parse_args(arguments)
    outcomes = [test(version, ["-k", given.only] if given.only else []) for version in given.versions]
    print("\n" + "\n".join(map(str, outcomes)), flush=True)
    return int(any(outcome.ok is False for outcome in outcomes))


def test(version: str, options: list[str]) -> Outcome:
    """Make the environment of a version, and run the tests in it."""
    wanted = PYTHON_FOR.get(version, (3, 10))
    if sys.version_info < wanted:
        return Outcome(version, f"left out: it needs Python {'.'.join(map(str, wanted))} or newer", None)
    try:
        python = environment(version)
        found = installed(python)
    except subprocess.CalledProcessError as problem:
        return Outcome(version, f"could not be installed: {problem}", False)
    print(f"==> testing PySpark {found}", flush=True)
    began = time.monotonic()
    last = ""
    with subprocess.Popen([python, *MARKED, *options], cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    told = last if " in " in last else f"ended with status {running.returncode} after {time.monotonic() - began:.0f} s"
    return Outcome(found, told, running.returncode == 0)


def environment(version: str) -> str:
    """The interpreter of a version's environment, filled anew when pyproject.toml has changed."""
    if metadata.version("pyspark").startswith(f"{version}."):
        return sys.executable
    folder = ROOT / f".venv-pyspark-{version}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if not (stamp.exists() and stamp.stat().st_mtime >= (ROOT / "pyproject.toml").stat().st_mtime):
        print(f"==> PySpark {version}, some 400 MB, and what the tests need into {folder.name}", flush=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--editable", ".[test]", f"pyspark=={version}.*"], cwd=ROOT, check=True)
        stamp.touch()
    return str(python)


def installed(python: str) -> str:
    """The version of PySpark that an interpreter has."""
    ask = "from importlib.metadata import version; print(version('pyspark'))"
    return subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
