"""What differs between PySpark's versions: one module hides it, and refuses by name what a version cannot do."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.types import ArrayType, StructField, StructType, TimestampNTZType, TimestampType

import midstream
from midstream.app import doctor
from midstream.errors import SparkError
from midstream.spark import compat

from . import versions

pytestmark = pytest.mark.versions

SOURCES = Path(midstream.__file__).parent
PRIVATE = re.compile(
    r"\bSparkContext\._|java_gateway|pyspark\.sql\.pandas|JStreamingQueryListener|_streamingCheckpointManager"
    r"|pyspark\.sql\.connect|\._(jvm|jdf|jsc|jsparkSession|sc)\b"
)


def test_only_one_module_uses_what_pyspark_keeps_private() -> None:
    users = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert users == {"spark/compat.py"}


def test_all_places_speak_of_the_same_versions() -> None:
    assert versions.SUPPORTED[0] == compat.OLDEST == doctor.SPARK["pyspark"][0]
    assert versions.SUPPORTED[-1] == doctor.NEWEST_PYSPARK
    declared = {line.partition(";")[0] for line in metadata.requires("midstream") or [] if line.startswith("pyspark")}
    assert declared == {f"pyspark>={compat.OLDEST}"}


def test_timestamps_are_of_utc_at_any_depth() -> None:
    inner = StructType([StructField("inside", TimestampType())])
    schema = StructType(
        [
            StructField("zoned", TimestampType()),
            StructField("plain", TimestampNTZType()),
            StructField("list", ArrayType(TimestampType())),
            StructField("struct", inner),
        ]
    )
    utc, plain = pa.timestamp("us", "UTC"), pa.timestamp("us")
    found = compat.to_arrow(schema)
    assert [found.field("zoned").type, found.field("plain").type] == [utc, plain]
    assert found.field("list").type.value_type == utc
    assert found.field("struct").type.field("inside").type == utc
    assert compat.from_arrow(found) == schema


@pytest.mark.parametrize(
    ("client", "server", "told"),
    [
        ("4.0.2", "4.0.2", "PySpark is 4.0.2, but joins on Spark need 4.1 or newer"),
        ("4.1.0", "4.0.1", "Spark is 4.0.1, but"),
        ("3.5.9", "3.5.9", "PySpark is 3.5.9, but"),
        ("4.1.0.dev1", "4.1.0-preview1", None),
        ("4.3.0", "4.10.0", None),
        ("5.0.0", "5.0.0", None),
    ],
)
def test_versions(monkeypatch: pytest.MonkeyPatch, client: str, server: str, told: str | None) -> None:
    monkeypatch.setattr(pyspark, "__version__", client)
    session = SimpleNamespace(version=server)
    if told is None:
        compat.check_version(session)
    else:
        with pytest.raises(SparkError, match=re.escape(told)):
            compat.check_version(session)


class Reader:
    """A reader of a version that has names of sources."""

    given: str | None = None

    def name(self, name: str) -> Reader:
        self.given = name
        return self


@pytest.mark.parametrize(("wanted", "given"), [("true", "control"), ("false", None)])
def test_a_source_has_a_name_where_the_session_asks_for_it(wanted: str, given: str | None) -> None:
    session = SimpleNamespace(conf={compat.SOURCE_EVOLUTION: wanted})
    assert compat.name_source(session, Reader(), "control").given == given


def test_a_version_without_names_of_sources_gives_none() -> None:
    """The setting may be there all the same: such a version does not know it, and ignores it."""
    reader: Any = object()
    assert compat.name_source(SimpleNamespace(conf={compat.SOURCE_EVOLUTION: "true"}), reader, "control") is reader


def test_a_version_that_cannot_repartition_says_so() -> None:
    with pytest.raises(SparkError, match=r"repartition: Spark 4\.1\.4 cannot do this; use Spark 4\.2 or newer"):
        compat.repartition_checkpoint(SimpleNamespace(version="4.1.4"), "nowhere", 2)
