"""A broker for the tests, where Maven and Java can give one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstream.app import doctor, kafka_jars
from midstream.app.kafka_broker import Broker
from midstream.errors import SparkError


def give_up(reason: str) -> None:
    """Skip, except where the tests have to be complete."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def jars() -> dict[str, list[Path]]:
    """The jars of broker and connector, fetched the first time."""
    java = doctor.find_java()
    if java is None or not java.ok:
        give_up(f"Kafka's tests need Java 17 or newer; {doctor.JAVA_ADVICE}")
    if doctor.missing_for_spark():
        give_up("Kafka's tests need Spark: pip install 'midstream[spark]'")
    try:
        return {bundle.name: kafka_jars.fetch(bundle, print) for bundle in kafka_jars.BUNDLES}
    except SparkError as problem:
        give_up(str(problem))
        raise


@pytest.fixture
def broker(jars: dict[str, list[Path]]) -> Iterator[Broker]:
    with Broker(jars["broker"]) as running:
        yield running
