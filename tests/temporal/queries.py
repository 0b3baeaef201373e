"""Random queries: joins with windows that range, tumble or never end, and what stands above them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa

from ..oracle.expr import Col, Expr, Op, Value, arith, cond, lit
from ..oracle.spec import Input, Output, Source, Window
from ..oracle.sqltext import cql
from . import aggregates
from .spec import (
    MILLISECOND,
    Aggregate,
    Grouping,
    SetOperation,
    aggregate_column,
    aggregate_text,
    find_default_step,
    key_column,
    output_text,
    window_text,
)
from .values import ANY, ARITHMETIC, JOINED, NUMERIC, draw_pool

KINDS = ("distinct", "group", "group", "group", "distinct group", "plain", "sets", "sets")
UNITS = (MILLISECOND, 250 * MILLISECOND, 1000 * MILLISECOND, 60_000 * MILLISECOND)
TIMES = ("int64", "int64", "us", "us", "ms", "s", "ns")
SOURCES = ("orders", "payments", "clicks")
FUNCTIONS = ("count", "count", "count_distinct", "sum", "sum", "sum", "avg", "avg", "min", "max")


@dataclass
class Draft:
    """A query being made. `unit` is the time by which windows and steps are counted, in microseconds."""

    rng: random.Random
    kind: str
    unit: int
    resolution: int
    time_type: pa.DataType
    sources: dict[str, Source] = field(default_factory=dict)
    pools: dict[tuple[str, str], list[Value]] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    predicates: list[Expr] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    grouping: Grouping | None = None
    step: int = 0
    gives_step: bool = False
    is_connected: bool = True
    text: str = ""
    branches: list[Draft] = field(default_factory=list)
    combination: SetOperation | None = None

    @property
    def is_distinct(self) -> bool:
        return self.kind.startswith("distinct")

    def column(self, number: int, name: str) -> Col:
        return Col(number, name, self.sources[self.inputs[number].source].schema.field(name).type)

    def name_column(self, column: Col) -> str:
        return f"{self.inputs[column.input].alias}.{column.name}"

    def draw_column(self, names: str) -> Col:
        """One of some columns of any input; `t` stands for the event time, where there is one in microseconds."""
        number, name = self.rng.randrange(len(self.inputs)), self.rng.choice(names)
        if name == "t":
            has_time = "ts" in self.sources[self.inputs[number].source].schema.names and "ns" not in str(self.time_type)
            name = "ts" if has_time else "j"
        return self.column(number, name)


def draw_query(rng: random.Random, kind: str | None, scale: int | None) -> Draft:
    """With a `scale` of 1, units of time are microseconds and the engine would refuse the steps.

    A draft of kind "sets" has nothing yet but its times.
    """
    time = rng.choice(TIMES)
    coarsest = {"s": 1_000_000, "ms": 1_000}.get(time, 1)
    unit = scale or rng.choice([unit for unit in UNITS if unit % coarsest == 0])
    zone = None if time == "int64" else rng.choice([None, "UTC", "Europe/Berlin"])
    time_type = pa.int64() if time == "int64" or scale else pa.timestamp(time, zone)
    draft = Draft(rng, kind or rng.choice(KINDS), unit, scale or MILLISECOND, time_type)
    if draft.kind == "sets":
        return draft
    _draw_inputs(draft)
    draw_step(draft)
    draw_predicates(draft)
    if "group" in draft.kind:
        _draw_grouping(draft)
    else:
        _draw_outputs(draft)
    return draft


def _draw_inputs(draft: Draft) -> None:
    rng = draft.rng
    count = rng.choice([1, 2, 2, 2, 3, 3])
    names = rng.sample(SOURCES, count)
    if count > 1 and rng.random() < 0.1:  # one stream under two aliases
        names[-1] = names[0]
    static = names[-1] if names[-1] != names[0] and rng.random() < 0.25 else None
    kinds = rng.choice([["range"], ["tumble"], ["range", "tumble"], ["range", "tumble", "unbounded"], ["unbounded"]])
    if draft.kind == "plain":
        kinds = ["tumble", *kinds]
    joined = rng.choice(JOINED)
    pool = draw_pool(rng, joined, 3)
    for number, name in enumerate(names):
        window = Window("static") if name == static else draw_window(draft, rng.choice(kinds))
        if draft.kind == "plain" and number == 0:
            window = draw_window(draft, "tumble")
        draft.inputs.append(Input("abc"[number], name, window))
    for name in dict.fromkeys(names):
        draft.pools[name, "j"] = pool
        fields = [pa.field("j", joined), pa.field("n", pa.int32())]
        fields += [pa.field("q", rng.choice(NUMERIC)), pa.field("y", rng.choice(ANY))]
        for column in fields[1:]:
            draft.pools[name, column.name] = draw_pool(rng, column.type, 4)
        draft.pools[name, "n"] = [0, 1, 2, 3]
        if name != static:
            fields.append(pa.field("ts", draft.time_type))
        rng.shuffle(fields)
        draft.sources[name] = Source(name, pa.schema(fields), None if name == static else "ts")


def draw_window(draft: Draft, kind: str) -> Window:
    rng = draft.rng
    if kind == "range":
        beside = rng.choice([0, 0, 0, 1]) if draft.unit > 1 else 0
        return Window("range", draft.unit * rng.choice([0, 1, 2, 3, 5, 8, 12, 20]) + beside)
    return Window(kind, draft.unit * rng.choice([1, 2, 2, 3, 4, 6]) if kind == "tumble" else 0)


def draw_step(draft: Draft) -> None:
    """The default, or a multiple of what the windows ask for."""
    rng = draft.rng
    windows = [relation.window for relation in draft.inputs]
    default = find_default_step(windows, draft.resolution)
    draft.gives_step = default is None or rng.random() < 0.5
    tumbles = any(window.kind == "tumble" for window in windows)
    if not draft.gives_step:
        draft.step = default or 0
    elif tumbles:
        draft.step = (default or 0) * rng.choice([1, 2, 3])
    else:
        draft.step = draft.unit * rng.choice([1, 2, 3, 5, 10, 25])


def draw_predicates(draft: Draft) -> None:
    rng = draft.rng
    for number in range(1, len(draft.inputs)):
        other = rng.randrange(number)
        if rng.random() < 0.85:
            draft.predicates.append(cond("eq", draft.column(other, "j"), draft.column(number, "j")))
        else:
            draft.is_connected = False
        if rng.random() < 0.2:
            name = rng.choice(["lt", "le", "ne", "ge"])
            draft.predicates.append(cond(name, draft.column(other, "n"), draft.column(number, "n")))
    for number, relation in enumerate(draft.inputs):
        if rng.random() < 0.15:
            n = draft.column(number, "n")
            condition = rng.choice([cond("gt", n, lit(0)), cond("not_null", n), cond("in", n, lit(0), lit(2))])
            draft.inputs[number] = Input(relation.alias, relation.source, relation.window, (condition,))


def _draw_expression(draft: Draft) -> Expr:
    """A column, or something made of columns."""
    rng = draft.rng
    if rng.random() < 0.6:
        return draft.draw_column("jjnnqqqqyyyyt")
    n, m = draft.draw_column("n"), draft.draw_column("n")
    forms: list[Expr] = [
        arith("mod", n, lit(2)),
        arith("add", n, m),
        arith("div", n, m),
        cond("lt", n, m),
        cond("is_null", draft.draw_column("qyj")),
        Op("coalesce", (n, m), pa.int32()),
        Op("case", (cond("gt", n, lit(1)), m, lit(7)), pa.int32()),
        arith("mul", Op("cast", (n,), pa.float64()), lit(0.1)),
    ]
    y = draft.draw_column("jy")
    if y.type == pa.string():
        forms += [Op("upper", (y,), pa.string())] * 3
    return rng.choice(forms)


def _draw_number(draft: Draft) -> Expr:
    """Something to sum up."""
    rng = draft.rng
    q, n = draft.draw_column("q"), draft.draw_column("n")
    if rng.random() < 0.7:
        return rng.choice([q, q, q, n])
    if q.type in ARITHMETIC:
        return rng.choice([arith("mul", q, n), arith("add", q, n), Op("neg", (q,), q.type)])
    return arith("add", n, draft.draw_column("n"))


def _draw_outputs(draft: Draft) -> None:
    for place in range(draft.rng.choice([1, 1, 2, 3])):
        draft.outputs.append(Output(f"out{place}", _draw_expression(draft)))
    texts = [f"{cql(output.expr, draft.name_column)} AS {output.name}" for output in draft.outputs]
    draft.text = write(draft, texts, "")


def _draw_grouping(draft: Draft) -> None:
    rng = draft.rng
    keys = tuple(dict.fromkeys(_draw_expression(draft) for _ in range(rng.choice([0, 1, 1, 1, 2, 2]))))
    wanted = [_draw_aggregate(draft) for _ in range(rng.choice([0, 1, 1, 2, 3]) or (0 if keys else 1))]
    having_aggregate = _draw_aggregate(draft)
    has_having = rng.random() < 0.35
    found = tuple(dict.fromkeys([*wanted, *([having_aggregate] if has_having else [])]))
    place = {aggregate: number for number, aggregate in enumerate(found)}
    shown: list[Expr] = [key_column(number, key) for number, key in enumerate(keys) if rng.random() < 0.6]
    shown += [_draw_above(rng, aggregate_column(place[aggregate], aggregate)) for aggregate in wanted]
    if not shown:
        shown = [key_column(0, keys[0])] if keys else [aggregate_column(0, found[0])]
    if rng.random() < 0.1:
        shown.append(lit(42))
    rng.shuffle(shown)
    draft.outputs = [Output(f"out{number}", expr) for number, expr in enumerate(shown)]
    column = aggregate_column(place[having_aggregate], having_aggregate) if has_having else None
    having = _draw_having(rng, column, [key_column(number, key) for number, key in enumerate(keys)])
    draft.grouping = Grouping(keys, found, having)
    write_grouped(draft, draft.grouping)


def _draw_aggregate(draft: Draft) -> Aggregate:
    rng = draft.rng
    function = rng.choice(FUNCTIONS)
    if function == "count" and rng.random() < 0.5:
        return Aggregate("count", None, pa.int64())
    argument = _draw_number(draft) if function in ("sum", "avg") else _draw_expression(draft)
    return Aggregate(function, argument, aggregates.find_type(function, argument.type))


def _draw_above(rng: random.Random, column: Col) -> Expr:
    """An aggregate, or something made of it."""
    if rng.random() < 0.75:
        return column
    forms: list[Expr] = [cond("is_null", column)]
    if column.type == pa.int64():
        forms += [
            arith("add", column, lit(1)),
            arith("mod", column, lit(2)),
            Op("coalesce", (column, lit(0)), pa.int64()),
        ]
    if column.type == pa.float64():
        forms += [arith("mul", column, lit(-1.0)), cond("gt", column, lit(0.5))]
    return rng.choice(forms)


def _draw_having(rng: random.Random, column: Col | None, keys: list[Col]) -> Expr | None:
    if column is None:
        return rng.choice([None, None, cond("not_null", rng.choice(keys))]) if keys else None
    forms: list[Expr] = [cond("not_null", column)]
    if column.type in (pa.int64(), pa.float64()):
        forms += [cond("gt", column, lit(1)), cond("le", column, lit(2)), cond("ne", column, lit(1))]
    if keys:
        forms.append(cond("or", cond("is_null", rng.choice(keys)), forms[-1]))
    return rng.choice(forms)


def write_grouped(draft: Draft, grouping: Grouping) -> None:
    rng = draft.rng
    keys = tuple(cql(key, draft.name_column) for key in grouping.keys)
    texts = tuple(
        aggregate_text(aggregate, None if aggregate.argument is None else cql(aggregate.argument, draft.name_column))
        for aggregate in grouping.aggregates
    )
    selected = [f"{output_text(keys, texts, output.expr)} AS {output.name}" for output in draft.outputs]
    grouped = []
    for number, key in enumerate(grouping.keys):
        ways = [keys[number]]
        for place, output in enumerate(draft.outputs):
            if output.expr == key_column(number, key):
                ways += [output.name, str(place + 1)]
        grouped.append(rng.choice(ways))
    tail = f"\nGROUP BY {', '.join(grouped)}" if grouped else ""
    if grouping.having is not None:
        tail += f"\nHAVING {output_text(keys, texts, grouping.having)}"
    draft.text = write(draft, selected, tail)


def write(draft: Draft, selected: list[str], tail: str) -> str:
    froms = [f"{relation.source} {window_text(relation.window, relation.alias)}" for relation in draft.inputs]
    conditions = [cql(predicate, draft.name_column, nested=True) for predicate in draft.predicates]
    conditions += [cql(test, draft.name_column, nested=True) for relation in draft.inputs for test in relation.filters]
    where = "\nWHERE " + "\n  AND ".join(conditions) if conditions else ""
    distinct = "DISTINCT " if draft.is_distinct else ""
    join = ", " if draft.is_connected else " CROSS JOIN "
    return f"SELECT {distinct}{', '.join(selected)}\nFROM {join.join(froms)}{where}{tail}"
