"""Fetching jars and keeping a broker, with stand-ins for Maven and Java: nothing is fetched and no JVM starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from midstream.app import kafka_broker, kafka_demo, kafka_jars
from midstream.app.kafka_jars import BROKER, BUNDLES, CONNECTOR
from midstream.errors import SparkError

MAVEN = """\
#!/bin/sh
echo run >> "{folder}/runs"
for word in "$@"; do case "$word" in -DoutputDirectory=*) to="${{word#*=}}";; esac; done
mkdir -p "$to"
for file in {files}; do : > "$to/$file"; done
{end}
"""
#: Answers nothing, but stays: a broker that takes long to start.
JAVA = '#!/bin/sh\ncase "$*" in *StorageTool*) {format};; *) echo $$ > "{folder}/broker.pid"; exec sleep 600;; esac\n'


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def use_maven(monkeypatch: pytest.MonkeyPatch, folder: Path, files: tuple[str, ...], end: str = "") -> None:
    script(folder / "bin" / "mvn", MAVEN.format(folder=folder, files=" ".join(files), end=end))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_the_pom_names_every_jar(bundle: kafka_jars.Bundle) -> None:
    space = "{http://maven.apache.org/POM/4.0.0}"
    root = xml.etree.ElementTree.fromstring(bundle.pom())
    found = [
        ":".join(dependency.findtext(f"{space}{part}", "") for part in ("groupId", "artifactId", "version"))
        for dependency in root.iter(f"{space}dependency")
    ]
    assert tuple(found) == bundle.coordinates
    exclusions = len(list(root.iter(f"{space}exclusion")))
    assert exclusions == (0 if bundle.is_complete else len(found))


def test_jars_are_fetched_once_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_maven(monkeypatch, tmp_path, CONNECTOR.files)
    said: list[str] = []
    cache = tmp_path / "cache"
    assert kafka_jars.find_missing(cache) == [BROKER, CONNECTOR]
    for _ in range(2):
        jars = kafka_jars.fetch(CONNECTOR, said.append, cache)
        assert sorted(CONNECTOR.files) == [jar.name for jar in jars]
    assert (tmp_path / "runs").read_text() == "run\n" and len(said) == 1 and "once" in said[0]
    assert kafka_jars.find_missing(cache) == [BROKER]
    assert [path.name for path in cache.iterdir()] == [CONNECTOR.folder]


@pytest.mark.parametrize(
    ("files", "end", "told"),
    [
        (BROKER.files, "echo '[ERROR] no route to host'; exit 1", "no route to host"),
        ((), "", "could not fetch Kafka's broker"),
    ],
    ids=["fails", "gives nothing"],
)
def test_a_fetch_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], end: str, told: str
) -> None:
    use_maven(monkeypatch, tmp_path, files, end)
    cache = tmp_path / "cache"
    with pytest.raises(SparkError, match=told) as raised:
        kafka_jars.fetch(BROKER, lambda _: None, cache)
    assert "\n" not in str(raised.value) and not list(cache.iterdir())


def test_without_maven_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkError, match=r"no command mvn; install it .*apt-get install maven"):
        kafka_jars.fetch(BROKER, lambda _: None, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_broker_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    java = script(tmp_path / "java", JAVA.format(folder=tmp_path, format="echo the disk is full; exit 3"))
    with pytest.raises(SparkError, match="the broker does not start: the disk is full"):
        kafka_broker.Broker([], str(java))
    assert not list(tmp_path.glob("midstream-*"))


def test_a_broker_dies_with_whoever_started_it(tmp_path: Path) -> None:
    """We are killed: broker and folder are gone all the same."""
    java = script(tmp_path / "java", JAVA.format(folder=tmp_path, format=":"))
    program = f"from midstream.app.kafka_broker import Broker; Broker([], {str(java)!r})"
    parent = subprocess.Popen([sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path)})
    pid_file = tmp_path / "broker.pid"
    until(lambda: pid_file.exists() and pid_file.read_text().strip())
    assert len(list(tmp_path.glob("midstream-kafka-*"))) == 1
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not list(tmp_path.glob("midstream-*")))
    until(lambda: not is_alive(int(pid_file.read_text())))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the broker is told by Linux that its keeper is gone")
def test_what_a_killed_keeper_leaves_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    java = script(tmp_path / "java", JAVA.format(folder=tmp_path, format=":"))
    folder, keeper = kafka_broker._start(str(java), [], 1, 2)
    until((tmp_path / "broker.pid").exists)
    assert kafka_broker.sweep() == [] and folder.exists()
    keeper.kill()
    keeper.communicate()
    assert folder.exists()
    until(kafka_broker.sweep)
    assert not folder.exists()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_other_peoples_folders_are_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "midstream-kafka-notes").mkdir()
    assert kafka_broker.sweep() == []
    assert (tmp_path / "midstream-kafka-notes").exists()


def test_the_input_is_cut_into_parts(tmp_path: Path) -> None:
    story = kafka_demo.Shop(rows=1_000, parts=4)
    total = kafka_demo.write_input(story, tmp_path)
    files = [tmp_path / name / f"{part:03d}.parquet" for name in kafka_demo.TOPICS for part in range(story.parts)]
    assert sum(pyarrow.parquet.read_metadata(file).num_rows for file in files) == total > 2_000
    assert len(list(tmp_path.rglob("*.parquet"))) == len(files)


def test_the_name_of_a_cluster_is_not_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([uuid.UUID(bytes=b"\xf8" * 16), uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(bytes=bytes(16))])
    monkeypatch.setattr(kafka_broker.uuid, "uuid4", lambda: next(drawn))
    assert kafka_broker.cluster_id() == "A" * 22


def test_rows_from_before_the_change_leave_the_windows_in_time() -> None:
    """The demo waits until the change is complete, so enough input has to follow it."""
    story = kafka_demo.Shop()
    taken_up = story.change_at + 1 + 2  # parts that were joined by the old plan; two may have been waiting
    delay = int(kafka_demo.DELAY.split()[0])
    gone = taken_up * kafka_demo.PART_SECONDS + kafka_demo.WINDOW_SECONDS + delay
    assert gone < story.parts * kafka_demo.PART_SECONDS, "the watermark is that of the batch before the last"


def test_one_kind_of_demo_at_a_time() -> None:
    from typer.testing import CliRunner

    from midstream.app.cli import app

    ended = CliRunner().invoke(app, ["demo", "--kafka", "--embedded"])
    assert ended.exit_code == 2
