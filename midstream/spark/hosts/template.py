"""A template: a process that has loaded all that a host needs, and becomes hosts by forking.

To start Python, import everything and get the kernels ready takes a second of processor time, which each cell would pay
at the start of a query and after the loss of its host. Instead an executor pays it once: a worker that needs a host
asks the executor's template, and the first worker to find none starts it. A fork takes milliseconds, and the memory of
what was loaded is shared.

The template has no engine and starts no threads; those of Arrow's memory allocator and of NumPy's BLAS library come
through a fork unharmed. It leaves when nobody has come for a while, or at once when the executor's JVM or its Python
daemon is gone; hosts live on without it. Whoever starts it hands it the lock of its name, locked, so that there is one
of a name from the first moment.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from midstream.session import get_ready
from midstream.spark.hosts import wire
from midstream.spark.hosts.server import (
    LOOK_SECONDS,
    PATIENCE,
    clean_up,
    connected,
    is_same_user,
    is_there,
    lock_file,
    open_process,
    serve,
)

#: How long a template waits for the next request.
_IDLE_SECONDS = 300.0
_ANSWER_SECONDS = 30.0
# The child goes on while its parent ends, so that a template is nobody's child and never left as a zombie.
_BEGIN = (
    "import os, sys\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid(); os.dup2(os.open(os.devnull, os.O_RDWR), 1)\n"
    "from midstream.spark.hosts.template import main\n"
    "main(sys.argv[1:])\n"
)


# For workers ---------------------------------------------------------------------------------------------------------


def start_host(place: Path, name: str, watched: Sequence[int], idle: float) -> int | None:
    """Have the template of this executor become a host; its process number, or None if it cannot be."""
    # What was shipped to an executor stands in its working folder and is on the path by a relative name.
    search = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    template = _template_name(watched, search)
    has_started = False
    deadline = time.monotonic() + PATIENCE  # kernels may have to be compiled
    while time.monotonic() < deadline:
        answer = _ask(place / f"{template}.sock", name, idle)
        if answer is not None:
            return answer["process"]
        lock = lock_file(place / f"{template}.lock", os.O_CREAT)
        if lock is not None:
            try:
                if has_started or not _start(place, template, watched, search, lock):
                    return None
                has_started = True
            finally:
                os.close(lock)  # the template has it too
        time.sleep(0.02)
    return None


def _template_name(watched: Sequence[int], search: str) -> str:
    """Workers that live by the same processes and have the same path and interpreter share a template."""
    shared = [*map(str, watched), sys.executable, search]
    return f"template-{hashlib.sha256(os.pathsep.join(shared).encode()).hexdigest()[:16]}"


def _ask(path: Path, name: str, idle: float) -> dict[str, int | None] | None:
    """Ask for a host; None if there is no template, or it is just leaving."""
    connection = connected(path, _ANSWER_SECONDS)
    if connection is None:
        return None
    with connection:
        try:
            wire.send(connection, {"name": name, "idle": idle})
            return wire.receive(connection)[0]
        except TimeoutError:
            return {"process": None}
        except OSError:
            return None


def _start(place: Path, template: str, watched: Sequence[int], search: str, lock: int) -> bool:
    arguments = ["--folder", str(place), "--name", template, "--lock", str(lock), "--watch", *map(str, watched)]
    try:
        subprocess.run(
            [sys.executable, "-c", _BEGIN, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": search},
            cwd="/",
            pass_fds=[lock],
            check=True,
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


# The process ---------------------------------------------------------------------------------------------------------


class Template:
    """Answers requests for hosts, one after the other."""

    def __init__(self, place: Path, name: str, lock: int, watched: Sequence[int]):
        self._place = place
        self._name = name
        self._lock = lock
        self._watched = watched
        #: Those of them that cannot be waited for.
        self._looked_for: list[int] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def run(self, idle: float = _IDLE_SECONDS) -> None:
        """Become hosts until it is time to leave."""
        path = self._place / f"{self._name}.sock"
        events = select.poll()
        try:
            for process in self._watched:
                descriptor = open_process(process)
                if descriptor is None:
                    self._looked_for.append(process)
                else:
                    events.register(descriptor, select.POLLIN)
            path.unlink(missing_ok=True)
            self._listener.bind(str(path))
            os.chmod(path, 0o600)
            self._listener.listen(64)
            events.register(self._listener, select.POLLIN)
            while self._is_asked(events, idle):
                self._answer()
        except ProcessLookupError:
            pass  # a process to live by is gone already
        clean_up(self._place, self._name)

    def _is_asked(self, events: select.poll, idle: float) -> bool:
        """Wait for the next request; False if it is time to leave."""
        deadline = time.monotonic() + idle
        while all(is_there(process) for process in self._looked_for):
            pause = LOOK_SECONDS if self._looked_for else idle
            found = [descriptor for descriptor, _ in events.poll(1000 * pause)]
            if found or time.monotonic() >= deadline:
                return found == [self._listener.fileno()]
        return False

    def _answer(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError, KeyError):
            if not is_same_user(connection):
                return
            connection.settimeout(_ANSWER_SECONDS)
            asked, _ = wire.receive(connection)
            name, idle = asked["name"], asked["idle"]
            try:
                process: int | None = os.fork()
            except OSError:
                process = None  # the system has no room for another process
            if process == 0:
                self._become_host(connection, name, idle)
            wire.send(connection, {"process": process})

    def _become_host(self, connection: socket.socket, name: str, idle: float) -> None:
        """In the new process: let go of what is the template's, serve, and never return."""
        try:
            connection.close()
            self._listener.close()
            os.close(self._lock)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            call_process("midstream-host")
            serve(self._place, name, self._watched, idle)
        finally:
            os._exit(0)


def call_process(name: str) -> None:
    """Give this process a name of at most 15 characters, which `top` and `ps -A` show."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def main(arguments: list[str] | None = None) -> None:
    """Run as a process of its own."""
    parser = argparse.ArgumentParser(description="Becomes the hosts of an executor's cells.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--lock", type=int, required=True)
    parser.add_argument("--watch", type=int, nargs="+", required=True)
    chosen = parser.parse_args(arguments)
    call_process("midstream-templ")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # hosts that end leave no zombies
    get_ready()
    gc.collect()
    gc.freeze()  # so that no collection in a host writes to what it shares
    Template(chosen.folder, chosen.name, chosen.lock, chosen.watch).run()
    os._exit(0)  # at once, as hosts do: unloading the libraries takes a while and gains nothing
