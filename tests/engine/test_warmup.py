"""The first engine compiles every kernel, in every form in which it is used later, and says so."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from midstream import kernels
from midstream.engine.compiling import all_kernels, tell_compiling

ROOT = Path(__file__).parents[2]


def run_in_process(*arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    given = dict(os.environ) | ({"NUMBA_CACHE_DIR": str(cache)} if cache is not None else {})
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=given, capture_output=True, text=True, check=True, timeout=900
    )


def test_nothing_is_compiled_after_the_first_engine_was_made() -> None:
    found = json.loads(run_in_process("-m", "tests.engine.everything").stdout.splitlines()[-1])
    assert found["missed"] == [], "the warm-up calls every kernel"
    assert found["later"] == {}, "the warm-up calls every kernel with arrays of every type that it will get"
    assert found["kernels"] > 30


def test_every_kernel_is_known() -> None:
    """What a module of kernels compiles, and does not inline, is on the list."""
    written = sum(
        len(re.findall(r"^@kernel$", path.read_text(), re.MULTILINE))
        for path in Path(kernels.__file__).parent.glob("*.py")
    )
    assert len(all_kernels()) == written


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def some_kernels(count: int) -> list[Any]:
    """Functions that are not compiled yet."""

    def adding(number: int) -> Any:
        @njit
        def add(array: Any) -> Any:
            return array[0] + number

        return add

    return [adding(number) for number in range(count)]


def test_a_terminal_shows_one_line_that_counts_up() -> None:
    made, screen = some_kernels(3), Screen()
    made[1](np.zeros(1))
    with tell_compiling(made, screen):
        for kernel in made:
            kernel(np.zeros(1))
    *counted, last = screen.getvalue().split("\r")[1:]
    assert [line.split(": ")[-1] for line in counted] == ["2 of 3", "3 of 3"]
    assert all("once per installation" in line for line in counted)
    assert re.fullmatch(r"midstream: kernels compiled in \d+ s; .* *\n", last)
    assert len(last) > len(counted[-1]), "what was longer is written over"


def test_elsewhere_there_are_a_few_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """At a level that Python shows if nobody has set up logging."""
    made, stream = some_kernels(5), io.StringIO()
    with tell_compiling(made, stream):
        for kernel in made:
            kernel(np.zeros(1))
    assert stream.getvalue() == ""
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    *counted, last = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[-1] for line in counted] == ["1 of 5", "3 of 5", "5 of 5"]
    assert "kernels compiled in" in last


def test_nothing_is_said_of_kernels_that_are_ready_or_of_others(caplog: pytest.LogCaptureFixture) -> None:
    (ready, other), screen = some_kernels(2), Screen()
    ready(np.zeros(1))
    with tell_compiling([ready], screen):
        ready(np.zeros(1))
        other(np.zeros(1))
    assert screen.getvalue() == "" and not caplog.records


@pytest.mark.slow
def test_the_first_process_tells_how_far_it_is_and_the_next_has_nothing_to_tell(tmp_path: Path) -> None:
    program = "import midstream as ms; ms.get_ready()"
    lines = run_in_process("-c", program, cache=tmp_path).stderr.splitlines()
    count = len(all_kernels())
    assert lines[0].endswith(f": 1 of {count}") and "compiled in" in lines[-1]
    assert 3 <= len(lines) <= 7
    assert run_in_process("-c", program, cache=tmp_path).stderr == ""
