"""Finding and starting the host of a cell, from a worker; sending hosts home, from the driver.

Hosts are named by query run, operator and cell. Their sockets are in a folder of the user's own under the temporary
folder, which nobody else may enter.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from midstream.errors import SparkError
from midstream.spark import wire
from midstream.spark.cell import Loading, Outcome
from midstream.spark.host import PATIENCE, is_same_user, sweep
from midstream.spark.spec import JoinSpec

_START_SECONDS = 90.0
_BUSY_SECONDS = 30.0
_LONGEST_SOCKET_PATH = 100
# The child goes on while its parent ends, so that a host is nobody's child and never left as a zombie.
_BEGIN = (
    "import os, sys\n"
    "child = os.fork()\n"
    "if child: print(child, flush=True); os._exit(0)\n"
    "os.setsid(); os.dup2(os.open(os.devnull, os.O_RDWR), 1)\n"
    "from midstream.spark.host import main\n"
    "main(sys.argv[1:])\n"
)


class Refused(Exception):
    """The host stands elsewhere than the store."""


def folder() -> Path:
    """The folder of this user's hosts, made if missing; an error if somebody else could enter it."""
    path = Path(tempfile.gettempdir()) / f"midstream-{os.getuid()}"
    if len(str(path)) > _LONGEST_SOCKET_PATH - 50:
        path = Path("/tmp") / f"midstream-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or path.is_symlink():
        raise SparkError(f"hosts: {path} is not a folder of this user alone; remove it, or set TMPDIR to another place")
    return path


def host_name(run: str, operator: str, cell: int) -> str:
    """How the host of a cell is called."""
    return f"{run}-{operator}-{cell}"


def executor_jvm() -> int | None:
    """The JVM that this worker belongs to: usually its daemon's parent. None if no ancestor is a JVM."""
    pid = os.getppid()
    for _ in range(4):
        if pid <= 1:
            return None
        try:
            if Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("java"):
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return None
    return None


class RemoteCell:
    """A cell in a host, for the length of one batch."""

    def __init__(self, connection: socket.socket):
        self._connection = connection

    def __enter__(self) -> RemoteCell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def stamp(self) -> str | None:
        """Where the host's engine stands."""
        self._connection.settimeout(_BUSY_SECONDS)
        answer, _ = self._ask({"do": "greet"})
        self._connection.settimeout(PATIENCE)
        stamp: str | None = answer["stamp"]
        return stamp

    def load(self, spec: JoinSpec, loading: Loading, stamp: str) -> None:
        """Have the host go on from what is stored."""
        parcels = list(loading.parcels)
        header = {"do": "load", "spec": spec.to_json(), "plan": loading.plan, "watermark": loading.watermark}
        wire.send(self._connection, header | {"stamp": stamp, "count": len(parcels)})
        for lane, parcel in parcels:
            wire.send(self._connection, {"lane": lane}, [parcel])
        self._answer()

    def push(
        self,
        stamp: str,
        next_stamp: str,
        watermark: int,
        parcels: Sequence[tuple[int, bytes]],
        meanwhile: Callable[[], None],
    ) -> Outcome:
        """Hand a batch over; `meanwhile` is done while the host works."""
        header = {"do": "push", "stamp": stamp, "next": next_stamp, "watermark": watermark}
        wire.send(self._connection, header | {"lanes": [lane for lane, _ in parcels]}, [blob for _, blob in parcels])
        meanwhile()
        answer, blobs = self._answer()
        if "refused" in answer:
            raise Refused
        return Outcome(blobs[: answer["results"]], answer["report"], blobs[answer["results"] :])

    def leave(self) -> None:
        """Send the host home."""
        self._ask({"do": "leave"})

    def _ask(self, header: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        wire.send(self._connection, header)
        return self._answer()

    def _answer(self) -> tuple[dict[str, Any], list[bytes]]:
        answer, blobs = wire.receive(self._connection)
        if "error" in answer:
            raise SparkError(answer["error"] if answer["is_ours"] else f"host: {answer['error']}")
        return answer, blobs


def reach(name: str, idle: float) -> RemoteCell | None:
    """The host of that name, started if need be; None if there can be none."""
    path = folder() / f"{name}.sock"
    found = connect(path)
    if found is not None:
        return found
    jvm = executor_jvm()
    if jvm is None:
        return None  # nobody would tell the host when to leave
    process = _start(name, jvm, idle)
    deadline = time.monotonic() + _START_SECONDS
    while process is not None and time.monotonic() < deadline:
        found = connect(path)
        if found is not None or not Path(f"/proc/{process}").exists():
            return found or connect(path)
        time.sleep(0.02)
    return None


def connect(path: Path) -> RemoteCell | None:
    """A connection to a host that is there and runs as this user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_BUSY_SECONDS)
    try:
        connection.connect(str(path))
        if is_same_user(connection):
            return RemoteCell(connection)
    except OSError:
        pass
    connection.close()
    return None


def _start(name: str, jvm: int, idle: float) -> int | None:
    """Start a host; its process number."""
    arguments = ["--folder", str(folder()), "--name", name, "--jvm", str(jvm), "--idle", str(idle)]
    search = os.pathsep.join(one for one in sys.path if os.path.isabs(one))
    try:
        begun = subprocess.run(
            [sys.executable, "-c", _BEGIN, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": search},
            cwd="/",
            check=True,
            timeout=_START_SECONDS,
        )
        return int(begun.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def send_home(run: str) -> int:
    """Have this user's hosts of a query run leave; how many there were."""
    places = list(folder().glob(f"{run}-*.sock"))
    for path in places:
        host = connect(path)
        if host is not None:
            with host:
                try:
                    host.leave()
                except (OSError, SparkError):
                    continue
    sweep(folder())
    return len(places)
