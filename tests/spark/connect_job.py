"""Joins over Spark Connect and tells what it found, as JSON: a client cannot live beside a classic session."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def told_of(spark: Any, folder: Path) -> dict[str, Any]:
    import midstream as ms
    import midstream.spark
    from midstream.spark.settings import prepare

    schema = spark.read.parquet(str(folder / "a")).schema
    text = (folder / "query.sql").read_text()
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    frames = {name: reader.parquet(str(folder / name)) for name in "abc"}
    told: dict[str, Any] = {"kind": type(spark).__module__, "partitions": prepare(spark, None)}

    joined = ms.spark.sql(text, frames, "ts", "1 second", partitions=2)
    writer = joined.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    query.awaitTermination()
    progresses = list(query.recentProgress)
    told["watermarks"] = [progress.eventTime.get("watermark") for progress in progresses]
    told["reports"] = [list(ms.spark.cell_reports(progress).values()) for progress in progresses]

    stepped = ms.spark.sql((folder / "steps.sql").read_text(), frames, "ts", "1 second", partitions=2, result_id=True)
    writer = stepped.writeStream.format("parquet").option("checkpointLocation", str(folder / "steps checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "steps"))
    query.awaitTermination()
    told["marks of steps"] = [progress.eventTime.get("watermark") for progress in query.recentProgress]

    batch = {name: spark.read.schema(schema).parquet(str(folder / name)) for name in "abc"}
    told["batch"] = ms.spark.sql(text, batch, "ts", partitions=2).count()
    try:
        ms.spark.sql(text, {**frames, "a": frames["a"].withWatermark("ts", "1 day")}, "ts", "1 day", partitions=2)
    except ms.SparkError as problem:
        told["refused"] = str(problem)
    return told


def main(folder: Path) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        (folder / "told.json").write_text(json.dumps(told_of(spark, folder)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
