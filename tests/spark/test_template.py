"""The template: where hosts come from, who starts it, and when it leaves."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from midstream.spark.hosts import pool, template, wire
from midstream.spark.hosts.server import lock_file
from midstream.spark.hosts.template import Template, start_host


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def templates(place: Path) -> list[psutil.Process]:
    """The templates of a folder."""
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "midstream-templ" and str(place) in (process.info["cmdline"] or ())
    ]


@pytest.fixture
def start(place: Path, jvm: subprocess.Popen[bytes]) -> Iterator[Callable[..., int | None]]:
    """Starts hosts that live by the same process; with it, all of them and their template leave."""
    yield lambda name, idle=600.0: start_host(place, name, [jvm.pid], idle)
    jvm.kill()
    jvm.wait()
    until(lambda: not [path for path in place.iterdir() if path.suffix == ".sock"], "hosts and template have left")


def stamp_of(place: Path, name: str) -> str | None:
    """Where a host stands, which it has to be there to tell."""
    until(lambda: is_there(place, name), f"a host {name}")
    host = pool.connect(place / f"{name}.sock")
    assert host is not None
    with host:
        return host.stamp()


def is_there(place: Path, name: str) -> bool:
    host = pool.connect(place / f"{name}.sock")
    if host is not None:
        host.__exit__(None, None, None)
    return host is not None


def test_hosts_come_from_one_template(place: Path, start: Callable[..., int | None]) -> None:
    """Workers that look for it at the same time start it once, and hosts live on without it."""
    names = [f"run-op-{cell}" for cell in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        processes = list(workers.map(start, names))
    assert None not in processes and len(set(processes)) == 4
    assert [stamp_of(place, name) for name in names] == [None] * 4
    (first,) = templates(place)
    hosts = [psutil.Process(process) for process in processes]
    assert {host.name() for host in hosts} == {"midstream-host"}
    assert {host.ppid() for host in hosts} == {first.pid}

    hosts[0].kill()
    until(lambda: not hosts[0].is_running(), "a host that was killed is no zombie")
    first.kill()
    until(lambda: not first.is_running(), "the end of the template")
    assert stamp_of(place, names[1]) is None
    assert start(names[0]) is not None
    assert stamp_of(place, names[0]) is None
    (second,) = templates(place)
    assert second.pid != first.pid


def test_a_template_and_its_hosts_leave_with_their_jvm(
    place: Path, start: Callable[..., int | None], jvm: subprocess.Popen[bytes]
) -> None:
    assert start("run-op-0") is not None
    assert stamp_of(place, "run-op-0") is None
    jvm.kill()
    jvm.wait()
    until(lambda: not list(place.iterdir()) and not templates(place), "the end of all")


def make_template(place: Path, watched: list[int]) -> Template:
    lock = lock_file(place / "template-x.lock", os.O_CREAT)
    assert lock is not None
    return Template(place, "template-x", lock, watched)


def test_a_template_that_nobody_asks_leaves(place: Path) -> None:
    make_template(place, [os.getpid()]).run(idle=0.0)
    assert list(place.iterdir()) == []


def test_a_template_leaves_with_a_process_that_it_can_only_look_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(process: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with subprocess.Popen(["sleep", "0.2"]) as leaving:
        make_template(place, [leaving.pid]).run()
    assert list(place.iterdir()) == []


def test_a_template_without_a_process_to_live_by_leaves(place: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    make_template(place, [gone.pid]).run()
    assert list(place.iterdir()) == []


def test_requests_that_make_no_sense_are_not_answered(place: Path, start: Callable[..., int | None]) -> None:
    start("run-op-0")
    (path,) = place.glob("template-*.sock")
    for message in (b"\0", b"GET / HTTP/1.1\r\n\r\n", wire._LENGTH.pack(12) + b'{"blobs":[]}'):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""
    assert start("run-op-1") is not None


def test_a_template_that_is_stopped_is_given_up(
    place: Path, start: Callable[..., int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start("run-op-0")
    assert stamp_of(place, "run-op-0") is None
    (stopped,) = templates(place)
    stopped.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(template, "_ANSWER_SECONDS", 0.2)
    assert start("run-op-1") is None
    stopped.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("interpreter", ["/there/is/no/python", "/bin/false", "/bin/true"])
def test_a_template_that_cannot_start_is_given_up(
    place: Path, jvm: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    assert start_host(place, "run-op-0", [jvm.pid], 600.0) is None
