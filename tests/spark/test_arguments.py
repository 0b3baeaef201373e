"""Wrong values for every argument of the public functions: always an error of ours that names the argument."""

from __future__ import annotations

import datetime
import inspect
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import midstream as ms
import midstream.spark

from . import streams
from .streams import SECOND, Input

WINDOWS: dict[str, int | None] = {"a": 4 * SECOND, "b": 4 * SECOND}
TEXT = streams.join_text(WINDOWS)
ROWS = [(k, k * 10 + at, at * SECOND) for k in range(4) for at in range(6)]
#: Values that are right for no argument, or for a few that leave them out below.
WRONG: tuple[Any, ...] = (None, True, 5, -1, 1.5, float("nan"), b"x", "", object(), [], [1], {}, {1: 2}, {"a": 1}, int)


@pytest.fixture(scope="module")
def frames(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return Input({"a": [ROWS], "b": [ROWS]}).frames(spark, tmp_path_factory.mktemp("in"))


def check_refused(function: Any, argument: str, value: Any, right: dict[str, Any]) -> None:
    """An argument is refused by an error of ours that names it."""
    try:
        function(**{**right, argument: value})
    except ms.MidstreamError as problem:
        told = str(problem)
        assert any(name in told for name in (argument, "query", "stream", "plan", "hot_keys")), (argument, value, told)
        assert ";" in told or ":" in told, told
        assert len(told) < 500, told
    else:
        raise AssertionError(f"{argument}={value!r} was taken")


#: What is right for an argument, though it is among the wrong values.
RIGHT_FOR: dict[str, tuple[Any, ...]] = {
    "delay": (None, {}),
    "partitions": (None, 5),
    "cells": (None,),
    "plan": (None,),
    "schedule": ([],),
    "strategy": (None,),
    "routing": (None,),
    "seed": (None, 5, -1),
    "rates": (None, {}, {"a": 1}),
    "hot_keys": (None, {}),
    "allow_incomplete": (True,),
    "control": (None,),
    "result_id": (True,),
    "assume_zone": (None,),
    "name": (None,),
    "memory_limit": (None,),
    "step": (None,),
}


def is_right(argument: str, value: Any) -> bool:
    return any(type(value) is type(right) and value == right for right in RIGHT_FOR.get(argument, ()))


@pytest.mark.parametrize("argument", list(inspect.signature(midstream.spark.sql).parameters))
def test_every_argument_of_sql(frames: dict[str, Any], argument: str) -> None:
    right = {"text": TEXT, "streams": frames, "event_time": "ts", "partitions": 2}
    for value in WRONG:
        if not is_right(argument, value):
            check_refused(ms.spark.sql, argument, value, right)


@pytest.mark.parametrize("argument", ["streams", "on", "within", "event_time", "delay", "select"])
def test_every_argument_of_join(frames: dict[str, Any], argument: str) -> None:
    right = {"streams": frames, "on": "k", "within": "4 seconds", "event_time": "ts", "partitions": 2}
    for value in WRONG:
        if not is_right(argument, value):
            check_refused(ms.spark.join, argument, value, right)


@pytest.mark.parametrize("argument", list(inspect.signature(midstream.spark.explain).parameters))
def test_every_argument_of_explain(frames: dict[str, Any], argument: str) -> None:
    right = {"text": TEXT, "streams": frames, "event_time": "ts", "partitions": 2}
    for value in WRONG:
        if not is_right(argument, value) or (argument == "partitions" and value is None):
            check_refused(ms.spark.explain, argument, value, right)


@pytest.mark.parametrize("argument", ["frame", "column", "share", "fraction", "seed"])
def test_every_argument_of_hot_keys(spark: Any, argument: str) -> None:
    right = {"frame": spark.createDataFrame([(1,)], "k int"), "column": "k", "fraction": 1.0}
    for value in WRONG:
        if not (argument == "seed" and type(value) is int):
            check_refused(ms.spark.hot_keys, argument, value, right)


@pytest.mark.parametrize("function", [midstream.spark.progress, midstream.spark.control, midstream.spark.reason])
def test_things_that_are_no_query(function: Any) -> None:
    for value in WRONG:
        if not isinstance(value, dict | str):
            with pytest.raises(ms.SparkError, match=f"^{function.__name__}: .*; give"):
                function(value)


def test_every_argument_of_a_command(frames: dict[str, Any], tmp_path: Path) -> None:
    ms.spark.sql(TEXT, frames, "ts", partitions=2, control=tmp_path / "control")
    control = ms.spark.control(tmp_path / "control")
    for value in WRONG:
        check_refused(control.migrate, "plan", value, {})
        if value is not None:
            check_refused(control.migrate, "strategy", value, {"plan": "(a b)"}) if not isinstance(value, str) else None
            check_refused(control.migrate, "on_progress", value, {"plan": "(a b)"}) if value is not int else None
        if value is not True:
            check_refused(control.migrate, "until_complete", value, {"plan": "(a b)"})
            if value is not None:
                check_refused(control.migrate, "wait", value, {"plan": "(a b)"})
        if not (isinstance(value, int | float) and value > 0) or value is True:
            check_refused(control.migrate, "timeout", value, {"plan": "(a b)"})
    for cells in (True, "0", 1.5, [0.5], [True], {0: 1}, []):
        check_refused(control.migrate, "cells", cells, {"plan": "(a b)"})
    assert not list((tmp_path / "control" / "commands").iterdir())


def test_what_people_write_by_mistake(spark: Any, frames: dict[str, Any]) -> None:
    for delay in (30, {"a": 30}):
        with pytest.raises(ms.SparkError, match=r"delay.*: 30 has no unit; write text such as '30 seconds', or give a"):
            ms.spark.sql(TEXT, frames, "ts", delay, partitions=1)
    with pytest.raises(ms.SparkError, match="within of stream 'a': 60 has no unit"):
        ms.spark.join(frames, "k", 60, "ts")
    with pytest.raises(
        ms.SparkError, match=r"streams: 'b' is of type pandas\.DataFrame, not a DataFrame of Spark; read it"
    ):
        ms.spark.sql(TEXT, {**frames, "b": pd.DataFrame({"k": [1]})}, "ts")
    with pytest.raises(ms.SparkError, match=r"streams: 'b' is of type midstream\.Query"):
        ms.spark.sql(TEXT, {**frames, "b": ms.query(TEXT, dict.fromkeys("ab", Input({}).table([]).schema), "ts")}, "ts")
    with pytest.raises(ms.SparkError, match="control: None is neither a path nor a StreamingQuery; give the folder"):
        ms.spark.control(None)
    with pytest.raises(ms.SparkError, match="hot_keys: unknown column 'q'; columns: k"):
        ms.spark.hot_keys(spark.createDataFrame([(1,)], "k int"), "q")
    with pytest.raises(ms.SparkError, match="repartition: 0 is not a number of partitions"):
        ms.spark.repartition("checkpoint", 0)


def test_a_host_has_to_wait(frames: dict[str, Any]) -> None:
    with pytest.raises(ms.SparkError, match="host_idle: a host that does not wait is of no use; give more than 0"):
        ms.spark.sql(TEXT, frames, "ts", host_idle=0, partitions=1)


def test_lengths_of_time_in_any_form(frames: dict[str, Any]) -> None:
    seconds = datetime.timedelta(seconds=90)
    for length in (seconds, "90 seconds", "1 min 30 sec", {"a": seconds, "b": "90s"}):
        frame = ms.spark.join(frames, "k", length, "ts", length, partitions=1, host_idle=seconds)
        plan = frame._jdf.queryExecution().analyzed().toString()
        assert plan.count("1 minutes 30 seconds") == 2
