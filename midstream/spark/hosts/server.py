"""A host: the process that keeps a cell's engine alive between Spark's batches.

Spark's Python workers come and go, and a cell is handed to any of them. The host stays. It listens on a Unix socket in
a folder that only its user may enter, talks to one worker at a time, and leaves when its query run is over, when nobody
has come for a while, or at once when the executor's JVM or its Python daemon is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from midstream.engine.routing.choice import RoutingRecord
from midstream.errors import MidstreamError
from midstream.spark.hosts import wire
from midstream.spark.hosts.cell import Cell, Loading
from midstream.spark.spec import JoinSpec

#: How long one side may keep the other waiting in the middle of a conversation.
PATIENCE = 600.0
#: While the host works it says so this often: silence, and not a long batch, means that it is lost.
_SIGN_SECONDS = 30.0
#: How often a process is looked for that cannot be waited for.
LOOK_SECONDS = 0.5
#: A lock that is held for longer than this is a host's, not that of somebody who sweeps.
_CLAIM_SECONDS = 0.5
#: The marks of runs that are over are kept for longer than a task could live on after its run.
_MARK_SECONDS = 600.0


def serve(folder: Path, name: str, watched: Sequence[int], idle: float) -> None:
    """Serve one cell until it is time to leave."""
    lock = claim(folder / f"{name}.lock")
    if lock is None:
        return  # another host has this cell already
    path = folder / f"{name}.sock"
    sweep(folder)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        os.chmod(path, 0o600)
        listener.listen(8)
        listener.settimeout(idle)
        # From here on: whoever cleans up while the socket is being made would leave it behind.
        for process in watched:
            threading.Thread(target=_leave_with, args=(process, folder, name), daemon=True).start()
        conversation = Conversation()
        try:
            # Checked once the socket exists: the driver sets the mark before it looks for sockets.
            while not over_mark(folder, name).exists():
                connection, _ = listener.accept()
                with connection:
                    if is_same_user(connection):
                        connection.settimeout(PATIENCE)
                        conversation.hold(connection)
        except TimeoutError:
            pass  # idle for too long
        finally:
            clean_up(folder, name)


class Conversation:
    """Answers one worker after the other."""

    def __init__(self) -> None:
        self._cell: Cell | None = None

    def hold(self, connection: socket.socket) -> None:
        """Answer until the worker leaves."""
        try:
            while True:
                header, blobs = wire.receive(connection)
                line = Line(connection)
                try:
                    with line.signs_of_life():
                        answer, results = self._answer(header, blobs, line)
                except MidstreamError as problem:
                    answer, results = {"error": str(problem), "is_ours": True}, []
                except Exception as problem:
                    # The message first: whoever shows one line shows that.
                    told = "".join(traceback.format_exception_only(problem)).strip()
                    answer, results = {"error": f"{told}\n{traceback.format_exc()}", "is_ours": False}, []
                line.send(answer, results)
        except (OSError, wire.BrokenConnection):
            return

    def _answer(self, header: dict[str, Any], blobs: list[bytes], line: Line) -> tuple[dict[str, Any], list[bytes]]:
        action = header.get("do")
        if action == "greet":
            return {"stamp": None if self._cell is None else self._cell.stamp}, []
        if action == "load":
            self._cell = None
            cell = Cell(JoinSpec.from_json(header["spec"]))
            stored = _parcels(line.connection, header["count"])
            told = header["routing"]
            routing = None if told is None else RoutingRecord.from_json(told)
            cell.load(Loading(header["plan"], header["watermark"], stored, routing), header["stamp"])
            self._cell = cell
            return {"stamp": cell.stamp}, []
        if action == "push":
            if self._cell is None or self._cell.stamp != header["stamp"]:
                return {"refused": None if self._cell is None else self._cell.stamp}, []
            lanes = header["lanes"]
            parcels, commands = list(zip(lanes, blobs, strict=False)), blobs[len(lanes) :]
            outcome = self._cell.push(
                header["stamp"],
                header["next"],
                header["watermark"],
                parcels,
                commands,
                lambda results: line.send({"more": True}, results),
            )
            report = outcome.report | {"resident": resident_bytes()}
            answer = {"report": report, "results": len(outcome.results), "router": outcome.router}
            return answer, outcome.results + outcome.snapshot
        return {"error": f"unknown request {action!r}", "is_ours": False}, []


class Line:
    """The host's end of a connection, which two threads may send on."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self._lock = threading.Lock()

    def send(self, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Send a message."""
        with self._lock:
            wire.send(self.connection, header, blobs)

    @contextlib.contextmanager
    def signs_of_life(self) -> Iterator[None]:
        """Say every now and then that the work on a request goes on."""
        is_over = threading.Event()

        def tell() -> None:
            while not is_over.wait(_SIGN_SECONDS):
                try:
                    self.send({"working": True})
                except OSError:
                    return

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            is_over.set()
            teller.join()


def _parcels(connection: socket.socket, count: int) -> Iterator[tuple[int, bytes]]:
    """Stored parcels follow one by one, so that neither side holds them all twice."""
    for _ in range(count):
        header, (parcel,) = wire.receive(connection)
        yield header["lane"], parcel


def connected(path: Path, seconds: float) -> socket.socket | None:
    """A connection to a process of this user that listens there, with a limit on how long each step may take."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(str(path))
        if is_same_user(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other side of a Unix socket runs as this user; the folder keeps others out already."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", packed)
    return bool(user == os.getuid())


def resident_bytes() -> int:
    """The memory that this process has in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


# Coming and going ----------------------------------------------------------------------------------------------------


def over_mark(folder: Path, name: str) -> Path:
    """The file that marks a query run as over: a task that outlives its run must not start another host."""
    return folder / f"{name.rsplit('-', 2)[0]}.over"


def claim(path: Path) -> int | None:
    """Hold a file's lock for as long as this process lives; None if another host holds it."""
    deadline = time.monotonic() + _CLAIM_SECONDS
    while True:
        descriptor = lock_file(path, os.O_CREAT)
        if descriptor is not None or time.monotonic() > deadline:
            return descriptor
        time.sleep(0.01)


def lock_file(path: Path, flags: int = 0) -> int | None:
    """Lock the file that has this name now; None if another process holds its lock or the file is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | flags, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking the name may have gone to another file, whose lock this is not.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def sweep(folder: Path) -> None:
    """Take away what killed hosts have left behind: locks that nobody holds, and their sockets; and old marks."""
    for path in folder.glob("*.lock"):
        descriptor = lock_file(path)
        if descriptor is not None:
            path.with_suffix(".sock").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            os.close(descriptor)
    for path in folder.glob("*.over"):
        try:
            if time.time() - path.stat().st_mtime > _MARK_SECONDS:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue


def _leave_with(process: int, folder: Path, name: str) -> None:
    """Leave when a process has gone."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = open_process(process)
        if descriptor is None:
            while is_there(process):
                time.sleep(LOOK_SECONDS)
        else:
            watched = select.poll()
            watched.register(descriptor, select.POLLIN)
            watched.poll()
    clean_up(folder, name)
    os._exit(0)


def open_process(process: int) -> int | None:
    """A descriptor that can be waited for until a process has gone; None where the system gives none.

    Kernels before 5.3 do not know it, and some containers do not allow it. A process that has gone already is a
    `ProcessLookupError`.
    """
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def is_there(process: int) -> bool:
    """Whether a process has not gone."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    with contextlib.suppress(OSError):
        # One that has ended stays until its parent asks for its end.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return True


def clean_up(folder: Path, name: str) -> None:
    """Take away what a host has made, while it still holds its lock."""
    for suffix in (".sock", ".lock"):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)
