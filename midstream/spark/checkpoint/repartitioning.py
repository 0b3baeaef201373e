"""A stopped query's checkpoint for more or fewer partitions."""

from __future__ import annotations

from typing import Any

from midstream.errors import SparkError
from midstream.spark.arguments import check_count, check_folder
from midstream.spark.compat import repartition_checkpoint


def repartition(checkpoint: str, partitions: int, session: Any | None = None) -> None:
    """Spread the cells of a stopped query's checkpoint over another number of partitions.

    Whole cells move: the number of cells that the query was started with has to be a multiple of `partitions`. Restart
    the query with ``partitions=`` set to the new number and the same ``cells=``. It needs a classic session of Spark
    4.2 or newer; without `session` it is the active one. From two partitions to four, for a query with ``cells=4``::

        ms.spark.repartition(f"{folder}/checkpoint", 4)
    """
    from pyspark.sql import SparkSession

    check_folder("repartition", checkpoint)
    check_count("repartition", partitions, "partitions")
    chosen = session or SparkSession.getActiveSession()
    if chosen is None:
        raise SparkError("repartition: there is no active session; make one, or give it as session=")
    repartition_checkpoint(chosen, str(checkpoint), partitions)
