"""Hosts: whom they answer, when an engine is in place, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.errors import SparkError
from midstream.spark.hosts import pool as hosts
from midstream.spark.hosts import server, wire
from midstream.spark.hosts.cell import NONE_YET, Cell, Loading
from midstream.spark.hosts.server import Conversation, claim, clean_up, over_mark, sweep
from midstream.spark.hosts.turn import Turn, take
from midstream.spark.parcels import spool
from midstream.spark.parcels.encoding import from_wire, to_stored, to_wire
from midstream.spark.reasons import reason_in
from midstream.spark.spec import JoinSpec
from tests.oracle.compare import multiset, rows_of

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64()})
SPEC = JoinSpec(
    "SELECT a.k, a.ts AS at, b.ts AS bt FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.k = b.k",
    schemas={"a": SCHEMA, "b": SCHEMA},
    event_time={"a": "ts", "b": "ts"},
    cells=1,
)
LANES = {lane.name: number for number, lane in enumerate(SPEC.routing.lanes)}


def _rows(number: int) -> pa.Table:
    return pa.table({"k": [1, 2, number], "ts": [10 * number, 10 * number + 1, 10 * number + 2]}, SCHEMA)


def _batch(number: int) -> dict[str, pa.Table]:
    return {"a": _rows(2 * number), "b": _rows(2 * number + 1)}


def _parcels(batch: dict[str, pa.Table]) -> list[tuple[int, bytes]]:
    return [(LANES[name], to_wire(rows)) for name, rows in batch.items()]


@dataclass
class Store:
    """What Spark's state store keeps of a cell."""

    stamp: str = ""
    parcels: list[tuple[int, bytes]] = field(default_factory=list)
    results: list[pa.Table] = field(default_factory=list)

    def loading(self) -> Loading:
        return Loading(None, NONE_YET, list(self.parcels))

    def commit(self, stamp: str, batch: dict[str, pa.Table], results: list[bytes]) -> None:
        self.stamp = stamp
        self.parcels += [(LANES[name], parcel) for name, rows in batch.items() for _, parcel in to_stored(rows)]
        self.results += [from_wire(content) for content in results]

    def check(self, batches: int) -> None:
        """The results are those of one engine that was never interrupted."""
        engine = ms.Engine(SPEC.query)
        expected = [engine.push(_batch(number)) for number in range(batches)]
        found = pa.concat_tables(self.results)
        assert found.num_rows > 0
        assert multiset(rows_of(found)) == multiset(rows_of(pa.concat_tables(expected)))


@contextlib.contextmanager
def _talk(conversation: Conversation) -> Iterator[hosts.RemoteCell]:
    """Talk to a host that is a thread of this process."""
    left, right = socket.socketpair()
    thread = threading.Thread(target=conversation.hold, args=(right,))
    thread.start()
    with hosts.RemoteCell(left) as remote:
        yield remote
    thread.join()
    right.close()


def _attempt(conversation: Conversation, store: Store, batch: dict[str, pa.Table]) -> tuple[bool, str, list[bytes]]:
    """What a worker does with a batch, short of the commit: whether the host was in place, its new stamp, results."""
    stamp = secrets.token_hex(8)
    with _talk(conversation) as host:
        is_in_place = host.stamp() == store.stamp
        if not is_in_place:
            host.load(SPEC, store.loading(), store.stamp)
        outcome = host.push(store.stamp, stamp, NONE_YET, _parcels(batch), [], lambda: None, _no_more)
    return is_in_place, stamp, outcome.results


def _no_more(results: list[bytes]) -> None:
    raise AssertionError("so few results come at the end")


def _nothing() -> None:
    pass


# Stamps --------------------------------------------------------------------------------------------------------------


def test_a_host_stays_in_place() -> None:
    conversation, store = Conversation(), Store()
    for number in range(4):
        is_in_place, stamp, results = _attempt(conversation, store, _batch(number))
        assert is_in_place == (number > 0)
        store.commit(stamp, _batch(number), results)
    store.check(4)


def test_a_failed_attempt_on_one_executor_and_a_commit_on_another() -> None:
    """Both have then seen as many batches, so only the stamp tells them apart."""
    here, there, store = Conversation(), Conversation(), Store()
    _, stamp, results = _attempt(here, store, _batch(0))
    store.commit(stamp, _batch(0), results)
    _attempt(here, store, _batch(9))  # other rows than the batch that is committed in the end; the attempt fails
    is_in_place, stamp, results = _attempt(there, store, _batch(1))
    assert not is_in_place
    store.commit(stamp, _batch(1), results)
    with _talk(here) as host:
        before = host.stamp()
        assert before not in (None, store.stamp)
        with pytest.raises(hosts.HostLost, match="it stands at"):
            host.push(store.stamp, "next", NONE_YET, _parcels(_batch(2)), [], _nothing, _no_more)
        assert host.stamp() == before, "a push that is refused changes nothing"
    is_in_place, stamp, results = _attempt(here, store, _batch(2))
    assert not is_in_place
    store.commit(stamp, _batch(2), results)
    store.check(3)


def test_an_attempt_that_is_repeated_on_the_same_host() -> None:
    conversation, store = Conversation(), Store()
    for number in range(3):
        _attempt(conversation, store, _batch(number))
        is_in_place, stamp, results = _attempt(conversation, store, _batch(number))
        assert not is_in_place
        store.commit(stamp, _batch(number), results)
    store.check(3)


def test_a_push_that_fails_leaves_the_host_invalid() -> None:
    conversation, store = Conversation(), Store()
    _, stamp, results = _attempt(conversation, store, _batch(0))
    store.commit(stamp, _batch(0), results)
    with _talk(conversation) as host:
        assert host.stamp() == store.stamp
        with pytest.raises(SparkError, match="host: "):
            host.push(store.stamp, "next", NONE_YET, [(0, b"no parcel")], [], _nothing, _no_more)
        assert host.stamp() is None
    is_in_place, stamp, results = _attempt(conversation, store, _batch(1))
    assert not is_in_place
    store.commit(stamp, _batch(1), results)
    store.check(2)


def test_a_worker_that_leaves_before_the_answer_has_committed_nothing() -> None:
    conversation, store = Conversation(), Store()
    _, stamp, results = _attempt(conversation, store, _batch(0))
    store.commit(stamp, _batch(0), results)

    def die() -> None:
        raise KeyboardInterrupt

    with _talk(conversation) as host, contextlib.suppress(KeyboardInterrupt):
        host.push(store.stamp, "never stored", NONE_YET, _parcels(_batch(7)), [], die, _no_more)
    is_in_place, stamp, results = _attempt(conversation, store, _batch(1))
    assert not is_in_place
    store.commit(stamp, _batch(1), results)
    store.check(2)


def test_a_push_that_breaks_off_on_its_way_was_never_begun() -> None:
    conversation, store = Conversation(), Store()
    _, stamp, results = _attempt(conversation, store, _batch(0))
    store.commit(stamp, _batch(0), results)
    sender, caught = socket.socketpair()
    parcels = _parcels(_batch(1))
    header = {
        "do": "push",
        "stamp": store.stamp,
        "next": "n",
        "watermark": NONE_YET,
        "lanes": [at for at, _ in parcels],
    }
    with sender, caught:
        wire.send(sender, header | {"lanes": [lane for lane, _ in parcels]}, [parcel for _, parcel in parcels])
        whole = caught.recv(1 << 20)
    left, right = socket.socketpair()
    with right:
        with left:
            left.sendall(whole[:-10])
        conversation.hold(right)
    is_in_place, stamp, results = _attempt(conversation, store, _batch(1))
    assert is_in_place
    store.commit(stamp, _batch(1), results)
    store.check(2)


def test_a_load_that_breaks_off_leaves_the_host_invalid() -> None:
    conversation, store = Conversation(), Store()
    _, stamp, results = _attempt(conversation, store, _batch(0))
    store.commit(stamp, _batch(0), results)
    left, right = socket.socketpair()
    with right:
        with left:
            header = {"do": "load", "spec": SPEC.to_json(), "plan": None, "watermark": NONE_YET, "stamp": store.stamp}
            wire.send(left, header | {"count": 2})
            wire.send(left, {"lane": 0}, [store.parcels[0][1]])
        conversation.hold(right)
    with _talk(conversation) as host:
        assert host.stamp() is None


@pytest.mark.parametrize("asked", [{}, {"do": "dance"}, {"do": "push"}, {"do": "load", "spec": "{"}, {"do": ["greet"]}])
def test_an_unknown_request_is_answered_with_an_error(asked: dict[str, Any]) -> None:
    left, right = socket.socketpair()
    thread = threading.Thread(target=Conversation().hold, args=(right,))
    thread.start()
    with left, right:
        for _ in range(2):
            wire.send(left, asked)
            answer, _ = wire.receive(left)
            assert ("error" in answer) or ("refused" in answer)
        left.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_garbage_ends_the_conversation_and_not_the_host() -> None:
    conversation, store = Conversation(), Store()
    _, stamp, results = _attempt(conversation, store, _batch(0))
    store.commit(stamp, _batch(0), results)
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        conversation.hold(right)
    with _talk(conversation) as host:
        assert host.stamp() == store.stamp


def test_a_cell_refuses_to_go_on_from_elsewhere() -> None:
    cell = Cell(SPEC)
    cell.load(Loading(None, NONE_YET, []), "here")
    with pytest.raises(SparkError, match="stands at 'here', the store at 'there'"):
        cell.push("there", "next", NONE_YET, [])
    assert cell.stamp == "here"


# Processes -----------------------------------------------------------------------------------------------------------

_HOST = """
import sys
from pathlib import Path
from midstream.spark.hosts.server import serve
folder, name, jvm, idle = sys.argv[1:]
serve(Path(folder), name, [int(jvm)], float(idle))
"""


@pytest.fixture
def start(place: Path, jvm: subprocess.Popen[bytes]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(name: str, idle: float = 600.0, program: str = _HOST) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", program, str(place), name, str(jvm.pid), str(idle)]))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def _left(place: Path) -> set[str]:
    """What is in the folder; a query of another test may end just now, and its mark, a UUID, come here too."""
    return {path.name for path in place.iterdir() if not re.fullmatch(r"[0-9a-f-]{36}\.over", path.name)}


def _reach(place: Path, name: str) -> hosts.RemoteCell:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = hosts.connect(place / f"{name}.sock")
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no host {name}")


def test_a_host_works_and_leaves_with_its_jvm(
    place: Path, start: Callable[..., subprocess.Popen[bytes]], jvm: subprocess.Popen[bytes]
) -> None:
    host = start("run-op-0")
    with _reach(place, "run-op-0") as remote:
        assert remote.process() == host.pid
        assert remote.stamp() is None
        remote.load(SPEC, Store().loading(), "")
        outcome = remote.push("", "next", NONE_YET, _parcels(_batch(0)), [], _nothing, _no_more)
        assert remote.stamp() == "next"
        assert outcome.report["resident"] > 10_000_000
    assert stat.S_IMODE((place / "run-op-0.sock").stat().st_mode) == 0o600
    jvm.kill()
    jvm.wait()
    host.wait(2)
    assert not _left(place)


def test_a_host_leaves_with_its_jvm_where_no_process_can_be_waited_for(
    place: Path, start: Callable[..., subprocess.Popen[bytes]], jvm: subprocess.Popen[bytes]
) -> None:
    """As in a container that does not allow it: then the process is looked for."""
    refusing = "import os\ndef refuse(process): raise PermissionError\nos.pidfd_open = refuse\n"
    host = start("run-op-0", program=refusing + _HOST)
    with _reach(place, "run-op-0") as remote:
        assert remote.stamp() is None
    os.kill(jvm.pid, signal.SIGKILL)  # a zombie until it is waited for
    host.wait(10)
    assert not _left(place)


def test_a_host_that_comes_after_the_end_of_its_jvm_leaves_nothing(place: Path) -> None:
    """Between its cleaning up and its end nothing more is made, however long that takes."""
    program = (
        "import os, pathlib, sys, time\n"
        "from midstream.spark.hosts import server\n"
        "end = os._exit\n"
        "def leave(code):\n"
        "    time.sleep(1.0)\n"
        "    end(code)\n"
        "os._exit = leave\n"
        "server.serve(pathlib.Path(sys.argv[1]), 'run-op-0', [int(sys.argv[2])], 60.0)\n"
    )
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    subprocess.run([sys.executable, "-c", program, str(place), str(gone.pid)], check=True, timeout=60)
    assert list(place.iterdir()) == []


def test_an_idle_host_leaves(place: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    host = start("run-op-0", idle=0.2)
    host.wait(60)
    assert not _left(place)


def test_a_cell_has_one_host_and_it_is_swept_up_after_a_kill(
    place: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    first = start("run-op-0")
    _reach(place, "run-op-0").__exit__(None, None, None)
    assert start("run-op-0").wait(60) == 0
    with _reach(place, "run-op-0") as remote:
        assert remote.process() == first.pid
    first.kill()
    first.wait()
    assert _left(place) == {"run-op-0.lock", "run-op-0.sock"}
    assert hosts.connect(place / "run-op-0.sock") is None
    other = start("run-op-1")
    with _reach(place, "run-op-1") as remote:
        assert remote.process() == other.pid
    assert _left(place) == {"run-op-1.lock", "run-op-1.sock"}


def test_the_end_of_a_run_ends_its_hosts_busy_or_not(
    place: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    names = ["run-op-0", "run-op-1", "run2-op-0"]
    ours, busy, other = (start(name) for name in names)
    talks = [_reach(place, name) for name in names]
    assert talks[1].stamp() is None  # a conversation that goes on keeps the others waiting
    began = time.monotonic()
    assert hosts.send_home("run") == 2
    ours.wait(1)
    busy.wait(1)
    assert time.monotonic() - began < 5
    assert other.poll() is None
    assert talks[2].stamp() is None
    for talk in talks:
        talk.__exit__(None, None, None)
    assert _left(place) == {"run.over", "run2-op-0.lock", "run2-op-0.sock"}
    late = start("run-op-1")
    assert late.wait(60) == 0, "a task that outlives its run gets no host"
    os.utime(over_mark(place, "run-op-1"), (0, 0))
    sweep(place)
    assert _left(place) == {"run2-op-0.lock", "run2-op-0.sock"}


def test_sweeping_takes_nothing_from_the_living(place: Path) -> None:
    """Claims, ends and sweeps at once: a cell never has two hosts, and a host keeps its files."""
    path, holders, most = place / "run-op-0.lock", [0], [0]
    deadline = time.monotonic() + 1.5
    problems: list[str] = []

    def host() -> None:
        while time.monotonic() < deadline and not problems:
            descriptor = claim(path)
            if descriptor is None:
                continue
            holders[0] += 1
            most[0] += 1
            if holders[0] != 1:
                problems.append("two hosts")
            path.with_suffix(".sock").touch()
            time.sleep(0.001)
            if not (path.exists() and path.with_suffix(".sock").exists()):
                problems.append("swept up alive")
            holders[0] -= 1
            clean_up(place, "run-op-0")
            os.close(descriptor)

    def sweeper() -> None:
        while time.monotonic() < deadline:
            sweep(place)

    threads = [threading.Thread(target=work) for work in (host, host, host, sweeper, sweeper)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert most[0] > 10


def test_a_name_given_by_users_is_no_path() -> None:
    name = hosts.host_name("../my job/*", "op", 3)
    assert name == "___my_job__-op-3"
    assert len(hosts.host_name("x" * 500, "0123abcd", 9999)) < 55


# Who may come --------------------------------------------------------------------------------------------------------


def _make_public(path: Path) -> None:
    path.chmod(0o755)


def _make_a_link(path: Path) -> None:
    other = path.parent / "elsewhere"
    other.mkdir(mode=0o700)
    path.rmdir()
    path.symlink_to(other)


def _make_a_file(path: Path) -> None:
    path.rmdir()
    path.touch(mode=0o700)


def _give_away(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path, 65534, 65534)


def test_work_goes_on_where_there_is_no_room_for_a_host(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hosts, "lifelines", lambda: [os.getpid()])
    monkeypatch.setattr(hosts, "start_host", fail)
    store = Store()
    taken = take(Turn(SPEC, "run", 0, "", NONE_YET, _parcels(_batch(0)), [], store.loading, _nothing))
    assert (taken.place, taken.loads) == ("worker", 1)


@pytest.mark.parametrize("change", [_make_public, _make_a_link, _make_a_file, _give_away])
def test_a_folder_that_is_not_safe_is_not_used_and_work_goes_on(place: Path, change: Callable[[Path], None]) -> None:
    change(place)
    with pytest.raises((SparkError, OSError)):
        hosts.host_folder()
    store = Store()
    for number in range(2):
        turn = Turn(SPEC, "run", 0, store.stamp, NONE_YET, _parcels(_batch(number)), [], store.loading, _nothing)
        taken = take(turn)
        assert (taken.place, taken.loads) == ("worker", 1)
        store.commit(taken.stamp, _batch(number), taken.outcome.results)
    store.check(2)


def test_the_workers_own_part_fails_by_itself(place: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    """An error of the state store must not pass for one of the host: its rows would be missing from the store."""
    start("run--0")
    _reach(place, "run--0").__exit__(None, None, None)

    def break_off() -> None:
        raise ConnectionResetError("the state store")

    with pytest.raises(ConnectionResetError, match="the state store"):
        take(Turn(SPEC, "run", 0, "", NONE_YET, _parcels(_batch(0)), [], Store().loading, break_off))
    taken = take(Turn(SPEC, "run", 0, "", NONE_YET, _parcels(_batch(0)), [], Store().loading, _nothing))
    assert (taken.place, taken.loads) == ("loaded", 1)


def test_nobody_else_can_connect(place: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can try it as another user")
    start("run-op-0")
    _reach(place, "run-op-0").__exit__(None, None, None)
    path = place / "run-op-0.sock"
    place.parent.chmod(0o755)
    program = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "one = socket.socket(socket.AF_UNIX); one.settimeout(20)\n"
        "try: one.connect(sys.argv[1])\n"
        "except PermissionError: print('kept out'); sys.exit()\n"
        "print('in', one.recv(100))\n"
    )

    def tried() -> str:
        found = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        return found.stdout.strip()

    assert tried() == "kept out"
    place.chmod(0o755)
    assert tried() == "kept out"
    path.chmod(0o666)
    assert tried() == "in b''", "even with open doors the host does not talk to another user"
    place.chmod(0o700)
    with _reach(place, "run-op-0") as remote:
        assert remote.stamp() is None


def test_without_a_jvm_there_is_no_host(place: Path) -> None:
    assert hosts.lifelines() == []
    assert hosts.reach("run-op-0", 1.0) is None
    assert not _left(place)


def test_a_host_that_is_stopped_is_given_up(
    place: Path, start: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that does not answer is waited for a while, then the work is done in the worker."""
    monkeypatch.setattr(hosts, "_BUSY_SECONDS", 0.2)
    host = start("run--0")
    _reach(place, "run--0").__exit__(None, None, None)
    host.send_signal(signal.SIGSTOP)
    store = Store()
    taken = take(Turn(SPEC, "run", 0, "", NONE_YET, _parcels(_batch(0)), [], store.loading, _nothing))
    assert taken.place == "worker"
    store.commit(taken.stamp, _batch(0), taken.outcome.results)
    store.check(1)


def test_a_host_talks_to_one_worker_at_a_time(
    place: Path, start: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    start("run-op-0")
    with _reach(place, "run-op-0") as first:
        first.load(SPEC, Store().loading(), "")
        with monkeypatch.context() as patch:
            patch.setattr(hosts, "_BUSY_SECONDS", 0.2)
            with _reach(place, "run-op-0") as second, pytest.raises(hosts.HostLost, match="timed out"):
                second.stamp()
        first.push("", "next", NONE_YET, _parcels(_batch(0)), [], _nothing, _no_more)
    with _reach(place, "run-op-0") as second:
        assert second.stamp() == "next"


def test_a_host_that_works_for_long_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says now and then that it still works; only silence means that it is lost."""
    monkeypatch.setattr(hosts, "PATIENCE", 0.3)
    monkeypatch.setattr(server, "_SIGN_SECONDS", 0.05)
    load = Cell.load

    def load_slowly(cell: Cell, *args: Any) -> None:
        threading.Event().wait(1.5)
        load(cell, *args)

    monkeypatch.setattr(Cell, "load", load_slowly)
    conversation, store = Conversation(), Store()
    is_in_place, stamp, results = _attempt(conversation, store, _batch(0))
    assert not is_in_place
    store.commit(stamp, _batch(0), results)
    store.check(1)


def test_an_error_in_a_host_begins_with_what_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError("no room for 7 rows")

    monkeypatch.setattr(Cell, "push", fail)
    with pytest.raises(SparkError) as told:
        _attempt(Conversation(), Store(), _batch(0))
    assert str(told.value).startswith("host: MemoryError: no room for 7 rows\nTraceback")
    lost = f"PythonException: Traceback (most recent call last):\n  File x\nmidstream.errors.SparkError: {told.value}\n"
    assert reason_in(lost) == "host: MemoryError: no room for 7 rows"


def test_no_file_is_left_where_there_is_no_room_for_the_last_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(spool, "DIRECT_BYTES", 0)
    kept = spool.Spool()
    kept.put([b"a result"])

    class Full:
        def close(self) -> None:
            raise OSError("no space left on device")

    monkeypatch.setattr(kept, "_file", Full())
    with pytest.raises(OSError, match="no space left"), kept:
        raise ValueError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_no_file_is_left_where_a_batch_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(spool, "DIRECT_BYTES", 0)

    def fail(*args: Any) -> None:
        args[-1]([b"a result"])
        assert len(list(tmp_path.iterdir())) == 1
        raise error

    monkeypatch.setattr(Cell, "push", fail)
    with pytest.raises(error):
        take(Turn(SPEC, None, 0, "", NONE_YET, _parcels(_batch(0)), [], Store().loading, _nothing))
    assert not list(tmp_path.iterdir())


_JVM = """
import subprocess, sys, time
subprocess.run([sys.argv[1], "-c", sys.argv[2], sys.argv[1], sys.argv[3]])
time.sleep(60)
"""
_DAEMON = "import subprocess, sys; subprocess.run([sys.argv[1], '-c', sys.argv[2]])"
_WORKER = """
import os, sys
from midstream.spark.hosts import pool as hosts
print(*hosts.lifelines(), flush=True)
sys.stdin.readline()
print(*hosts.lifelines(), flush=True)
"""


def test_a_worker_whose_daemon_has_died_still_knows_its_jvm(tmp_path: Path) -> None:
    java = tmp_path / "java"
    shutil.copy(os.path.realpath(sys.executable), java)
    environment = os.environ | {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [str(java), "-c", _JVM, sys.executable, _DAEMON, _WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as jvm:
        try:
            assert jvm.stdin is not None and jvm.stdout is not None
            daemon, known = map(int, jvm.stdout.readline().split())
            assert known == jvm.pid
            os.kill(daemon, signal.SIGKILL)
            deadline = time.monotonic() + 30
            while hosts._is_alive(daemon) and time.monotonic() < deadline:
                time.sleep(0.01)
            jvm.stdin.write("\n")
            jvm.stdin.flush()
            assert jvm.stdout.readline().split() == [str(jvm.pid)]
        finally:
            jvm.kill()
