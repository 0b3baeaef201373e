"""The processes of a job, found by a mark in their environment, wherever they hang in the process tree.

Hosts have no parent, and neither have workers whose daemon is gone. But every child inherits the environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "MIDSTREAM_SOAK"
KINDS = ("driver", "jvm", "workers", "hosts")


@dataclass(frozen=True)
class JobProcess:
    """A process and the part it plays."""

    pid: int
    kind: str

    def memory(self) -> int:
        """Its bytes in memory, with its share of shared memory; 0 if it has gone."""
        try:
            lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)

    def kill(self) -> bool:
        """Kill it at once; False if it had gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
            return True
        return False


def find_processes(mark: str) -> Iterator[JobProcess]:
    """The processes that carry a mark."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                continue
            program = Path(os.readlink(entry / "exe")).name
        except OSError:
            continue
        yield JobProcess(int(entry.name), _kind(program, command))


def _kind(program: str, command: str) -> str:
    if program.startswith("java"):
        return "jvm"
    if "midstream.spark.hosts" in command:
        return "hosts"
    return "workers" if "pyspark.daemon" in command else "driver"


def measure_memory(mark: str) -> dict[str, int]:
    """Bytes by kind."""
    found = dict.fromkeys(KINDS, 0)
    for part in find_processes(mark):
        found[part.kind] += part.memory()
    return found
