"""What a newcomer finds by completion, `help`, `repr` and in a notebook."""

from __future__ import annotations

import importlib
import inspect
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import midstream as ms
from midstream.migrate import STRATEGIES

ROOT = Path(__file__).parents[2]
ROW = {"id": int, "ts": int}
TEXT = """SELECT a.id FROM left_hand [RANGE 1 HOUR] a, b [RANGE 1 HOUR], c [RANGE 1 HOUR]
          WHERE a.id = b.id AND b.id = c.id"""
ROWS = [{"id": number, "ts": number} for number in range(20)]


def make_engine() -> ms.Engine:
    query = ms.query(TEXT, schemas=dict.fromkeys(("left_hand", "b", "c"), ROW), event_time="ts")
    engine = ms.Engine(query, plan="(a b) c")
    engine.push({"left_hand": ROWS, "b": ROWS, "c": ROWS[:5]})
    return engine


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert dir(ms) == sorted([*ms.__all__, "__version__"])
    assert dir(ms.spark) == sorted(ms.spark.__all__)
    assert not [name for name in (*ms.__all__, *ms.spark.__all__) if name.startswith("_")]


def test_every_public_name_is_there() -> None:
    for module in (ms, ms.spark):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_modules_can_be_imported_all_the_same() -> None:
    for name in ("midstream.plan", "midstream.cql.model", "midstream.spark.routing.rules", "midstream.session"):
        assert importlib.import_module(name).__name__ == name


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", ms.__version__)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[tool.hatch.version]\npath = "midstream/__init__.py"' in project  # so that the wheel has the same


def public_functions() -> Iterator[Any]:
    """Public functions, and the public methods of public classes."""
    for module in (ms, ms.spark):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found):
                yield pytest.param(found, id=f"{module.__name__}.{name}")
            elif inspect.isclass(found) and not issubclass(found, Exception):
                for method, held in vars(found).items():
                    function = held.__func__ if isinstance(held, classmethod | staticmethod) else held
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield pytest.param(function, id=f"{module.__name__}.{name}.{method}")


#: What users are given, rather than call to make something: what they return is told where they are.
WITHOUT_EXAMPLE = {"Query", "Snapshot.of", "Plan.nodes", "Plan.joins", "Plan.text", "Progress.of"}


@pytest.mark.parametrize("function", list(public_functions()))
def test_help_has_an_example(function: Any) -> None:
    if function.__qualname__ in WITHOUT_EXAMPLE:
        return
    text = inspect.getdoc(function) or ""
    assert ">>> " in text or re.search(r"::\n\n    \S", text), f"help of {function.__qualname__} has no example"


def test_rows_that_were_left_out_are_told() -> None:
    engine = make_engine()
    engine.push({"left_hand": {"id": [7, 8], "ts": [-9, None]}})
    assert repr(engine) == "<midstream.Engine ((a b) c): 45 rows in, 5 results, 1 late, 1 rejected, watermark 4>"


def test_reprs_are_one_line() -> None:
    engine = make_engine()
    before = repr(engine)
    migration = engine.migrate("(b c) a", budget=0)
    assert before == "<midstream.Engine ((a b) c): 45 rows in, 5 results, watermark 4>"
    assert repr(engine) == "<midstream.Engine ((b c) a): 45 rows in, 5 results, watermark 4, jisc 0% complete>"
    told = "((a b) c) to ((b c) a) by jisc: begun, 0% complete, 20 of 20 unfilled rows left"
    assert repr(migration) == f"<midstream.Migration {told}>"
    assert repr(engine.plan) == "<midstream.Plan ((b c) a)>"
    assert repr(engine.query).startswith("<midstream.Query SELECT a.id FROM left_hand [RANGE 1 HOUR] a, b [RANGE")
    assert len(repr(engine.query)) < 140 and "\n" not in repr(engine.query)
    assert repr(engine.snapshot()).startswith("<midstream.Snapshot of ((b c) a): ")
    assert repr(engine.stats()).startswith("<midstream.EngineStats rows_in=45 rows_out=5 late=0 rejected=0 watermark=4")
    engine.finish()
    assert repr(engine).endswith("watermark 4, finished>")


def test_a_control_says_what_it_controls(tmp_path: Path) -> None:
    for name in ("commands", "status"):
        (tmp_path / name).mkdir()
    assert repr(ms.spark.control(str(tmp_path))) == f"<midstream.spark.Control of {str(tmp_path)!r}>"


def picture(shown: Any) -> ElementTree.Element:
    """What a notebook gets, read as XML."""
    html = shown._repr_html_()
    assert "<script" not in html and "http" not in html.replace("http://www.w3.org/2000/svg", "")
    return ElementTree.fromstring(html)


def texts(shown: Any) -> list[str]:
    return [text.strip() for text in picture(shown).itertext() if text.strip()]


def dashed(shown: Any) -> int:
    return sum("stroke-dasharray" in element.attrib for element in picture(shown).iter())


def test_a_notebook_shows_plan_states_and_holes() -> None:
    engine = make_engine()
    assert {"left_hand [RANGE 1 HOUR]", "[RANGE 1 HOUR]", "20 rows", "5 rows", "5 results", "20 combinations"} <= set(
        texts(engine)
    )
    assert dashed(engine) == 0
    engine.migrate("(b c) a", budget=0)
    assert "20 rows to fill" in texts(engine) and dashed(engine) == 1
    assert any("jisc from ((a b) c) to ((b c) a): begun" in text for text in texts(engine))
    engine.push({"left_hand": [{**row, "ts": 20} for row in ROWS]})
    assert dashed(engine) == 0
    engine.finish()
    assert any(text.startswith("finished: ") for text in texts(engine))


@pytest.mark.parametrize(
    "strategy", [strategy.name for strategy in STRATEGIES if strategy.name not in ("pause-drain-resume", "staged")]
)
def test_a_notebook_shows_every_migration(strategy: str) -> None:
    engine = make_engine()
    engine.migrate("(b c) a", strategy)
    engine.push({"c": ROWS[5:6]})
    shown = texts(engine)
    assert "((b c) a)" in shown and shown.count("⋈") == 2
    if strategy in ("parallel-track", "genmig"):
        assert any(text.startswith("The plan before it still runs: 1 state, ") for text in shown)


def test_names_are_escaped_in_a_notebook() -> None:
    text = 'SELECT "<b>&".id FROM x [RANGE 1 HOUR] "<b>&", y [RANGE 1 HOUR] "a b" WHERE "<b>&".id = "a b".id'
    engine = ms.Engine(ms.query(text, schemas={"x": ROW, "y": ROW}, event_time="ts"))
    assert {"<b>&", "a b"} <= set(texts(engine))
    assert {"<b>&", '"a b"'} <= set(texts(engine.plan))


def test_moments_are_shown_as_the_streams_tell_them() -> None:
    schema = {"id": int, "ts": "timestamp[us, tz=Europe/Berlin]"}
    text = "SELECT a.id FROM a [RANGE 1 HOUR], b [RANGE 1 HOUR] WHERE a.id = b.id"
    engine = ms.Engine(ms.query(text, schemas={"a": schema, "b": schema}, event_time="ts"))
    engine.push({}, watermark=1_772_355_600_000_000)
    assert repr(engine).endswith("watermark 2026-03-01 10:00:00+01:00>")
