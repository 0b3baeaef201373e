"""TPC-H's customers, orders and lineitems, from the `tpchgen-cli` program, which has to be installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from midstream.lab.definition import LabError

_PROGRAM = "tpchgen-cli"
#: The columns that are read of each table; names lose the prefix that TPC-H gives them.
_COLUMNS = {
    "customer": ("c_custkey", "c_nationkey", "c_acctbal"),
    "orders": ("o_orderkey", "o_custkey"),
    "lineitem": ("l_orderkey", "l_linenumber", "l_shipdate"),
}


def find_generator() -> str | None:
    """Where the program is, in the environment of this Python or on the path; None if it is not there."""
    beside = Path(sys.executable).parent / _PROGRAM
    return str(beside) if beside.exists() else shutil.which(_PROGRAM)


def generate_tables(scale: float) -> dict[str, pa.Table]:
    """The tables at a scale factor, by name; lineitems are in the order of their shipdates.

    Rows arrive side by side, at rates proportional to the sizes of the tables: the column `ts` has their order.
    """
    program = find_generator()
    if program is None:
        raise LabError(
            f"lab: {_PROGRAM} makes the rows of TPC-H and is not installed; run: pip install 'midstream[tpch]'"
        )
    with tempfile.TemporaryDirectory(prefix="midstream-tpch-") as folder:
        subprocess.run(
            [program, "parquet", f"--scale-factor={scale}", f"--tables={','.join(_COLUMNS)}", f"--output-dir={folder}"],
            check=True,
            capture_output=True,
        )
        tables = {
            name: pq.read_table(Path(folder) / f"{name}.parquet", columns=list(columns))
            for name, columns in _COLUMNS.items()
        }
    return arrange({name: _rename(table) for name, table in tables.items()})


def _rename(table: pa.Table) -> pa.Table:
    """Without the prefix of names, and without limits on nulls."""
    return pa.table(
        {name.split("_", 1)[1]: column for name, column in zip(table.column_names, table.columns, strict=True)}
    )


def arrange(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables with a column `ts` that tells in which order their rows arrive."""
    ordered = {**tables, "lineitem": tables["lineitem"].sort_by([("shipdate", "ascending"), ("orderkey", "ascending")])}
    shares = [(np.arange(table.num_rows) + 0.5) / max(1, table.num_rows) for table in ordered.values()]
    ranks = np.empty(sum(map(len, shares)), np.int64)
    ranks[np.argsort(np.concatenate(shares), kind="stable")] = np.arange(len(ranks))
    times = np.split(ranks, np.cumsum([len(share) for share in shares])[:-1])
    return {
        name: table.add_column(0, "ts", pa.array(found))
        for (name, table), found in zip(ordered.items(), times, strict=True)
    }
