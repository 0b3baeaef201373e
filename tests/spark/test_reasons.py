"""The one sentence of a failed query, out of texts as Spark gives them."""

from __future__ import annotations

import pytest

import midstream as ms
import midstream.spark
from midstream.spark.reasons import reason_in

HEAD = "[STREAM_FAILED] Query [id = 1c0b, runId = 22aa] terminated with exception: "
LOST = (
    "Job aborted due to stage failure: Task 1 in stage 7.0 failed 1 times, most recent failure: "
    "Lost task 1.0 in stage 7.0 (TID 12) (host executor driver): "
)
TRACE = 'Traceback (most recent call last):\n  File "worker.py", line 9, in main\n    process()\n    ~~~~~~~^^\n'
PYTHON = f"org.apache.spark.api.python.PythonException: {TRACE}"
JAVA = "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:601)\n"
OURS = "cell 0 of 2: the checkpoint has format 99; go on with the Midstream that wrote it"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"{HEAD}{LOST}{PYTHON}midstream.errors.SparkError: {OURS}\n{JAVA}",
            OURS,
        ),
        (
            f"{HEAD}{LOST}{PYTHON}midstream.errors.SnapshotError: restore: no\n\nThe above exception was "
            f"the direct cause of the following exception:\n\n{TRACE}midstream.errors.SparkError: {OURS}\n{JAVA}",
            OURS,
        ),
        (f"{HEAD}{LOST}{PYTHON}midstream.errors.InputError: push: no\n{JAVA}", "push: no"),
        (f"{HEAD}{LOST}{PYTHON}ValueError: too many\n{JAVA} SQLSTATE: XXKST", "ValueError: too many"),
        (f"{HEAD}{LOST}{PYTHON}KeyboardInterrupt\n{JAVA}", "KeyboardInterrupt"),
        (
            f"{HEAD}{LOST}java.lang.OutOfMemoryError: Java heap space\n{JAVA}",
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            f"{HEAD}[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03",
            "[PATH_NOT_FOUND] Path does not exist: /x.",
        ),
        ("boom", "boom"),
        ("", ""),
    ],
)
def test_the_line_that_tells_most(text: str, told: str) -> None:
    assert reason_in(text) == told


def test_reasons_of_exceptions() -> None:
    assert ms.spark.reason(ms.SparkError(OURS)) == OURS
    assert ms.spark.reason(ValueError()) == "ValueError"
    assert ms.spark.reason(RuntimeError(f"{HEAD}{TRACE}midstream.errors.SparkError: {OURS}\n")) == OURS
