"""The process between us and a Kafka broker: it ends the broker when we end, in whatever way, and takes its files away.

Standard input is a pipe whose other end we hold and never write to: when it closes, we have stopped the broker or have
been killed. The broker's data are thrown away, so it is killed too. This file is run by its path, and imports nothing
of ours, so that it starts at once::

    kafka_keeper.py FOLDER LOCK COMMAND...

The folder has been made and locked already; LOCK is the open file that holds the lock, which the broker inherits: as
long as one of them lives, nobody sweeps the folder. Commands are separated by ``--``; all but the last, which is the
broker, have to end well.
"""

from __future__ import annotations

import ctypes
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_LOOK_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    folder, lock, *rest = arguments
    commands = _split(rest)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    log_path = Path(folder) / "broker.log"
    running: subprocess.Popen[bytes] | None = None
    try:
        for number, command in enumerate(commands):
            with log_path.open("ab") as log:
                running = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[int(lock)],
                    preexec_fn=_die_with_parent(),
                )
            if not _await_end(running):
                return 0  # nobody needs it any more
            if running.returncode or number == len(commands) - 1:
                sys.stderr.write(log_path.read_text(errors="replace")[-4000:])
                return 1
    finally:
        if running is not None:
            running.kill()
            running.wait()
        shutil.rmtree(folder, ignore_errors=True)
    return 1


def _split(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _await_end(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended; False if the pipe has been closed before."""
    while process.poll() is None:
        ready, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
        if ready and not sys.stdin.buffer.read(1):
            return False
    return True


def _die_with_parent() -> Callable[[], object] | None:
    """On Linux a broker ends even if this process is killed; elsewhere it would go on running."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return lambda: library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
