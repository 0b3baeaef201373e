"""The reference page and the table of functions say the same."""

from __future__ import annotations

import re
from pathlib import Path

from midstream.cql.functions import FUNCTIONS, TABLE
from midstream.engine.expressions.program import _KERNELS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "functions.md"
ROW = re.compile(r"^\| `(\w+)` \| `(.+?)` \|", re.MULTILINE)
REWRITTEN = {"isnotnull", "if", "nullif"}


def test_every_function_is_documented_as_it_is_written() -> None:
    rows = {name: written.replace("\\|", "|") for name, written in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    assert rows == FUNCTIONS


def test_every_alias_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\\|", "|")
    for entry in TABLE:
        for alias in entry.aliases:
            assert re.search(rf"(?<!\w){re.escape(alias)}(?!\w)", text) or alias == "is_not_null", alias


def test_every_function_has_a_kernel_or_is_rewritten() -> None:
    assert set(FUNCTIONS) == (set(_KERNELS) - {"is_true"}) | REWRITTEN
