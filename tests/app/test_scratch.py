"""Temporary folders: gone afterwards, swept if their user was killed, left alone while one lives."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from midstream.app.scratch import keep, locked_folder, scratch_folder, sweep

HOLD = """
import sys, time
from midstream.app.scratch import scratch_folder
with scratch_folder("held") as folder:
    (folder / "data").write_text("much")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_it_is_gone_afterwards(place: Path) -> None:
    def interrupted() -> None:
        with scratch_folder("x") as folder:
            (folder / "inner").mkdir()
            assert folder.parent == place
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(place.iterdir())


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_after_a_kill_the_next_one_takes_it_away(place: Path, end: str) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert (folder / "data").exists() and sweep("held") == []
        getattr(process, end)()
        process.wait()
    assert folder.exists() == (end == "kill")
    with scratch_folder("held") as other:
        assert list(place.iterdir()) == [other]
    assert not list(place.iterdir())


def test_what_has_no_lock_is_not_ours(place: Path) -> None:
    (place / "midstream-x-kept").mkdir()
    folder, lock = locked_folder("x")
    assert sweep("x") == []
    os.close(lock)
    assert sweep("x") == [folder] and (place / "midstream-x-kept").exists()


def test_one_that_is_kept_stays_under_another_name(place: Path) -> None:
    with scratch_folder("x") as folder:
        (folder / "data").write_text("much")
        kept = keep(folder)
    assert not folder.exists() and sweep("x") == []
    assert list(place.iterdir()) == [kept] and (kept / "data").exists()


def test_another_place_is_swept_for_itself(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    left, lock = locked_folder("x", other)
    os.close(lock)
    with scratch_folder("x") as folder:
        assert folder.parent == place and left.exists()
    with scratch_folder("x", other) as folder:
        assert folder.parent == other and not left.exists()
