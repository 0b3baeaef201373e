"""A cell's ledger and store over a plain dict: parcels stay few and small, expire on time, and nothing is lost."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.options import EngineOptions
from midstream.spark.checkpoint.ledger import FORMAT, MERGED_AT_ONCE, Ledger, Parcel
from midstream.spark.checkpoint.restart import find_refusal
from midstream.spark.checkpoint.store import CellStore, drop_late, open_ledger
from midstream.spark.parcels.encoding import LARGEST_PARCEL, from_stored
from midstream.spark.spec import JoinSpec

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "ts": pa.int64()})
TEXT = "SELECT a.v, b.v AS w FROM a [RANGE 10 SECONDS], b [RANGE 60 SECONDS] WHERE a.k = b.k"
SECOND = 1_000_000
FEW = 3 * MERGED_AT_ONCE


class Map(dict[Any, Any]):
    """Spark's map state, counting what is written."""

    written = 0

    def getValue(self, key: tuple[int, int]) -> tuple[bytes] | None:
        return self.get(key)

    def updateValue(self, key: tuple[int, int], value: tuple[bytes]) -> None:
        assert key not in self, "a parcel is written once"
        self.written += len(value[0])
        self[key] = value

    def removeKey(self, key: tuple[int, int]) -> None:
        del self[key]


def spec_of(text: str = TEXT, **options: Any) -> JoinSpec:
    settings: dict[str, Any] = {"cells": 2, **options}
    return JoinSpec(text, {"a": SCHEMA, "b": SCHEMA}, {"a": "ts", "b": "ts"}, **settings)


def store_of(spec: JoinSpec | None = None) -> tuple[CellStore, Map]:
    spec = spec or spec_of()
    parcels = Map()
    return CellStore(spec, parcels, open_ledger(None, spec, "cell 0 of 2"), "cell 0 of 2"), parcels


def rows(times: list[int], text: str = "x") -> pa.Table:
    return pa.table({"k": times, "v": [text] * len(times), "ts": times}, schema=SCHEMA)


def kept_times(store: CellStore, lane: int) -> list[int]:
    listed = [parcel for parcel in store.ledger.parcels if parcel.lane == lane]
    return sorted(t for _, content in store.read(listed) for t in from_stored(content, "")["ts"].to_pylist())


def check_listed(store: CellStore, parcels: Map) -> None:
    """The ledger lists exactly what is in the map, with sizes and ends as they are."""
    assert {parcel.key for parcel in store.ledger.parcels} == set(parcels)
    windows = {0: 10 * SECOND, 1: 60 * SECOND}
    for parcel in store.ledger.parcels:
        content = parcels[parcel.key][0]
        table = from_stored(content, "")
        assert (parcel.size, parcel.rows) == (len(content), table.num_rows)
        assert parcel.until == max(table["ts"].to_pylist()) + windows[parcel.lane]


def test_a_thousand_small_batches_leave_few_parcels() -> None:
    """No row in its window is lost, none is kept for long after it, and a row is rewritten a few times at most."""
    store, parcels = store_of()
    rng = random.Random(1)
    sent: dict[int, list[int]] = {0: [], 1: []}
    most, size = 0, 0
    for batch in range(1_000):
        now = batch * SECOND // 5
        watermark = now - 3 * SECOND
        for lane in (0, 1):
            times = [max(watermark, now - rng.randrange(3 * SECOND)) for _ in range(rng.choice([0, 1, 3, 20]))]
            store.add(lane, rows(times))
            sent[lane] += times
            size += 24 * len(times)
        store.expire(watermark)
        store.merge(watermark)
        store.ledger = Ledger.from_bytes(store.ledger.to_bytes(), "cell 0 of 2")
        for lane in (0, 1):
            most = max(most, sum(parcel.lane == lane for parcel in store.ledger.parcels))
        if batch % 100 == 99:
            check_listed(store, parcels)
            for lane, window in ((0, 10 * SECOND), (1, 60 * SECOND)):
                kept = kept_times(store, lane)
                alive = sorted(t for t in sent[lane] if t + window >= watermark)
                assert [t for t in kept if t + window >= watermark] == alive
                assert len(kept) <= 3 * len(alive) + 100
    assert most <= FEW
    assert len(store.ledger.to_bytes()) < 4_000
    assert parcels.written < 1_000 * 2 * 2_500


def test_parcels_of_every_size_stay_few() -> None:
    """Batches of a few rows and of many: merging goes through all tiers and ends below the largest parcel."""
    store, parcels = store_of(spec_of(TEXT.replace("[RANGE 60 SECONDS]", "[UNBOUNDED]")))
    rng = random.Random(2)
    total = 0
    for batch in range(300):
        count = rng.choice([1, 1, 1, 10, 100, 2_000])
        table = pa.table(
            {
                "k": [rng.getrandbits(60) for _ in range(count)],
                "v": [f"{rng.getrandbits(200):x}" for _ in range(count)],
                "ts": list(range(total, total + count)),
            },
            schema=SCHEMA,
        )
        store.add(1, table)
        total += count
        store.merge(batch)
        assert all(parcel.size <= LARGEST_PARCEL and parcel.until is None for parcel in store.ledger.parcels)
        small = [parcel for parcel in store.ledger.parcels if parcel.size < 1 << 20]
        assert len(small) <= FEW
    assert kept_times(store, 1) == list(range(total))
    assert (
        sum(parcel.size for parcel in store.ledger.parcels)
        == store.ledger.stored_bytes
        == sum(len(content) for (content,) in parcels.values())
    )


def test_parcels_expire_with_their_last_row() -> None:
    """A row is in its window up to and including its end."""
    store, parcels = store_of()
    store.add(0, rows([0, 7 * SECOND]))
    store.add(0, rows([]))
    store.add(1, rows([3]))
    assert [parcel.until for parcel in store.ledger.parcels] == [17 * SECOND, 60 * SECOND + 3]
    store.expire(17 * SECOND)
    assert len(parcels) == 2
    store.expire(17 * SECOND + 1)
    assert [parcel.lane for parcel in store.ledger.parcels] == [1] == [lane for _, lane in parcels]


def test_merged_parcels_lose_rows_that_no_window_has() -> None:
    store, parcels = store_of()
    for time in range(MERGED_AT_ONCE):
        store.add(0, rows([time * SECOND]))
    store.merge(13 * SECOND)
    (parcel,) = store.ledger.parcels
    assert kept_times(store, 0) == [time * SECOND for time in range(3, MERGED_AT_ONCE)]
    assert (parcel.rows, parcel.until) == (MERGED_AT_ONCE - 3, (MERGED_AT_ONCE + 9) * SECOND)
    check_listed(store, parcels)


def test_merging_what_no_window_has_leaves_nothing() -> None:
    store, parcels = store_of()
    for time in range(MERGED_AT_ONCE):
        store.add(0, rows([time]))
    store.merge(100 * SECOND)
    assert store.ledger.parcels == [] and not parcels


def test_only_rows_before_the_watermark_are_late() -> None:
    table = rows([5, 3, 4, 4])
    kept, late = drop_late(table["ts"].to_numpy(), table, 4)
    assert kept["ts"].to_pylist() == [5, 4, 4] and late is not None and late.tolist() == [1]
    assert drop_late(table["ts"].to_numpy(), table, 3) == (table, None)
    assert drop_late(table["ts"].to_numpy()[:0], table.slice(0, 0), 9)[1] is None


def test_hot_keys_of_any_size_come_back() -> None:
    """Integers that only a decimal holds are values of a decimal key."""
    keys = pa.schema({"k": pa.decimal128(38, 0), "ts": pa.int64()})
    text = "SELECT x.k FROM a [RANGE 1 SECOND] x, b [RANGE 1 SECOND] y WHERE x.k = y.k"
    spec = JoinSpec(text, {"a": keys, "b": keys}, "ts", cells=4, hot_keys={"x.k": [10**20, -(10**30), 3]})
    assert JoinSpec.from_json(spec.to_json()).routing.fingerprint() == spec.routing.fingerprint()


def test_a_spec_comes_back_with_its_lanes() -> None:
    """Aliases of one stream share a lane, unless a hot key is spread for one of them."""
    text = "SELECT x.v, y.v AS w FROM a [RANGE 1 SECOND] x, a [RANGE 1 SECOND] y WHERE x.k = y.k"
    for hot_keys in ({}, {"x.k": [3, 4]}):
        spec = spec_of(
            text, hot_keys=hot_keys, rates={"x": 2.0}, plan="(y x)", schedule=((5, "(x y)"),), delays={"a": 7}
        )
        again = JoinSpec.from_json(spec.to_json())
        assert again == spec and again.identity == spec.identity
        assert again.routing.fingerprint() == spec.routing.fingerprint()
        assert len(again.routing.lanes) == (2 if hot_keys else 1)


# What a checkpoint keeps ---------------------------------------------------------------------------------------------


def test_a_ledger_comes_back() -> None:
    store, _ = store_of(spec_of(plan="(b a)"))
    store.add(0, rows([1, 2]))
    ledger = store.ledger
    ledger.plan, ledger.stamp, ledger.watermark, ledger.timer = "(b a)", "abc", 17, 10_001
    ledger.newest = {"a": -5}
    assert Ledger.from_bytes(ledger.to_bytes(), "here") == ledger
    assert ledger.parcels == [Parcel(0, 0, 2, ledger.parcels[0].size, 10 * SECOND + 2)]


def test_a_damaged_ledger_is_noticed() -> None:
    content = store_of()[0].ledger.to_bytes()
    for place in range(0, len(content), 3):
        broken = bytearray(content)
        broken[place] ^= 0x40
        with pytest.raises(ms.SparkError, match=r"cell 3 of 4: .*(damaged state|format|not Midstream's).*checkpoint"):
            Ledger.from_bytes(bytes(broken), "cell 3 of 4")
    for length in (0, 5, 19, 20, len(content) - 1):
        with pytest.raises(ms.SparkError, match="cell 3 of 4: "):
            Ledger.from_bytes(content[:length], "cell 3 of 4")


def test_a_ledger_of_another_format() -> None:
    content = store_of()[0].ledger.to_bytes()
    other = content[:14] + (FORMAT + 1).to_bytes(2, "little") + content[16:]
    told = f"cell 0: the checkpoint has format {FORMAT + 1}, but this Midstream reads format {FORMAT}; go on with"
    with pytest.raises(ms.SparkError, match=told):
        Ledger.from_bytes(other, "cell 0")


def test_a_parcel_that_is_gone_or_damaged_is_told() -> None:
    store, parcels = store_of()
    store.add(0, rows([1]))
    (key,) = parcels
    (content,) = parcels[key]
    parcels[key] = (content[:-3] + b"???",)
    for time in range(MERGED_AT_ONCE):
        store.add(0, rows([time]))
    with pytest.raises(ms.SparkError, match=r"cell 0 of 2: damaged parcel; restore the checkpoint from a copy"):
        store.merge(0)
    del parcels[key]
    with pytest.raises(ms.SparkError, match=r"cell 0 of 2: parcel 0 is listed but not in the state store; restore"):
        list(store.read(store.ledger.parcels))


def reopen(text: str = TEXT, before: JoinSpec | None = None, **options: Any) -> Ledger:
    """The ledger of one query opened by another."""
    data = open_ledger(None, before or spec_of(), "").to_bytes()
    return open_ledger(data, spec_of(text, **options), "cell 0 of 2")


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("10 SECONDS", "3 SECONDS"),
        TEXT.replace("SELECT a.v, b.v AS w", "SELECT upper(b.v) AS other"),
        TEXT.replace("SELECT a.v", "SELECT a.v AS name"),
    ],
)
def test_a_smaller_window_or_other_outputs_are_taken(text: str) -> None:
    spec = spec_of(text)
    assert reopen(text, plan="(b a)", options=EngineOptions(strategy="moving-state")).windows == spec.windows


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            TEXT.replace("10 SECONDS", "11 SECONDS"),
            r"'a' was \[RANGE 10 SECONDS\] and would become \[RANGE 11 SECONDS\]; .* with allow_incomplete=True",
        ),
        (TEXT.replace("[RANGE 60 SECONDS]", "[UNBOUNDED]"), r"the window of 'b' was .* would become \[UNBOUNDED\]"),
        (
            TEXT.replace("a.k = b.k", "a.k = b.k AND a.v < b.v"),
            "the checkpoint is of another query; thetas: .*a.v < b.v",
        ),
        (TEXT.replace("a.k = b.k", "a.k = b.k AND a.v = 'x'"), "the checkpoint is of another query; filters: "),
        (TEXT.replace("a.k = b.k", "a.v = b.v"), r"other cells .* a.k = b.k \(int64\).* a.v = b.v \(string\)"),
        (
            TEXT.replace("b [", "a [").replace("SECONDS] WHERE", "SECONDS] b WHERE"),
            "lanes: .*of b, as b.*of a, as a; b",
        ),
        (TEXT.replace("SELECT a.v", "SELECT a.k"), None),
        (TEXT.replace("SELECT a.v,", "SELECT a.v, a.ts,"), None),
    ],
)
def test_what_the_checkpoint_cannot_serve_is_refused(text: str, told: str | None) -> None:
    if told is None:
        assert reopen(text).columns == spec_of(text).columns  # keys and event times are always kept
        return
    with pytest.raises(ms.SparkError, match=f"cell 0 of 2: .*{told}"):
        reopen(text)


def test_filters_and_conditions_may_change_places() -> None:
    texts = ["a.k = b.k", "a.v > 'b'", "a.v < 'y'", "a.v <> b.v", "a.v <> upper(b.v)"]
    before, after = (TEXT.replace("a.k = b.k", " AND ".join(part)) for part in (texts, texts[::-1]))
    assert reopen(after, before=spec_of(before)).query == spec_of(before).described != spec_of(after).described


def test_a_column_that_was_not_kept_is_refused() -> None:
    before = spec_of(TEXT.replace("SELECT a.v, b.v AS w", "SELECT b.v AS w"))
    with pytest.raises(ms.SparkError, match=r"cell 0 of 2: the checkpoint did not keep column 'v' of 'a'; use only"):
        reopen(before=before)


def test_a_column_of_another_type_is_refused() -> None:
    now = spec_of()
    schema = now.schemas["a"]
    at = schema.get_field_index("v")
    data = open_ledger(None, now, "").to_bytes()
    other = replace(now, schemas={**now.schemas, "a": schema.set(at, pa.field("v", pa.int16()))})
    told = "cell 0 of 2: the checkpoint has column 'v' of 'a' as string, the query as int16; cast it to string"
    with pytest.raises(ms.SparkError, match=told):
        open_ledger(data, other, "cell 0 of 2")


@pytest.mark.parametrize(
    ("before", "now", "until"),
    [
        ("RANGE 10 SECONDS", "RANGE 3 SECONDS", 7 * SECOND),
        ("RANGE 10 SECONDS", "RANGE 1 HOUR", 3604 * SECOND),
        ("RANGE 10 SECONDS", "UNBOUNDED", None),
        ("UNBOUNDED", "RANGE 3 SECONDS", 12 * SECOND),  # by the newest row of the stream, which is of another parcel
    ],
)
def test_stored_parcels_leave_by_the_windows_of_now(before: str, now: str, until: int | None) -> None:
    store, parcels = store_of(spec_of(TEXT.replace("RANGE 10 SECONDS", before)))
    store.add(0, rows([SECOND, 4 * SECOND]))
    store.add(1, rows([0]))
    store.ledger.newest = {"a": 9 * SECOND, "b": 0}
    spec = spec_of(TEXT.replace("RANGE 10 SECONDS", now), allow_incomplete=True)
    again = open_ledger(store.ledger.to_bytes(), spec, "cell 0 of 2")
    assert [parcel.until for parcel in again.parcels] == [until, 60 * SECOND]
    assert open_ledger(again.to_bytes(), spec, "cell 0 of 2").parcels == again.parcels
    assert {parcel.key for parcel in again.parcels} == set(parcels)


def test_a_larger_window_is_taken_where_that_is_allowed() -> None:
    larger = TEXT.replace("10 SECONDS", "1 HOUR")
    assert reopen(larger, allow_incomplete=True).windows[0][1] == 3600 * SECOND


def test_a_join_is_refused_before_its_start_only_if_no_ledger_fits_it() -> None:
    """A query may have several joins, and nothing in a checkpoint says which of them a ledger is of."""
    larger = spec_of(TEXT.replace("10 SECONDS", "11 SECONDS"))
    fits, other = ((0, open_ledger(None, spec, "").to_bytes()) for spec in (spec_of(), spec_of(cells=4)))
    assert find_refusal([], spec_of()) is None
    assert find_refusal([fits], spec_of()) is None and find_refusal([other, fits], spec_of()) is None
    told = find_refusal([fits], larger)
    assert told is not None and told.startswith("cell ") and "[RANGE 11 SECONDS]" in told
    assert find_refusal([fits], replace(larger, allow_incomplete=True)) is None
    told = find_refusal([other], spec_of())
    assert told is not None and "cells: the checkpoint has 4, the query has 2" in told


STEPPED = "SELECT a.v, count(*) AS n FROM a [RANGE 10 SECONDS], b [RANGE 60 SECONDS] WHERE a.k = b.k GROUP BY a.v"


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (STEPPED, {"step": "5 seconds"}, "the checkpoint has steps of 6 seconds, and step= says 5 seconds; "),
        (
            STEPPED.replace("60 SECONDS", "30 SECONDS"),
            {"step": "3 seconds"},
            "steps of 6 seconds, and step= says 3 seconds; give step='6 seconds', or leave it out, or start with",
        ),
        (STEPPED.replace("count(*)", "sum(b.k)"), {}, "aggregates: the checkpoint has"),
        (STEPPED.replace("GROUP BY a.v", "GROUP BY a.v HAVING n > 1"), {}, "having: the checkpoint has None"),
        (STEPPED.replace("SELECT", "SELECT DISTINCT"), {}, "distinct: the checkpoint has False, the query has True"),
        (TEXT, {}, "is of a query with steps of 6 seconds, and the query is a plain join; restart with the former"),
    ],
    ids=["step", "step by smaller windows", "aggregate", "having", "distinct", "plain join"],
)
def test_other_steps_and_operators_are_refused(text: str, options: dict[str, Any], told: str) -> None:
    """For a checkpoint of groups. Smaller windows go on, with the step that is named or without one."""
    stored = open_ledger(None, spec_of(STEPPED), "cell 0 of 2").to_bytes()
    with pytest.raises(ms.SparkError, match=re.escape(told)):
        open_ledger(stored, spec_of(text, **options), "cell 0 of 2")
    for step in ("6 seconds", None):
        open_ledger(stored, spec_of(STEPPED.replace("60 SECONDS", "30 SECONDS"), step=step), "cell 0 of 2")
    open_ledger(stored, JoinSpec.from_json(spec_of(STEPPED).to_json()), "cell 0 of 2")


PAIR = "FROM a [RANGE 10 SECONDS], b [RANGE 60 SECONDS] WHERE a.k = b.k"
SETS = f"SELECT v FROM a [RANGE 10 SECONDS] EXCEPT SELECT a.v {PAIR}"


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (
            SETS.replace("EXCEPT", "EXCEPT ALL"),
            {},
            "combined: the checkpoint has '(0 EXCEPT 1)', the query has '(0 EXCEPT ALL 1)'",
        ),
        (SETS.replace("SELECT a.v", "SELECT b.v"), {}, "branches: the checkpoint has"),
        (SETS.replace("SELECT a.v", "SELECT DISTINCT a.v"), {}, "branches: the checkpoint has"),
        (SETS, {"hot_keys": {"b.k": [1]}}, "hot keys: the checkpoint has none, the query has of a_2.k = b.k"),
        (f"{SETS} UNION SELECT v FROM b [RANGE 1 SECOND]", {}, "rows would go to other cells"),
        (SETS, {"cells": 4}, "cells: the checkpoint has 2, the query has 4"),
    ],
    ids=["operation", "outputs of a branch", "distinct branch", "hot keys", "more branches", "cells"],
)
def test_other_set_operations_are_refused(text: str, options: dict[str, Any], told: str) -> None:
    stored = open_ledger(None, spec_of(SETS), "cell 0 of 2").to_bytes()
    with pytest.raises(ms.SparkError, match=re.escape(told)):
        open_ledger(stored, spec_of(text, **options), "cell 0 of 2")
    open_ledger(stored, JoinSpec.from_json(spec_of(SETS).to_json()), "cell 0 of 2")


def test_a_plain_join_does_not_become_one_with_steps() -> None:
    stored = open_ledger(None, spec_of(TEXT), "cell 0 of 2").to_bytes()
    with pytest.raises(ms.SparkError, match="is of a plain join, and the query has DISTINCT, groups, set"):
        open_ledger(stored, spec_of(TEXT.replace("SELECT", "SELECT DISTINCT")), "cell 0 of 2")


def test_the_stored_step_goes_on_although_windows_are_smaller() -> None:
    """Everything that follows from the step follows from the stored one, in hosts as well."""
    stored = open_ledger(None, spec_of(STEPPED), "cell 0 of 2").to_bytes()
    smaller = spec_of(STEPPED.replace("60 SECONDS", "30 SECONDS"))
    ledger = open_ledger(stored, smaller, "cell 0 of 2")
    going_on = JoinSpec.from_json(smaller.going_on_in(ledger.query["step"]).to_json())
    assert (smaller.query.step, going_on.query.step) == (3 * SECOND, 6 * SECOND)
    assert going_on.routing.cell_query.step == going_on.described["step"] == 6 * SECOND
    assert going_on.kept_from(11 * SECOND) == 6 * SECOND
    assert spec_of(STEPPED).going_on_in(6 * SECOND) == spec_of(STEPPED)
    again = open_ledger(ledger.to_bytes(), smaller, "cell 0 of 2")
    assert again.query["step"] == 6 * SECOND and again.windows == smaller.windows


def test_the_stored_step_must_be_a_multiple_of_new_buckets() -> None:
    unbounded = STEPPED.replace("RANGE 10 SECONDS", "UNBOUNDED")
    stored = open_ledger(None, spec_of(unbounded, step="7 seconds"), "cell 0 of 2").to_bytes()
    with pytest.raises(
        ms.SparkError, match=r"7 seconds, which is not a multiple of \[TUMBLE 2 SECONDS\]; keep the former"
    ):
        open_ledger(stored, spec_of(unbounded.replace("UNBOUNDED", "TUMBLE 2 SECONDS")), "cell 0 of 2")


def test_rows_stay_until_their_step_has_closed() -> None:
    spec = spec_of(STEPPED)
    assert [spec.kept_from(moment * SECOND) for moment in (5, 6, 11, -1)] == [0, 6 * SECOND, 6 * SECOND, -6 * SECOND]
    assert spec_of().kept_from(5 * SECOND) == 5 * SECOND
