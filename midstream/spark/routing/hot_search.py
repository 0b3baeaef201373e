"""Which values of a join key are so frequent that their rows should be spread over cells."""

from __future__ import annotations

from typing import Any

import pyspark.sql.functions as F

from midstream.errors import SparkError, shown
from midstream.spark.arguments import check_text, is_frame


def hot_keys(frame: Any, column: str, *, share: float = 0.05, fraction: float = 0.1, seed: int = 0) -> list[Any]:
    """The values that at least a `share` of a DataFrame's rows have, the most frequent first, found on a sample.

    `frame` is a batch DataFrame with rows like those to come. Give what comes back as ``sql(..., hot_keys={column:
    values})``; it has to stay the same for the life of a checkpoint, so note it down.

    ::

        values = ms.spark.hot_keys(spark.read.parquet(f"{folder}/orders"), "id", share=0.2)
    """
    if not is_frame(frame):
        raise SparkError(f"hot_keys: {shown(frame)} is not a DataFrame of Spark; give a batch DataFrame")
    check_text("hot_keys", column, "the name of a column")
    if frame.isStreaming:
        raise SparkError("hot_keys: give a batch DataFrame, such as spark.read over the rows of a day")
    for name, value in (("share", share), ("fraction", fraction)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise SparkError(f"hot_keys: {name}={shown(value)}; give a number above 0 and up to 1")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise SparkError(f"hot_keys: seed={shown(seed)}; give a whole number")
    if column not in frame.columns:
        raise SparkError(f"hot_keys: unknown column {column!r}; columns: {', '.join(frame.columns)}")
    quoted = "`" + column.replace("`", "``") + "`"
    sample = frame.select(F.col(quoted).alias("value")).where("value IS NOT NULL")
    if fraction < 1:
        sample = sample.sample(fraction=fraction, seed=seed)
    counts = sample.groupBy("value").count()
    total = counts.agg(F.sum("count")).first()[0] or 0
    hot = counts.where(F.col("count") >= share * total).orderBy(F.desc("count"), "value")
    return [row.value for row in hot.collect()]
