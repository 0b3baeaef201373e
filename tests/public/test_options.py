"""The options of an engine: one record, which `Engine`, `restore` and `resume` show and take alike."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest

import midstream as ms
from midstream.options import EngineKeywords, EngineOptions

OPTIONS = [field.name for field in fields(EngineOptions)]
CALLS = {"Engine": ms.Engine, "restore": ms.Engine.restore, "resume": ms.Engine.resume}


def test_what_is_checked_by_type_is_what_is_checked_by_value() -> None:
    checked, recorded = get_type_hints(EngineKeywords), get_type_hints(EngineOptions)
    assert checked == {name: recorded[name] for name in OPTIONS}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_shows_every_option_with_its_default(call: str) -> None:
    shown = inspect.signature(CALLS[call]).parameters
    assert [name for name in shown if name in OPTIONS] == OPTIONS
    for field in fields(EngineOptions):
        default = None if (call, field.name) == ("restore", "executor") else field.default  # that of the snapshot
        assert shown[field.name].default == default and shown[field.name].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("call", CALLS)
def test_an_option_that_there_is_not_is_named_with_the_one_that_is_meant(call: str) -> None:
    query = ms.query("SELECT a.ts FROM a [RANGE 1 HOUR]", {"a": {"ts": int}}, "ts")
    given = {"Engine": (), "restore": (ms.Engine(query).snapshot(),), "resume": ({}, 0)}[call]
    with pytest.raises(TypeError, match="unknown keyword 'lates'; did you mean 'late'"):
        CALLS[call](query, *given, lates="keep")  # type: ignore[operator]


def test_the_record_goes_through_a_call_unchanged() -> None:
    options = EngineOptions(strategy="genmig", late="keep", late_limit=7, max_jump="1 hour")
    assert EngineOptions.of(options.keywords()) == options
