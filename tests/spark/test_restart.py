"""Restarts from one checkpoint, with the same code and with changed code: what goes on, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.checkpoint.restart import read_ledgers

from . import streams
from .streams import SECOND, Input

pytestmark = pytest.mark.versions

WINDOWS: dict[str, int | None] = {"a": 20 * SECOND, "b": 20 * SECOND, "c": 20 * SECOND}
TEXT = streams.join_text(WINDOWS)
STARTED, MOVED, OTHER = "((a b) c)", "((b c) a)", "((a c) b)"
BEFORE, AFTER = 2, 2


def batches(shift: int) -> list[list[tuple[Any, Any, int | None]]]:
    """Eight seconds a batch, keys from 0 to 4."""
    return [
        [((v * 7 + shift) % 5, v, (8 * number + v % 8) * SECOND + shift) for v in range(number * 24, number * 24 + 24)]
        for number in range(BEFORE + AFTER)
    ]


GIVEN = Input({name: batches(place) for place, name in enumerate(WINDOWS)})


class StoppedQuery:
    """A query that has run for two batches, and the folder of its input, which has more by now."""

    def __init__(self, spark: Any, folder: Path):
        self.spark, self.folder = spark, folder
        Input({name: rows[:BEFORE] for name, rows in GIVEN.batches.items()}).write(folder)
        self.ran = streams.run(self.query(schedule=[(6 * SECOND, MOVED)]), folder / "checkpoint")
        Input({name: rows[BEFORE:] for name, rows in GIVEN.batches.items()}).write(folder, BEFORE)

    def query(self, text: str = TEXT, **options: Any) -> Any:
        frames = {name: streams.stream(self.spark, self.folder / name) for name in WINDOWS}
        settings: dict[str, Any] = {"delay": "1 second", "partitions": 2, "plan": STARTED, **options}
        return ms.spark.sql(text, frames, "ts", **settings)

    def copy(self, folder: Path) -> Path:
        """The checkpoint as it was when the query stopped."""
        return Path(shutil.copytree(self.folder / "checkpoint", folder / "checkpoint"))


@pytest.fixture(scope="module")
def stopped(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> StoppedQuery:
    return StoppedQuery(spark, tmp_path_factory.mktemp("stopped"))


def expect_after_restart(ran: streams.StreamRun, windows: dict[str, int | None] = WINDOWS) -> list[streams.Rows]:
    """What the batches after the restart have to give."""
    marks = [None] * BEFORE + ran.watermarks
    return streams.expect(GIVEN, windows, marks).by_batch[BEFORE:]


def check(ran: streams.StreamRun, windows: dict[str, int | None] = WINDOWS) -> None:
    rows = expect_after_restart(ran, windows)
    assert ran.rows_by_batch()[:AFTER] == rows and all(rows)
    assert not any(ran.rows_by_batch()[AFTER:])


def plans(ran: streams.StreamRun) -> set[str]:
    return {report["plan"] for reports in ran.reports() for report in reports.values()}


# What goes on --------------------------------------------------------------------------------------------------------


def test_the_first_run_followed_its_schedule(stopped: StoppedQuery) -> None:
    everything = streams.expect(GIVEN, WINDOWS, stopped.ran.watermarks)
    assert stopped.ran.rows_by_batch()[:BEFORE] == everything.by_batch[:BEFORE]
    assert {report["plan"] for report in stopped.ran.reports()[0].values()} == {STARTED}
    assert {report["plan"] for report in stopped.ran.reports()[BEFORE - 1].values()} == {MOVED}


def test_the_stored_plan_goes_on(stopped: StoppedQuery, tmp_path: Path) -> None:
    """Only windows are read back: every join state is a hole at first, and the migration tells how they fill."""
    ran = streams.run(stopped.query(), stopped.copy(tmp_path))
    check(ran)
    assert plans(ran) == {MOVED}
    first = ran.reports()[0]
    assert {report["place"] for report in first.values()} == {"loaded"}
    assert {report["loads"] for report in first.values()} == {1}
    assert all(report["mig"][0] == "jisc" and 0 <= report["mig"][2] <= 100 for report in first.values())
    assert {report["place"] for report in ran.reports()[1].values()} == {"host"}


def test_another_plan_strategy_demand_and_smaller_windows(stopped: StoppedQuery, tmp_path: Path) -> None:
    smaller = {**WINDOWS, "a": 9 * SECOND, "c": 2 * SECOND}
    query = stopped.query(streams.join_text(smaller), plan=OTHER, strategy="moving-state", demand="on")
    ran = streams.run(query, stopped.copy(tmp_path))
    check(ran, smaller)
    assert plans(ran) == {OTHER}
    assert ms.spark.progress(ran.progress[AFTER - 1]).demand["checks"] > 0


@pytest.mark.parametrize("executor", ["stairs", pytest.param("stems", marks=pytest.mark.slow)])
def test_another_executor_with_a_router(stopped: StoppedQuery, tmp_path: Path, executor: str) -> None:
    """Each cell routes alone, is not held to the plan, and reports the order that it takes."""
    ran = streams.run(stopped.query(executor=executor, routing="lottery", seed=3), stopped.copy(tmp_path))
    check(ran)
    reports = [report for reports in ran.reports() for report in reports.values()]
    assert {(report["exec"], report["policy"]) for report in reports} == {(executor, "lottery")}
    assert {report["place"] for report in ran.reports()[1].values()} == {"host"}


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["stairs", "stems"])
def test_cells_go_on_with_their_own_routing(spark: Any, tmp_path: Path, executor: str) -> None:
    """A query that routes from its first batch on: the record of a cell's routing is in its ledger, and goes on."""
    first = Input({name: rows[:BEFORE] for name, rows in GIVEN.batches.items()})
    first.write(tmp_path)

    def run() -> streams.StreamRun:
        frames = {name: streams.stream(spark, tmp_path / name) for name in WINDOWS}
        options = {"partitions": 2, "plan": STARTED, "executor": executor, "routing": "rank", "seed": 3}
        return streams.run(ms.spark.sql(TEXT, frames, "ts", delay="1 second", **options), tmp_path / "checkpoint")

    def read_record() -> tuple[Ledger, dict[str, Any]]:
        ((cell, stored),) = read_ledgers(spark, str(tmp_path / "checkpoint"))
        ledger = Ledger.from_bytes(stored, f"cell {cell}")
        assert ledger.router is not None
        return ledger, ledger.router

    ran = run()
    streams.check(ran, streams.expect(first, WINDOWS, ran.watermarks))
    _, before = read_record()
    Input({name: rows[BEFORE:] for name, rows in GIVEN.batches.items()}).write(tmp_path, BEFORE)
    again = run()
    check(again)
    ledger, after = read_record()
    assert (after["executor"], after["policy"], after["cell"]) == (executor, "rank", before["cell"])
    assert after["rates"]["chunk"] > before["rates"]["chunk"] > 0
    reports = [report for reports in (*ran.reports(), *again.reports()) for report in reports.values()]
    assert {(report["exec"], report["policy"]) for report in reports} == {(executor, "rank")}
    assert ledger.plan in {report["plan"] for report in again.reports()[-1].values()}


def test_no_plan_in_the_code_keeps_the_stored_one(stopped: StoppedQuery, tmp_path: Path) -> None:
    ran = streams.run(stopped.query(plan=None), stopped.copy(tmp_path))
    check(ran)
    assert plans(ran) == {MOVED}


def test_a_larger_window_that_counts_from_now(stopped: StoppedQuery, tmp_path: Path) -> None:
    larger = {**WINDOWS, "b": 3600 * SECOND}
    query = stopped.query(streams.join_text(larger), allow_incomplete=True)
    ran = streams.run(query, stopped.copy(tmp_path))
    most = expect_after_restart(ran, larger)
    found = ran.rows_by_batch()[:AFTER]
    # No result that all windows would have is missing; what was purged before the restart is.
    strict = {(row[:3], row[3]) for rows in expect_after_restart(ran) for row in rows}
    assert all(not rows - all_of for rows, all_of in zip(found, most, strict=True))
    assert strict <= {(row[:3], row[3]) for rows in found for row in rows}


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (TEXT, {"partitions": 1}, ["cells: the checkpoint has 2, the query has 1", "partitions, rates, hot_keys"]),
        pytest.param(TEXT, {"partitions": 4}, ["checkpoint has 2", "4", "partitions"], marks=pytest.mark.slow),
        (
            streams.join_text({**WINDOWS, "b": 21 * SECOND}),
            {},
            ["the window of 'b' was [RANGE 20 SECONDS] and would become [RANGE 21 SECONDS]", "allow_incomplete=True"],
        ),
        pytest.param(
            TEXT + " AND a.v < c.v",
            {},
            ["the checkpoint is of another query; bands", "'a.v', 'c.v'", "restart with the former query"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_the_checkpoint_cannot_serve(
    stopped: StoppedQuery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: dict[str, Any],
    told: list[str],
) -> None:
    """The cells refuse it in their first batch, where the driver could not read the checkpoint before."""

    def fail(session: Any, checkpoint: str) -> Any:
        raise OSError(f"{checkpoint} cannot be read")

    monkeypatch.setattr("midstream.spark.listener.read_ledgers", fail)
    found = streams.failure(stopped.query(text, **options), stopped.copy(tmp_path))
    assert all(part in found for part in told), found


@pytest.mark.slow
def test_another_order_of_the_keys(stopped: StoppedQuery, tmp_path: Path) -> None:
    """The same predicates in another order are the same routing."""
    text = TEXT.replace("a.k = b.k AND b.k = c.k", "c.k = b.k AND b.k = a.k")
    ran = streams.run(stopped.query(text), stopped.copy(tmp_path))
    check(ran)


CHAIN = (
    "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], c [RANGE 9 SECONDS] "
    "WHERE a.k = b.k AND b.v = c.v"
)


@pytest.mark.slow
def test_other_rates_and_another_order_in_from(stopped: StoppedQuery, tmp_path: Path) -> None:
    """A chain on two keys lays its cells out by the rates."""
    streams.run(stopped.query(CHAIN), tmp_path / "checkpoint")
    Input({name: rows[:1] for name, rows in GIVEN.batches.items()}).write(stopped.folder, BEFORE + AFTER)
    try:
        for options, other in [({"rates": {"c": 50}}, "share"), ({"text": reorder(CHAIN)}, "a.k")]:
            found = streams.failure(
                stopped.query(**{"text": CHAIN, "plan": STARTED, **options}), tmp_path / "checkpoint"
            )
            assert "rows would go to other cells" in found or "is of another query" in found, found
            assert "the checkpoint has" in found and "the query has" in found and other in found, found
    finally:
        for name in WINDOWS:
            (stopped.folder / name / f"{BEFORE + AFTER:05d}.parquet").unlink()


def reorder(text: str) -> str:
    return text.replace("a [RANGE 9 SECONDS], b [RANGE 9 SECONDS]", "b [RANGE 9 SECONDS], a [RANGE 9 SECONDS]")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("format", "cell 0 of 1: the checkpoint has format 99, but this Midstream reads format 1; go on with the"),
        pytest.param(
            "parcel",
            "these bytes are not a parcel of Midstream; restore the checkpoint from a copy",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, told: str
) -> None:
    """A processor that writes what another version would have written, or nonsense."""
    from midstream.spark import operator

    class Writing(operator.JoinProcessor):  # type: ignore[misc]
        def _take(self, key: Any, delivery: Any, timers: Any, fired: int | None = None) -> Any:
            yield from super()._take(key, delivery, timers, fired)
            if what == "format":
                content = bytes(self._ledger.get()[0])
                self._ledger.update((content[:14] + b"\x63\x00" + content[16:],))
            else:
                for stored in list(self._parcels.keys()):
                    self._parcels.updateValue(stored, (b"nonsense",))

    def query() -> Any:
        frames = {name: streams.stream(spark, tmp_path / name) for name in WINDOWS}
        return ms.spark.sql(TEXT, frames, "ts", streams.LONG, partitions=1)

    single = Input({name: rows[:1] for name, rows in GIVEN.batches.items()})
    single.write(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(operator, "JoinProcessor", Writing)
        frame = query()
    streams.run(frame, tmp_path / "checkpoint")
    single.write(tmp_path, 1)
    assert told in streams.failure(query(), tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "control", ["given", pytest.param("none", marks=pytest.mark.slow), pytest.param("default", marks=pytest.mark.slow)]
)
def test_a_changed_query_is_refused_although_no_rows_are_new(
    spark: Any, tmp_path: Path, request: pytest.FixtureRequest, control: str
) -> None:
    """The same query, or one that may go on, runs no batch for it. Another query has another default folder."""
    Input({name: rows[:1] for name, rows in GIVEN.batches.items()}).write(tmp_path)
    if control == "default":
        spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "place"))
        request.addfinalizer(lambda: spark.conf.unset("spark.sql.streaming.checkpointLocation"))

    def query(text: str = TEXT, **options: Any) -> Any:
        frames = {name: streams.stream(spark, tmp_path / name) for name in WINDOWS}
        # A name that all of them have does not let one be taken for another.
        settings = {"partitions": 1, "name": "changed", **options}
        if control == "given":
            settings["control"] = tmp_path / "control"
        return ms.spark.sql(text, frames, "ts", streams.LONG, **settings)

    assert streams.run(query(), tmp_path / "checkpoint").rows
    assert not streams.run(query(plan=OTHER), tmp_path / "checkpoint").batches
    if control == "default":
        other = streams.start(query(f"{TEXT} AND a.v <> c.v"), tmp_path / "checkpoint", streams.StreamRun())
        with pytest.raises(Exception, match="the checkpoint is of another query; thetas"):
            other.awaitTermination()
    larger = streams.join_text({**WINDOWS, "b": 3600 * SECOND})
    accepted = query(larger, allow_incomplete=True)
    failed = streams.start(query(larger), tmp_path / "checkpoint", streams.StreamRun())
    with pytest.raises(Exception, match="window"):
        failed.awaitTermination()
    told = ms.spark.reason(failed)
    assert told is not None and told.startswith("cell ") and "allow_incomplete=True" in told and "\n" not in told
    assert not streams.run(accepted, tmp_path / "checkpoint").rows
