"""A Kafka broker to try things with: one node, on this machine only, whose data are gone with it.

It listens on a free port of 127.0.0.1. A keeper process (`kafka_keeper`) ends the broker and removes its folder when we
end. If the keeper itself was killed, the next start removes what it left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from midstream.app import kafka_keeper, scratch
from midstream.app.doctor import JAVA_ADVICE, find_java
from midstream.errors import SparkError

HOST = "127.0.0.1"
PARTITIONS = 2
_NAME = "kafka"
_JVM = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_START_SECONDS = 120.0
_END_SECONDS = 30.0
_TRIES = 3
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={host}:{controller}
log.dirs={folder}/data
num.partitions={partitions}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_API_VERSIONS = 18


class Broker:
    """A running broker; `address` is what clients call `bootstrap.servers`. Topics appear when they are written to."""

    def __init__(self, jars: list[Path], java: str | None = None):
        if java is None:
            found = find_java()
            if found is None or not found.ok:
                raise SparkError(f"kafka: the broker needs Java 17 or newer; {JAVA_ADVICE}")
            java = found.path
        sweep()
        for last in range(_TRIES - 1, -1, -1):
            self.port, controller = _free_ports()
            self.folder, self._keeper = _start(java, jars, self.port, controller)
            try:
                self._await_answer()
                return
            except BaseException as problem:
                self.stop()
                # Between looking for a port and listening on it, somebody else may have taken it.
                if not (last and isinstance(problem, SparkError) and "Address already in use" in str(problem)):
                    raise

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def stop(self) -> None:
        """End the broker and take its data away."""
        keeper = self._keeper
        assert keeper.stdin is not None and keeper.stderr is not None
        with contextlib.suppress(OSError):
            keeper.stdin.close()
        try:
            keeper.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            keeper.kill()  # the broker dies with it
            keeper.wait()
        keeper.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_answering(self.port):
            if self._keeper.poll() is not None:
                assert self._keeper.stderr is not None
                said = self._keeper.stderr.read().decode(errors="replace").strip()
                raise SparkError(f"kafka: the broker does not start: {said[-2000:] or 'it gives no reason'}")
            if time.monotonic() > deadline:
                raise SparkError(f"kafka: the broker does not answer within {_START_SECONDS:.0f} s")
            time.sleep(0.1)


def sweep() -> list[Path]:
    """Remove the folders of brokers that are gone."""
    return scratch.sweep(_NAME)


def is_answering(port: int) -> bool:
    """Whether a broker listens on a port and answers what versions of its protocol it has."""
    request = struct.pack(">hhih", _API_VERSIONS, 0, 1, -1)  # what, its version, number of the request, no client
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            found = connection.recv(10)
    except OSError:
        return False
    return len(found) == 10 and struct.unpack(">iih", found)[1:] == (1, 0)


def _start(java: str, jars: list[Path], port: int, controller: int) -> tuple[Path, subprocess.Popen[bytes]]:
    folder, lock = scratch.locked_folder(_NAME)
    try:
        properties = folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(host=HOST, port=port, controller=controller, folder=folder, partitions=PARTITIONS)
        )
        base = [java, *_JVM, "-cp", os.pathsep.join(map(str, jars))]
        make = [*base, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id(), "-c", str(properties)]
        keeper = [sys.executable, "-I", str(kafka_keeper.__file__), str(folder), str(lock)]
        process = subprocess.Popen(
            [*keeper, *make, "--", *base, "kafka.Kafka", str(properties)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C is for us; we end it
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    return folder, process


def cluster_id() -> str:
    """A name for a cluster, as Kafka wants it; one that begins with a dash would be taken for an option."""
    while True:
        name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not name.startswith("-"):
            return name


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for port in (first, second):
            port.bind((HOST, 0))
        return first.getsockname()[1], second.getsockname()[1]
