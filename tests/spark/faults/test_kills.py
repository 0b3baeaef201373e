"""Parts of a running query are killed: the output has every row once, whatever was killed and when."""

from __future__ import annotations

import random
import time

import pytest

from midstream.spark.task import CHECKPOINT_FORMAT
from tests.spark.faults.run import Run, until

pytestmark = pytest.mark.xdist_group("spark")

#: Kills that end the program; after the others it goes on by itself, if its master tries tasks again.
_ENDING = ("driver", "jvm")
#: Of every so many kills one comes at any moment, the others during a batch.
_ANY_MOMENT = 6


def _run_with_kills(run: Run, kinds: list[str], seed: int) -> None:
    rng = random.Random(seed)
    run.start()
    for number, kind in enumerate(kinds):
        _await_a_batch(run)
        began = time.monotonic()
        _await_a_batch(run)
        moment = time.monotonic() + rng.uniform(0, time.monotonic() - began)
        is_free = number % _ANY_MOMENT == _ANY_MOMENT - 1
        until(
            lambda at=moment, free=is_free, part=kind: (
                time.monotonic() > at and (free or run.is_in_batch()) and run.kill(part, rng)
            ),
            lambda part=kind: run.tell(f"a moment to kill the {part}"),
        )
        if kind in _ENDING:
            run.await_end_of_all()
            run.start()
    run.finish()
    run.await_end_of_all()
    run.check_output()


def _await_a_batch(run: Run) -> None:
    """Wait until one more batch is committed, and start the program again if it has ended."""
    before = run.committed()

    def is_further() -> bool:
        if run.is_over():
            assert run.driver.returncode != 0, "all input was processed before all kills were made"
            run.await_end_of_all()
            run.start()
        return run.committed() > before

    until(is_further, lambda: run.tell("another batch"))


def _check_kills(run: Run, kinds: list[str]) -> None:
    assert [kill.kind for kill in run.kills] == kinds
    in_batch = sum(kill.is_in_batch for kill in run.kills)
    assert in_batch >= 2 * len(kinds) / 3, run.kills
    print(f"{run.master}: {len(kinds)} kills, {in_batch} of them in a running batch, {run.starts} starts")


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize(
    ("master", "kinds"),
    [("local[2,4]", ["host", "worker", "driver"]), ("local-cluster[2,1,2048]", ["executor", "worker", "jvm"])],
)
def test_kills(master: str, kinds: list[str]) -> None:
    """A host, a worker, the driver, an executor, a JVM: the small version."""
    with Run(master, files=4 * len(kinds)) as run:
        _run_with_kills(run, kinds, seed=1)
        _check_kills(run, kinds)
        assert run.starts == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_local_without_retries(seed: int) -> None:
    """A task is tried once: the death of a worker ends the query, and it is started again."""
    kinds = ["worker", "host", "jvm", "daemon", "host"] if seed == 1 else ["host", "worker", "driver", "host", "daemon"]
    with Run("local[2]", files=4 * len(kinds), seed=seed) as run:
        _run_with_kills(run, kinds, seed)
        _check_kills(run, kinds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_local_with_retries(seed: int) -> None:
    """Everything but the death of the driver or its JVM is survived."""
    end = "driver" if seed == 3 else "jvm"
    kinds = ["worker", "host", "daemon", "template", "host", end, "daemon", "host", "worker"]
    with Run("local[2,4]", files=4 * len(kinds), seed=seed) as run:
        _run_with_kills(run, kinds, seed)
        _check_kills(run, kinds)
        assert run.starts == 2


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "checkpoint_format"), [(5, "2"), (6, "1")])
def test_cluster(seed: int, checkpoint_format: str) -> None:
    """Executors in processes of their own: their deaths are survived too, in both formats of the state store.

    Speculation is on, though here it starts no copies: all executors run on one host.
    """
    end = "jvm" if seed == 5 else "driver"
    kinds = ["executor", "host", "worker", "executor", end, "executor", "daemon", "host", "executor"]
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "1ms",
        CHECKPOINT_FORMAT: checkpoint_format,
    }
    with Run("local-cluster[2,1,2048]", files=4 * len(kinds), seed=seed, settings=settings) as run:
        _run_with_kills(run, kinds, seed)
        _check_kills(run, kinds)
        assert run.starts == 2
