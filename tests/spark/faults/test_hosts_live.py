"""Hosts under a running query: when they are in place, what their loss costs, and when they are gone."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from tests.spark.faults.run import Run, until

pytestmark = pytest.mark.xdist_group("spark")


def _cells(run: Run) -> list[list[dict[str, Any]]]:
    """What the cells reported, by batch."""
    return [list(batch["cells"].values()) for batch in run.journal("batch") if batch["cells"]]


def _leftovers(run: Run) -> list[str]:
    """Files of hosts; those of a template stay as long as its JVM and daemon."""
    names = [name for name in os.listdir(run.folder / f"midstream-{os.getuid()}") if not name.endswith(".over")]
    return [name for name in names if not name.startswith("template-")] if run.parts("template") else names


@pytest.mark.slow
@pytest.mark.parametrize("ending", [pytest.param("stop-query", marks=pytest.mark.versions), "stop-session"])
def test_hosts_are_gone_soon_after_the_end_of_the_query(ending: str) -> None:
    with Run("local[2]", files=30) as run:
        run.start("--trigger", "100 milliseconds", "--ending", ending)
        until(lambda: run.committed() >= 2, lambda: run.tell("two batches"))
        assert len(run.parts("host")) == 2
        assert all(cell["host"] > 10_000_000 for batch in _cells(run) for cell in batch)
        (run.folder / "stop").touch()
        until(lambda: run.journal("done"), lambda: run.tell("the end of the query"))
        began = time.monotonic()
        until(lambda: not run.parts("host") and not _leftovers(run), "end of the hosts", 20)
        assert time.monotonic() - began < 5
        assert len(run.parts("jvm")) == 1, "the hosts have to leave while the JVM is still there"
        (run.folder / "leave").touch()
        run.await_end_of_all()
        assert not run.parts("host")


@pytest.mark.slow
def test_hosts_are_gone_at_once_when_the_jvm_is_killed() -> None:
    with Run("local[2]", files=30) as run:
        run.start()
        until(lambda: run.committed() >= 2, lambda: run.tell("two batches"))
        assert len(run.parts("host")) == 2
        assert run.kill("jvm", random.Random(0))
        until(lambda: not run.parts("host"), "end of the hosts", 2)
        run.await_end_of_all()
        assert not _leftovers(run)


@pytest.mark.slow
def test_a_killed_host_costs_a_reload_in_the_same_attempt() -> None:
    """In local mode a task is tried once, so a query that goes on has lost no attempt."""
    rng = random.Random(7)
    with Run("local[2]", files=40, rows=20_000) as run:
        run.start("--files", "4")
        for _ in range(5):
            before = run.committed()
            until(lambda before=before: run.committed() > before, lambda: run.tell("another batch"))
            moment = time.monotonic() + rng.uniform(0, 1)
            until(
                lambda at=moment: time.monotonic() > at and run.is_in_batch() and run.kill("host", rng),
                lambda: run.tell("a host to kill"),
            )
        run.finish()
        assert run.starts == 1
        reloads = [cell for batch in _cells(run)[1:] for cell in batch if cell["place"] != "host"]
        assert 1 <= len(reloads) <= 5
        assert {cell["place"] for cell in reloads} == {"loaded"}
        run.check_output()
        run.await_end_of_all()
        assert not _leftovers(run), "whoever starts a host sweeps up after those that were killed"


@pytest.mark.slow
def test_without_hosts_the_work_goes_on_and_is_counted() -> None:
    with Run("local[2]", files=4) as run:
        (run.folder / f"midstream-{os.getuid()}").write_text("not a folder")
        run.start()
        run.finish()
        assert run.starts == 1
        assert {cell["place"] for batch in _cells(run) for cell in batch} == {"worker"}
        run.check_output()


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,2048]"])
def test_hosts_are_in_place(master: str) -> None:
    with Run(master, files=24) as run:
        run.start()
        run.finish()
        places = [cell["place"] for batch in _cells(run)[1:] for cell in batch]
        print(master, {place: places.count(place) for place in set(places)})
        assert len(places) >= 40
        assert places.count("host") / len(places) >= 0.95
        run.check_output()


@pytest.mark.slow
def test_two_queries_of_one_session_have_hosts_of_their_own() -> None:
    with Run("local[2]", files=6) as run:
        run.start("--queries", "2")
        most = 0
        while not run.is_over():
            most = max(most, len(run.parts("host")))
            time.sleep(0.1)
        assert run.driver.returncode == 0, run.log()
        assert most == 4
        places = [cell["place"] for batch in _cells(run) for cell in batch]
        assert places.count("loaded") == 4
        run.check_output()
        run.check_output("output1")
