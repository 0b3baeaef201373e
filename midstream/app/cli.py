"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from midstream.app.control import control_app
from midstream.app.lab import lab_app
from midstream.errors import MidstreamError, QueryError

app = typer.Typer(
    name="midstream",
    help="Continuous multi-way windowed joins over data streams.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench_app = typer.Typer(name="bench", help="Measure the engine on this machine.", no_args_is_help=True)
app.add_typer(bench_app)
app.add_typer(lab_app)
app.add_typer(control_app)

console = Console()
errors = Console(stderr=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        import midstream

        console.print(f"midstream {midstream.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    rows: Annotated[
        int | None,
        typer.Option(
            min=1_000,
            help="Rows of each stream in a batch (80,000); with --embedded (2,000,000) or --kafka (60,000), orders.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the generated rows.")] = 42,
    out: Annotated[Path, typer.Option(help="The folder for the picture and Spark's log.")] = Path("out"),
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Without Spark: join four streams of a web shop in this process.")
    ] = False,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On Spark between topics of a Kafka broker that is started for it.")
    ] = False,
) -> None:
    """Join four streams on Spark, change the plan half-way, and compare with a batch join by Spark SQL.

    Shows rows a second, the plan of each cell and how far a change of plan is, batch by batch. With --embedded it joins
    the streams of a web shop in one process and checks every result with DuckDB. With --kafka it joins three topics
    into Parquet files and copies these to a topic. Exits with 1 if one result is wrong.
    """
    if embedded and kafka:
        raise typer.BadParameter("--embedded is without Spark, --kafka is on Spark; give one of them")
    if embedded:
        from midstream.app import demo as embedded_demo

        is_right = embedded_demo.run(orders=rows or 2_000_000, seed=seed, console=console)
    elif kafka:
        from midstream.app import kafka_demo

        is_right = kafka_demo.run(kafka_demo.Shop(rows=rows or 60_000, seed=seed), console, out)
    else:
        from midstream.app import demo_spark
        from midstream.app.demo_streams import Story

        is_right = demo_spark.run(Story(rows=rows or 80_000, seed=seed), console, out)
    if not is_right:
        raise typer.Exit(1)


@app.command()
def explain(
    query_file: Annotated[
        Path | None, typer.Argument(help="A file with the query's text; - for standard input.", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option("--text", "-t", help="The query's text, instead of a file.")] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            "-s",
            metavar="NAME=...",
            help="The columns of a stream or table: 'orders=ts timestamp, id bigint' or 'orders=orders.parquet'. "
            "Once for each.",
        ),
    ] = None,
    event_time: Annotated[
        list[str] | None,
        typer.Option(
            "--event-time",
            "-e",
            metavar="COLUMN",
            help="The column of event time: one for all streams, or 'stream=column' once for each.",
        ),
    ] = None,
    assume_zone: Annotated[
        str | None,
        typer.Option(
            "--assume-zone", metavar="ZONE", help="The time zone of event times without one: 'Europe/Berlin'."
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="DURATION", help="How often DISTINCT and groups give results: '1 minute'."),
    ] = None,
    plan: Annotated[
        str | None, typer.Option("--plan", "-p", help="Draw this plan, '((o p) s)', instead of the default one.")
    ] = None,
    migrate: Annotated[
        str | None,
        typer.Option("--migrate", "-m", metavar="PLAN", help="Estimate a change from --plan, or the default, to this."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "-d",
            metavar="NAME=FILE",
            help="Rows to estimate from, 'orders=orders.parquet', which have a schema too. Once for each.",
        ),
    ] = None,
    push_rows: Annotated[
        int, typer.Option("--push-rows", min=1, help="With --migrate: how many rows each push will have.")
    ] = 10_000,
) -> None:
    """Show what a query is understood as and the plan it would run with; or what changing the plan would cost.

    Example:

        midstream explain -t "SELECT o.id FROM orders [RANGE 1 HOUR] o, payments [RANGE 1 HOUR] p WHERE o.id = p.id"
        -s "orders=ts timestamp, id bigint" -s "payments=ts timestamp, id bigint" -e ts

    With --migrate it compares the strategies that can make the change: the pause, the end, and the work. The figures
    are estimates from a sample of the rows in --data; without rows only what follows from the plans is shown.
    """
    import midstream as ms
    from midstream.app.data import read_tables
    from midstream.app.explain import explain as explained
    from midstream.app.schemas import check_given, read_event_times, read_schemas
    from midstream.plan import default_plan, read_plan

    written = _query_text(query_file, text)
    schemas = read_schemas(schema or [])
    tables = read_tables(data or [], schemas)
    query = ms.query(
        written,
        schemas=check_given({name: table.schema for name, table in tables.items()} | schemas, written),
        event_time=read_event_times(event_time or ["ts"]),
        assume_zone=assume_zone,
        step=step,
    )
    given = None if plan is None else read_plan(plan, query)
    if migrate is None:
        print(explained(query, given))
        return
    from midstream.adapt import estimate, measure
    from midstream.app.explain_migration import explain_migration

    old, new = given or default_plan(query), read_plan(migrate, query)
    measured = measure(query, old, new, tables) if tables else None
    print(explain_migration(estimate(query, old, new, measured, push_rows=push_rows)))


@app.command()
def diff(
    left: Annotated[Path, typer.Argument(metavar="A", help="Results: a file, or a folder of Parquet files.")],
    right: Annotated[Path, typer.Argument(metavar="B", help="Other results with the same columns.")],
) -> None:
    """The first moment and row in which two sets of results differ.

    Compared is how often each row is there at each moment, so steps, batches and the order of rows do not matter. Exits
    with 1 if there is a difference.
    """
    from midstream.app.difference import find_difference, read_results

    tables = read_results(left), read_results(right)
    sizes = " and ".join(f"{table.num_rows:,}" for table in tables)
    found = find_difference(*tables)
    if found is None:
        console.print(f"The same at every moment ({sizes} results).", highlight=False)
        return
    console.print(f"They differ first {escape(str(found))}", highlight=False)
    console.print(
        f"Times that A has it: {found.left}. Times that B has it: {found.right}. Rows that differ at some moment: "
        f"{found.rows:,} ({sizes} results).",
        highlight=False,
    )
    raise typer.Exit(1)


@bench_app.command("engine")
def bench_engine(
    rows: Annotated[int, typer.Option(help="Rows a stream; smaller is quicker and less steady.")] = 4_000_000,
    growth: Annotated[int, typer.Option(help="Rows of the largest window in the part on growth.")] = 3_000_000,
) -> None:
    """How fast the embedded engine is beside the bare limit of its kernels, by shape of query and size of batch.

    Every answer is checked against DuckDB. Exits with 1 if one is wrong or a target is missed.
    """
    from midstream.app.check import require_duckdb
    from midstream.lab.bench import engine

    require_duckdb("bench")
    if not engine.run(rows, growth, console):
        raise typer.Exit(1)


@bench_app.command("migration")
def bench_migration(
    window: Annotated[int, typer.Option(help="Rows a stream in a window.")] = 1_000_000,
    wide: Annotated[int, typer.Option(help="Streams of the wide query.")] = 20,
) -> None:
    """What a change of plan costs a running engine: the slowest batch after it, and the work of the stage.

    Every answer is checked. Exits with 1 if a target is missed.
    """
    from midstream.lab.bench import migration

    if not migration.run(window, wide, console):
        raise typer.Exit(1)


@bench_app.command("temporal")
def bench_temporal(
    window: Annotated[int, typer.Option(help="Rows a stream in a window.")] = 1_000_000,
    groups: Annotated[int, typer.Option(help="Different values, and so groups.")] = 100_000,
) -> None:
    """What DISTINCT and GROUP BY cost over a join, beside the join alone, and how that grows with the window.

    Every answer is checked against DuckDB. Exits with 1 if one is wrong or a target is missed.
    """
    from midstream.app.check import require_duckdb
    from midstream.lab.bench import temporal

    require_duckdb("bench")
    if not temporal.run(window, groups, console):
        raise typer.Exit(1)


@bench_app.command("memory")
def bench_memory(
    window: Annotated[int, typer.Option(min=4_000, help="Rows a stream in a window.")] = 20_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often to measure; the median counts.")] = 3,
) -> None:
    """What a memory limit costs: room for a quarter of the join states, beside no limit and no states at all.

    Exits with 1 if answers differ or a target is missed.
    """
    from midstream.lab.bench import memory

    if not memory.run(window, rounds, console):
        raise typer.Exit(1)


@bench_app.command("demand")
def bench_demand(
    window: Annotated[
        int,
        typer.Option(
            min=100,
            help="Rows a stream in a window of the cliques; that of the others is five times, in large batches fifty.",
        ),
    ] = 1_200,
    rounds: Annotated[int, typer.Option(min=1, help="How often to measure; the median counts.")] = 3,
) -> None:
    """What demand saves in cliques and with a common key, and what it costs where there is nothing to save.

    Exits with 1 if answers differ or a target is missed.
    """
    from midstream.lab.bench import demand

    if not demand.run(window, rounds, console):
        raise typer.Exit(1)


@bench_app.command("eddies")
def bench_eddies(
    window: Annotated[
        int, typer.Option(min=1_000, help="Rows a stream in a window; smaller is quicker and less steady.")
    ] = 250_000,
) -> None:
    """What STAIRs in a fixed order and SteMs cost beside the tree of joins, by shape of query and size of batch.

    Exits with 1 if answers differ or a target is missed.
    """
    from midstream.lab.bench import eddies

    if not eddies.run(window, console):
        raise typer.Exit(1)


@bench_app.command("spark")
def bench_spark(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the rows: minutes instead of an hour.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where files and checkpoints are put meanwhile.", exists=True, file_okay=False)
    ] = None,
) -> None:
    """How fast a join on Spark is beside Spark's own chain of stream-stream joins, in memory and on RocksDB.

    Every answer is checked against DuckDB. Exits with 1 if one is wrong or a target is missed.
    """
    from midstream.app.check import require_duckdb
    from midstream.app.scratch import scratch_folder
    from midstream.lab.bench import spark

    require_duckdb("bench")
    with scratch_folder("bench", folder) as place:
        holds = spark.run(place, quick, console)
    if not holds:
        raise typer.Exit(1)


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(min=0.5, help="How long it is fed, migrated and killed.")] = 20.0,
    migrate_every: Annotated[float, typer.Option(min=1, help="Seconds between migrations.")] = 60.0,
    kill_every: Annotated[float, typer.Option(min=10, help="Seconds between kills, on average.")] = 240.0,
    feed_every: Annotated[float, typer.Option(min=0.1, help="Seconds between files of a stream.")] = 3.0,
    rows: Annotated[int, typer.Option(min=100, help="Rows of a file.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of rows and kills.")] = 0,
    out: Annotated[Path, typer.Option(help="The folder for the picture, the figures and Spark's log.")] = Path("out"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the job's input, checkpoint and output.")] = False,
) -> None:
    """Run a four-way join on Spark for long, with disorder, late rows, migrations and kills.

    At the end the output is compared with a batch join, and memory, state and batch time are drawn. Exits with 1 if a
    result is wrong, or if something grew in a run of ten minutes or more.
    """
    from midstream.app import soak as soaking
    from midstream.app.soak_run import Course

    course = Course(minutes, feed_every, migrate_every, kill_every, rows, seed)
    if not soaking.run(course, console, out, keep):
        raise typer.Exit(1)


@app.command()
def doctor() -> None:
    """Look at this machine: versions, what is missing, and whether compiled kernels can be kept.

    Exits with 1 if something that Midstream needs is not there.
    """
    from midstream.app.doctor import examine

    table = Table.grid(padding=(0, 2))
    findings = list(examine())
    for finding in findings:
        mark = {True: "[green]ok[/]", False: "[red]bad[/]", None: "[dim]-[/]"}[finding.ok]
        table.add_row(mark, finding.what, escape(finding.value))
    console.print(table)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(1)


def _query_text(query_file: Path | None, text: str | None) -> str:
    if (query_file is None) == (text is None):
        raise QueryError("explain: give either a file with the query or --text")
    if text is not None:
        return text
    assert query_file is not None
    if str(query_file) == "-":
        return sys.stdin.read()
    try:
        return query_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"explain: cannot read '{query_file}': {error}") from error


def main() -> None:
    """What the console script `midstream` calls: errors of ours, and missing extras, are one line, not a traceback."""
    try:
        app()
    except MidstreamError as error:
        _end(str(error))
    except ModuleNotFoundError as missing:
        from midstream.app.doctor import OPTIONAL

        if missing.name not in OPTIONAL:
            raise
        _end(f"{missing.name} is not installed; run: pip install 'midstream[{OPTIONAL[missing.name]}]'")


def _end(problem: str) -> NoReturn:
    errors.print(f"[bold red]error[/] {escape(problem)}", highlight=False, soft_wrap=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
