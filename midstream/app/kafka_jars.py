"""The jars for Kafka: a broker to try things with, and Spark's connector, fetched once by Maven and kept.

They come as two bundles, because the broker and the connector want different versions of Kafka's client::

    CACHE/broker-1a2b3c4d/     the broker with everything it needs, for a class path of its own
    CACHE/connector-5e6f7a8b/  the four jars that Spark lacks, for `spark.jars`

A bundle is fetched into a hidden folder and renamed when it is whole. Its name has a hash of its coordinates, so other
versions are another folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from midstream.app.doctor import MAVEN_ADVICE
from midstream.errors import SparkError

_MINUTES = 15
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>midstream</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>{exclusions}
    </dependency>"""
_ALONE = """
      <exclusions>
        <exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>"""


@dataclass(frozen=True)
class Bundle:
    """Jars that belong on one class path, by their Maven coordinates `group:artifact:version`."""

    name: str
    coordinates: tuple[str, ...]
    #: Whether the jars that these need come too.
    is_complete: bool

    @property
    def folder(self) -> str:
        digest = hashlib.sha256(" ".join(self.coordinates).encode()).hexdigest()[:8]
        return f"{self.name}-{digest}"

    @property
    def files(self) -> tuple[str, ...]:
        """The names that the jars of the coordinates have.

        >>> Bundle("tool", ("org.example:tool:1.2",), True).files
        ('tool-1.2.jar',)
        """
        return tuple("-".join(coordinate.split(":")[1:]) + ".jar" for coordinate in self.coordinates)

    def pom(self) -> str:
        """What Maven reads."""
        exclusions = "" if self.is_complete else _ALONE
        parts = (coordinate.split(":") for coordinate in self.coordinates)
        dependencies = [
            _DEPENDENCY.format(group=group, artifact=artifact, version=version, exclusions=exclusions)
            for group, artifact, version in parts
        ]
        return _POM.format(name=self.name, dependencies="\n".join(dependencies))


#: The second lets the broker write its log, and so say why it does not start.
BROKER = Bundle(
    "broker",
    ("org.apache.kafka:kafka_2.13:4.1.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
    is_complete=True,
)
#: Tested together on Spark 4.3, which has all other jars that these need.
CONNECTOR = Bundle(
    "connector",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    is_complete=False,
)
BUNDLES = (BROKER, CONNECTOR)


def cache_folder() -> Path:
    """Where jars are kept: in the virtual environment if there is one, and so gone with it."""
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / "kafka"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "midstream" / "kafka"


def find_missing(cache: Path | None = None) -> list[Bundle]:
    """The bundles that are not there yet."""
    return [bundle for bundle in BUNDLES if not _is_whole(bundle, (cache or cache_folder()) / bundle.folder)]


def fetch(bundle: Bundle, say: Callable[[str], None], cache: Path | None = None) -> list[Path]:
    """The jars of a bundle. If they have to be fetched, `say` is called with a message first."""
    place = cache or cache_folder()
    folder = place / bundle.folder
    if not _is_whole(bundle, folder):
        maven = shutil.which("mvn")
        if maven is None:
            raise SparkError(f"kafka: Maven fetches Kafka's jars, and there is no command mvn; {MAVEN_ADVICE}")
        say(f"fetching Kafka's {bundle.name} ({bundle.coordinates[0]}) by Maven, once, into {folder}")
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=place) as hidden:
            _run_maven(maven, bundle, Path(hidden))
            _move(Path(hidden) / "jars", folder)
    return sorted(folder.glob("*.jar"))


def _is_whole(bundle: Bundle, folder: Path) -> bool:
    return all((folder / file).is_file() for file in bundle.files)


def _run_maven(maven: str, bundle: Bundle, folder: Path) -> None:
    pom = folder / "pom.xml"
    pom.write_text(bundle.pom(), encoding="utf-8")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}", "-DincludeScope=runtime"]
    command = [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", str(pom), *goal]
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60 * _MINUTES
        )
    except subprocess.TimeoutExpired as problem:
        raise SparkError(f"kafka: Maven did not end within {_MINUTES} minutes; try again") from problem
    if ran.returncode or not _is_whole(bundle, folder / "jars"):
        said = [line.strip() for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
        reason = next((line for line in said if "ERROR" in line), said[-1] if said else "it gives no reason")
        raise SparkError(
            f"kafka: Maven could not fetch Kafka's {bundle.name}: {reason[:400]}; "
            "it needs access to Maven Central or to a mirror named in its settings.xml"
        )


def _move(source: Path, target: Path) -> None:
    """Rename a complete folder; if another process was quicker, its folder is used."""
    if target.exists():
        shutil.rmtree(target, ignore_errors=True)  # not whole, or it would not have been fetched
    try:
        source.rename(target)
    except OSError:
        if not target.exists():
            raise
