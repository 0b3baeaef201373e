"""A standalone cluster of Spark on loopback: one master and some workers, gone with everything they have started.

Spark is what PySpark has brought along. Ports are chosen by the system and read from the logs, so that clusters do not
get into each other's way, and the web pages, which a master cannot do without, are on loopback too.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

_START_SECONDS = 120.0
_END_SECONDS = 30.0
_MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
_REGISTERED = "Successfully registered with master"


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


class Cluster:
    """One master and workers with a core each, for the length of a `with`."""

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g"):
        self._folder = folder
        self._workers = workers
        self._memory = memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Cluster:
        try:
            log = self._launch("master", "org.apache.spark.deploy.master.Master")
            self.url = self._await(log, _MASTER).group(1)
            logs = []
            for number in range(self._workers):
                options = ("--cores", "1", "--memory", self._memory, "--work-dir", str(self._folder / f"work{number}"))
                logs.append(
                    self._launch(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *options, self.url)
                )
            for log in logs:
                self._await(log, re.compile(_REGISTERED))
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _launch(self, name: str, program: str, *options: str) -> Path:
        log = self._folder / f"{name}.log"
        own = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "TMPDIR": str(self._folder),  # where executors put the sockets of hosts
        }
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), program, *place, *options],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=self._folder,
                env=_without_python() | own,  # no session of their own: who interrupts the tests, ends these too
            )
        self._processes.append(process)
        return log

    def _await(self, log: Path, wanted: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and all(process.poll() is None for process in self._processes):
            if found := wanted.search(log.read_text(errors="replace")):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not in {log}: {wanted.pattern}\n{log.read_text(errors='replace')[-4000:]}")

    def processes(self) -> list[psutil.Process]:
        """Master, workers, executors, and Spark's Python processes below them."""
        found = []
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                own = psutil.Process(process.pid)
                found += [own, *own.children(recursive=True)]
        return found

    def end(self) -> None:
        """Workers end their executors; what is left after a while is killed."""
        everything = self.processes()
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(everything, _END_SECONDS)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for own in self._processes:
            own.wait()


def _without_python() -> dict[str, str]:
    """The environment of machines that know nothing of this one's Python packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def submit(master: str, job: Path, folder: Path, *options: str, seconds: float = 400.0) -> None:
    """Run a job by `spark-submit` as a user would, from a folder where no package lies about."""
    settings = {
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "768m",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "scratch"),
        "spark.log.level": "WARN",
    }
    configured = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    log = folder / "submit.log"
    with log.open("wb") as file:
        ended = subprocess.run(
            [
                str(spark_home() / "bin" / "spark-submit"),
                "--master",
                master,
                *configured,
                *options,
                str(job),
                str(folder),
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=folder,
            env=_without_python()
            | {
                "SPARK_HOME": str(spark_home()),
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "TMPDIR": str(folder),
            },
            timeout=seconds,
            check=False,
        )
    assert ended.returncode == 0, log.read_text(errors="replace")[-6000:]
