"""Finding and starting the host of a cell, from a worker; sending hosts home, from the driver.

Hosts are named by query run, operator and cell. Their sockets are in a folder of the user's own under the temporary
folder, which nobody else may enter.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from midstream.errors import MidstreamError, SparkError
from midstream.spark.hosts import wire
from midstream.spark.hosts.cell import Loading, Outcome
from midstream.spark.hosts.server import PATIENCE, connected, open_process, over_mark, sweep
from midstream.spark.hosts.template import start_host
from midstream.spark.spec import JoinSpec

_logger = logging.getLogger("midstream")

_START_SECONDS = 90.0
_BUSY_SECONDS = 30.0
_LEAVE_SECONDS = 2.0
_LONGEST_SOCKET_PATH = 100


class HostLost(Exception):
    """The host has gone, or its engine is not at the batch that the store is at."""


def host_folder() -> Path:
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
    return f"{_plain_name(run)}-{operator}-{cell}"


def _plain_name(run: str) -> str:
    """A run's name as part of a file name. Users may have named its job group, so other characters are replaced."""
    return re.sub("[^0-9A-Za-z-]", "_", run)[:36]


def lifelines() -> list[int]:
    """The processes that this worker depends on: its daemon and the executor's JVM. Empty if no ancestor is a JVM.

    The daemon goes when a Spark context is stopped, even if the JVM stays. If it dies otherwise, its workers live on as
    nobody's children and still work for the JVM that they have known.
    """
    found = []
    pid = os.getppid()
    for _ in range(4):
        try:
            found.append(pid)
            if _is_jvm(pid):
                _last_lifelines[:] = found
                return found
            pid = int(_stat(pid)[1])
        except OSError:
            break
    return [pid for pid in _last_lifelines if _is_jvm(pid)]


_last_lifelines: list[int] = []


def _is_jvm(pid: int) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("java")
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """What the kernel tells of a process: its state, its parent, and more."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _is_alive(pid: int) -> bool:
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


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
        """The stamp of the host's engine."""
        self._connection.settimeout(_BUSY_SECONDS)
        answer, _ = self._ask({"do": "greet"})
        self._connection.settimeout(PATIENCE)
        stamp: str | None = answer["stamp"]
        return stamp

    def load(self, spec: JoinSpec, loading: Loading, stamp: str) -> None:
        """Have the host go on from what is stored."""
        parcels = list(loading.parcels)
        header = {"do": "load", "spec": spec.to_json(), "plan": loading.plan, "watermark": loading.watermark}
        routing = None if loading.routing is None else loading.routing.to_json()
        self._send(header | {"routing": routing, "stamp": stamp, "count": len(parcels)})
        for lane, parcel in parcels:
            self._send({"lane": lane}, [parcel])
        self._answer()

    def push(
        self,
        stamp: str,
        next_stamp: str,
        watermark: int,
        parcels: Sequence[tuple[int, bytes]],
        commands: Sequence[bytes],
        meanwhile: Callable[[], None],
        hand_on: Callable[[list[bytes]], None],
    ) -> Outcome:
        """Hand a batch over. `meanwhile` runs while the host works; its errors do not count as the host's.

        Large results go to `hand_on` as they come.
        """
        header = {"do": "push", "stamp": stamp, "next": next_stamp, "watermark": watermark}
        self._send(header | {"lanes": [lane for lane, _ in parcels]}, [*(blob for _, blob in parcels), *commands])
        meanwhile()
        answer, blobs = self._answer()
        while "more" in answer:
            hand_on(blobs)
            answer, blobs = self._answer()
        if "refused" in answer:
            raise HostLost(f"it stands at {answer['refused']!r}")
        count = answer["results"]
        return Outcome(blobs[:count], answer["report"], blobs[count:], answer["router"])

    def process(self) -> int:
        """The host's process number."""
        packed = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", packed)[0])

    def _ask(self, header: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        self._send(header)
        return self._answer()

    def _send(self, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        try:
            wire.send(self._connection, header, blobs)
        except OSError as problem:
            raise HostLost(str(problem)) from problem

    def _answer(self) -> tuple[dict[str, Any], list[bytes]]:
        answer: dict[str, Any] = {"working": True}
        try:
            while "working" in answer:
                answer, blobs = wire.receive(self._connection)
        except OSError as problem:
            raise HostLost(str(problem)) from problem
        if "error" in answer:
            raise SparkError(answer["error"] if answer["is_ours"] else f"host: {answer['error']}")
        return answer, blobs


def reach(name: str, idle: float) -> RemoteCell | None:
    """The host of that name, started if need be; None if there can be none."""
    try:
        path = host_folder() / f"{name}.sock"
    except (OSError, MidstreamError) as problem:
        _logger.warning("midstream: no place for hosts, so engines are loaded in every batch; %s", problem)
        return None
    watched = lifelines()
    found = connect(path)
    if found is not None:
        return found
    if not watched:
        return None  # nobody would tell the host when to leave
    try:
        process = start_host(path.parent, name, watched, idle)
    except OSError as problem:
        _logger.warning("midstream: no room for hosts, so engines are loaded in every batch; %s", problem)
        return None
    deadline = time.monotonic() + _START_SECONDS
    while process is not None and time.monotonic() < deadline:
        is_alive = _is_alive(process)
        found = connect(path)
        if found is not None or not is_alive:
            break
        time.sleep(0.02)
    if found is None:
        _logger.warning("midstream: the host %s could not be started; its engine is loaded in every batch", name)
    return found


def connect(path: Path) -> RemoteCell | None:
    """A connection to a host that is there and runs as this user."""
    connection = connected(path, _BUSY_SECONDS)
    return None if connection is None else RemoteCell(connection)


def send_home(run: str) -> int:
    """End this user's hosts of a query run, and keep others from starting; how many there were."""
    place = host_folder()
    over_mark(place, host_name(run, "", 0)).touch(mode=0o600)
    hosts = [host for path in place.glob(f"{_plain_name(run)}-*.sock") if (host := connect(path)) is not None]
    ended = [_end_host(host) for host in hosts]
    for descriptor in ended:
        if descriptor is not None:
            gone = select.poll()
            gone.register(descriptor, select.POLLIN)
            gone.poll(1000 * _LEAVE_SECONDS)
            os.close(descriptor)
    sweep(place)
    return len(hosts)


def _end_host(host: RemoteCell) -> int | None:
    """Kill a host, even a busy one: it keeps nothing that is not stored. The handle is on its process until it ends."""
    with host, contextlib.suppress(ProcessLookupError):
        process = host.process()
        descriptor = open_process(process)
        if descriptor is None:
            os.kill(process, signal.SIGKILL)
        else:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return descriptor
    return None
