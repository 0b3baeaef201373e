"""Sessions of our own commands: what they keep quiet about."""

from __future__ import annotations

import logging
import signal

import pytest

from midstream.spark.jobs.session import is_no_interrupt, quiet_interrupts


def test_a_session_leaves_interrupts_as_they_were() -> None:
    """As a SparkContext does, what is made inside sets a handler of its own."""
    before = signal.getsignal(signal.SIGINT)
    try:
        with quiet_interrupts():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)
        logging.getLogger().removeFilter(is_no_interrupt)


def test_an_interrupt_amid_a_call_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    root.addFilter(is_no_interrupt)
    try:
        for problem in (KeyboardInterrupt(), ValueError()):
            try:
                raise problem
            except BaseException:
                logging.exception("%s while sending command", type(problem).__name__)
        try:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise OSError from None
        except OSError:
            logging.exception("an error that came of it")
        logging.error("something else")
    finally:
        root.removeFilter(is_no_interrupt)
    assert [record.getMessage() for record in caplog.records] == [
        "ValueError while sending command",
        "something else",
    ]
