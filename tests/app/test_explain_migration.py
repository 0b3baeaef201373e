"""`midstream explain --migrate`: what it prints with rows, without rows, and for input that does not fit."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from midstream.adapt import estimate
from midstream.app import cli
from midstream.app.data import read_tables
from midstream.app.explain_migration import explain_migration
from midstream.cql import query as make_query
from midstream.errors import QueryError
from midstream.lab.generate import common_key
from midstream.migrate import STRATEGIES
from midstream.plan import parse_plan

WORK = common_key(streams=3, rows=3_000, keys=50, rate=100.0, window=10.0, seed=4)
SCHEMAS = [f"--schema={name}=ts bigint, k bigint, v bigint" for name in WORK.streams]


def midstream(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["midstream", "explain", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The rows of the streams, each in another format."""
    parquet.write_table(WORK.tables["A"], tmp_path / "a.parquet")
    csv.write_csv(WORK.tables["B"], tmp_path / "b.csv")
    feather.write_feather(WORK.tables["C"], str(tmp_path / "c.arrow"), compression="uncompressed")
    return [f"--data=A={tmp_path}/a.parquet", f"--data=B={tmp_path}/b.csv", f"--data=C={tmp_path}/c.arrow"]


def test_with_rows_there_are_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, error = midstream(
        monkeypatch, capsys, "-t", WORK.text, *files, "--plan", "(A B) C", "--migrate", "A (B C)", "--push-rows", "300"
    )
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "migration ((A B) C) -> (A (B C))"
    assert lines[2] == "estimates for full windows, from 9,000 of 9,000 rows over 30 s of event time"
    found = re.search(r"^\(B C\) +([\d,]+) +computed$", out, re.MULTILINE)
    assert found is not None
    assert int(found[1].replace(",", "")) == pytest.approx(1_000 * 1_000 / 50, rel=0.1)
    assert re.search(r"^\(A B\) +[\d,]+ +given up$", out, re.MULTILINE)
    row = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line}
    assert re.fullmatch(rf"none within 1[12] pushes of 300 rows {found[1]} entries, as probes need them", row["jisc"])
    assert re.fullmatch(rf"[\d.]+ \w+ at once {found[1]} entries, before the next row is taken", row["moving-state"])
    for name in ("parallel-track", "genmig", "genmig-reference-point"):
        both = r"none after 10 s of event time both plans make ([\d,]+) entries; the new one alone ([\d,]+)"
        assert re.fullmatch(both, row[name])
    assert re.search(r"^pause-drain-resume +refused", out, re.MULTILINE)
    assert "pause-drain-resume would have to drain the old plan's states" in lines[-1]


def test_without_rows_there_is_what_follows_from_the_plans(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = midstream(monkeypatch, capsys, "-t", WORK.text, *SCHEMAS, "--migrate", "A (B C)")
    assert code == 0
    assert out.startswith(
        """\
migration ((A B) C) -> (A (B C))

from the plans and windows alone; with --data there are estimates of sizes and costs

state   entries   what becomes of it
(B C)   ?         computed
(A B)   ?         given up

strategy                 pause     ends                                     work
jisc                     none      at the latest after 10 s of event time   the new states, as probes need them
moving-state             ?         at once                                  the new states, before the next row is taken
parallel-track           none      after 10 s of event time                 both plans run
"""
    )


def test_every_strategy_and_every_reason_stands_there() -> None:
    text = "SELECT a.k FROM a [ROWS 5], b [UNBOUNDED], c [RANGE 1 HOUR] WHERE a.k = b.k AND b.k = c.k"
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    query = make_query(text, dict.fromkeys("abc", schema), "ts")
    plans = [parse_plan(plan, query.aliases) for plan in ("(a b) c", "a (b c)", "c (a b)")]
    shown = explain_migration(estimate(query, plans[0], plans[1]))
    for strategy in STRATEGIES:
        assert bool(re.search(rf"^{strategy.name} ", shown, re.MULTILINE)) == (strategy.name != "staged")
    assert "parallel-track would never end: rows of 'b' are UNBOUNDED" in shown
    assert "genmig needs a time at which every old row has ended" in shown
    assert "when all was probed or filled" in shown
    kept = explain_migration(estimate(query, plans[0], plans[2]))
    assert re.search(r"^pause-drain-resume +none +at once +none$", kept, re.MULTILINE)


def test_two_inputs_have_no_inner_states() -> None:
    work = common_key(streams=2, rows=10)
    query = make_query(work.text, work.schemas, work.event_time)
    plan = parse_plan("A B", query.aliases)
    assert "the plans have no inner states" in explain_migration(estimate(query, plan, plan))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--migrate", "A (B X)"], "plan: unknown input 'X' at column 6; inputs: A, B, C"),
        (["--migrate", "A (B C)", "--data=A"], "data: 'A' is not name=file; write A=A.parquet"),
        (["--migrate", "A (B C)", "--data=A=a.txt"], "data: 'a.txt' for 'A' has no known ending; endings: .arrow"),
        (["--migrate", "A (B C)", "--data=A=nowhere.parquet"], "data: cannot read 'nowhere.parquet' for 'A'"),
    ],
)
def test_what_does_not_fit_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    code, out, error = midstream(monkeypatch, capsys, "-t", WORK.text, *SCHEMAS, *args)
    assert (code, out) == (2, "")
    assert error.startswith(f"error {message}")


def test_rows_of_a_stream_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, _, error = midstream(monkeypatch, capsys, "-t", WORK.text, *SCHEMAS, files[0], "--migrate", "A (B C)")
    assert code == 2
    assert error.startswith("error measure: no data for B, C")


def test_a_schema_gives_the_types_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,k\n1,01\n")
    given = pa.schema({"ts": pa.int64(), "k": pa.string()})
    assert read_tables([f"t={tmp_path}/t.csv"], {"t": given})["t"].to_pylist() == [{"ts": 1, "k": "01"}]
    assert read_tables([f"t={tmp_path}/t.csv"], {})["t"].to_pylist() == [{"ts": 1, "k": 1}]
    with pytest.raises(QueryError, match="data: cannot read"):
        read_tables([f"t={tmp_path}/t.csv"], {"t": pa.schema({"k": pa.date32()})})
