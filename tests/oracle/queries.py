"""Random queries: inputs with windows, typed columns, predicates, filters and a SELECT list, and their CQL text."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types

from . import carried
from . import predicates as pred
from .disguise import Spelling, draw_spelling, quote_name
from .expr import Col, Expr, Op, arith, cond, lit
from .spec import MICROSECONDS, Input, Output, Source, Window
from .sqltext import cql, duration_text
from .values import BAND_FAMILIES, FAMILIES, KEY_FAMILIES, THETA_FAMILIES, Pool

SOURCE_NAMES = ("orders", "payments", "shipments", "clicks", "Views", "users", "items")
TICKS = (1, 1_000, 250_000, 1_000_000, 60_000_000, 3_600_000_000)
TIME_TYPES = ("int64", "us", "us", "ms", "s", "ns")
ROWS = (1, 1, 2, 2, 3, 3, 5, 5, 10, 20, 2**63 - 1, 2**63 - 40)
PAYLOAD = (("v", pa.int64()), ("p", pa.int32()), ("s", pa.string()), ("f", pa.float64()), ("b", pa.bool_()))


@dataclass(frozen=True)
class Shape:
    """What a case looks like in the large; None is drawn from the seed."""

    kind: str | None = None
    inputs: int | None = None
    rows: int | None = None
    windows: str | None = None  # range, mixed (range, unbounded), rows (and any other), static
    watermarks: str | None = None  # implicit, implicit late, explicit, explicit late, per stream, switch
    time: str | None = None
    big: bool | None = None
    self_join: bool | None = None  # one stream under two aliases
    ties: bool = False  # many rows of a push, in disorder, at one moment
    ahead: bool | None = None  # some rows are far ahead of the others, where watermarks allow it
    odd_names: bool | None = None  # columns, aliases and streams called like things inside the engine
    carried: str | None = None  # none: without the column of any type


@dataclass
class Draft:
    """A query being made. `pools` say what the columns of a source draw their values from."""

    rng: random.Random
    kind: str
    tick: int
    zone: str | None
    sources: dict[str, Source] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    predicates: list[Expr] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    pools: dict[tuple[str, str], Pool] = field(default_factory=dict)
    select_all: bool = False
    spelling: Spelling = field(default_factory=Spelling)
    text: str = ""

    def column(self, number: int, name: str) -> Col:
        return Col(number, name, self.sources[self.inputs[number].source].schema.field(name).type)


def draw_query(rng: random.Random, shape: Shape, big: bool) -> Draft:
    kind = shape.kind or rng.choice(pred.KINDS)
    n = shape.inputs or rng.choice([2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7] * 3 + [1])
    if shape.inputs is None and (kind in ("theta", "cross") or big):
        n = min(n, 3 if kind == "cross" else 4)
    time = shape.time or rng.choice(TIME_TYPES)
    tick = rng.choice([size for size in TICKS if size % {"s": 1_000_000, "ms": 1_000}.get(time, 1) == 0])
    zone = (
        None
        if time == "int64"
        else rng.choice([None, None, "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
    )
    draft = Draft(rng, kind, tick, zone)
    windows = shape.windows or rng.choice(["range"] * 5 + ["mixed"] * 2 + ["rows"] * 2 + ["static"] * 2)
    names = _draw_inputs(draft, n, windows, shape.self_join)
    links = pred.draw_links(rng, kind, n)
    _draw_sources(draft, links, names, time, big)
    if shape.carried != "none":
        _draw_carried(draft)
    _draw_predicates(draft, links)
    _draw_filters(draft)
    if rng.random() < 0.15 if shape.odd_names is None else shape.odd_names:
        draft.spelling = draw_spelling(rng, draft.sources, draft.inputs)
    _draw_outputs(draft)
    if shape.carried != "none":
        _select_carried(draft)
    draft.text = _text(draft)
    return draft


def _draw_inputs(draft: Draft, n: int, windows: str, self_join: bool | None) -> list[str]:
    """The inputs, some of them the same stream twice; returns their sources."""
    rng = draft.rng
    names = rng.sample(SOURCE_NAMES, n)
    if n >= 2 and (rng.random() < 0.2 if self_join is None else self_join):
        first, second = rng.sample(range(n), 2)
        names[second] = names[first]
    static = set()
    if windows == "static" or (windows == "rows" and rng.random() < 0.4):
        candidates = sorted(set(names))
        rng.shuffle(candidates)
        static = set(candidates[: rng.randint(1, max(1, len(candidates) - 1))])
        if len(static) == len(candidates):
            static = set()
    common = Window("range", draft.tick * rng.choice([2, 3, 6, 12])) if rng.random() < 0.4 else None
    plain_aliases = len(set(names)) == n and rng.random() < 0.15
    for number, name in enumerate(names):
        window = Window("static") if name in static else _draw_window(draft, windows, common)
        alias = name if plain_aliases else "abcdefg"[number]
        draft.inputs.append(Input(alias, name, window))
    return names


def _draw_window(draft: Draft, windows: str, common: Window | None) -> Window:
    rng = draft.rng
    if windows == "rows" and rng.random() < 0.6:
        return Window("rows", rng.choice(ROWS))
    if windows in ("mixed", "rows") and rng.random() < 0.3:
        return Window("unbounded")
    return common or Window("range", draft.tick * rng.choice([0, 2, 4, 4, 8, 8, 16, 30]))


def _draw_sources(draft: Draft, links: list[pred.Link], names: list[str], time: str, big: bool) -> None:
    """Schemas: attributes that are compared with each other get comparable types and share a pool of values."""
    rng = draft.rng
    attributes = max([max(link.a, link.b) for link in links] + [0]) + 1
    groups = {(name, a): (name, a) for name in names for a in range(attributes)}

    def root(column: tuple[str, int]) -> tuple[str, int]:
        while groups[column] != column:
            column = groups[column]
        return column

    ops: dict[tuple[str, int], set[str]] = {}
    for link in links:
        groups[root((names[link.i], link.a))] = root((names[link.j], link.b))
    for link in links:
        ops.setdefault(root((names[link.i], link.a)), set()).add(link.op)
    pools: dict[tuple[str, int], Pool] = {}
    for leader in sorted({root(column) for column in groups}):
        used = ops.get(leader, set())
        families = BAND_FAMILIES if "band" in used else THETA_FAMILIES if "theta" in used else KEY_FAMILIES
        pools[leader] = Pool(rng, rng.choice(families), _domain(draft.kind, rng, big))
    one_name = rng.random() < 0.6
    for name in dict.fromkeys(names):
        static = any(relation.source == name and relation.window.kind == "static" for relation in draft.inputs)
        event_time = None if static else ("ts" if one_name else f"at_{name}")
        fields = []
        for a in range(attributes):
            pool = pools[root((name, a))]
            fields.append(pa.field(f"k{a}", rng.choice(FAMILIES[pool.family].types)))
            draft.pools[name, f"k{a}"] = pool
        fields += [pa.field(column, type_) for column, type_ in PAYLOAD]
        if event_time:
            fields.append(pa.field(event_time, _time_type(draft, time)))
        rng.shuffle(fields)
        draft.sources[name] = Source(name, pa.schema(fields), event_time)


def _draw_carried(draft: Draft) -> None:
    """Every source gets a column of any type."""
    rng = carried.beside(draft.rng)
    for name, source in draft.sources.items():
        fields = list(source.schema)
        fields.insert(rng.randint(0, len(fields)), pa.field(carried.CARRIED, carried.draw_type(rng)))
        draft.sources[name] = Source(name, pa.schema(fields), source.event_time)


def _select_carried(draft: Draft) -> None:
    """Mostly one of these columns is in the results. Sometimes two of them decide about one, by being null."""
    rng = carried.beside(draft.rng)
    if len(draft.inputs) > 1 and rng.random() < 0.2:
        first, second = (draft.column(at, carried.CARRIED) for at in rng.sample(range(len(draft.inputs)), 2))
        draft.predicates.append(cond("or", cond(rng.choice(["is_null", "not_null"]), first), cond("not_null", second)))
    if rng.random() < 0.7 and not draft.select_all:
        number = rng.randrange(len(draft.inputs))
        draft.outputs.append(Output("carried", draft.column(number, carried.CARRIED)))


def _time_type(draft: Draft, time: str) -> pa.DataType:
    """Mostly one unit for all streams of a query, sometimes each its own."""
    if time == "int64":
        return pa.int64()
    if time != "ns" and draft.rng.random() < 0.2:
        time = draft.rng.choice([unit for unit, size in MICROSECONDS.items() if draft.tick % size == 0])
    return pa.timestamp(time, draft.zone)


def _domain(kind: str, rng: random.Random, big: bool) -> int:
    if big:
        return rng.choice([40, 100, 300])
    if kind == "clique":
        return rng.choice([2, 2, 3])
    if kind == "band":
        return rng.choice([4, 6, 9])
    return rng.choice([2, 3, 4, 6])


def _draw_predicates(draft: Draft, links: list[pred.Link]) -> None:
    rng, column = draft.rng, draft.column
    for link in links:
        x, y = column(link.i, f"k{link.a}"), column(link.j, f"k{link.b}")
        if link.op == "eq" or (link.op == "band" and not _arithmetic(x, y)):
            draft.predicates += pred.equality(rng, x, y)
        elif link.op == "band":
            draft.predicates += pred.band(rng, x, y)
        else:
            draft.predicates += pred.theta(rng, x, y, column(link.i, "p"), column(link.j, "p"))
    n = len(draft.inputs)
    chance = {"theta": 0.5, "mixed": 0.3}.get(draft.kind, 0.05)
    if n >= 3 and rng.random() < chance:
        first, second, third = (column(number, "p") for number in rng.sample(range(n), 3))
        draft.predicates.append(pred.theta_three(rng, first, second, third))
    timed = [i for i, relation in enumerate(draft.inputs) if draft.sources[relation.source].event_time]
    if len(timed) >= 2 and rng.random() < (1.0 if draft.kind == "time" else 0.05):
        for i, j in itertools.pairwise(timed):
            x, y = (column(number, str(draft.sources[draft.inputs[number].source].event_time)) for number in (i, j))
            if not (types.is_timestamp(x.type) and x.type.unit == "ns"):
                draft.predicates += pred.time_condition(rng, x, y, draft.tick)
    if rng.random() < 0.05:
        draft.predicates += draft.predicates[:1]
    rng.shuffle(draft.predicates)


def _arithmetic(x: Col, y: Col) -> bool:
    return not any(types.is_decimal(side.type) or side.type in (pa.string(), pa.date32()) for side in (x, y))


def _draw_filters(draft: Draft) -> None:
    rng = draft.rng
    for number, relation in enumerate(draft.inputs):
        if rng.random() >= 0.3:
            continue
        payload = {name: draft.column(number, name) for name in "psfb"}
        chosen = [pred.input_filter(rng, payload, draft.column(number, "k0")) for _ in range(rng.choice([1, 1, 2]))]
        draft.inputs[number] = Input(relation.alias, relation.source, relation.window, tuple(chosen))


def _draw_outputs(draft: Draft) -> None:
    """Mostly every input's row number, so that a result names its rows; sometimes so little that results repeat."""
    rng = draft.rng
    if rng.random() < 0.08:
        draft.select_all = True
        for number, relation in enumerate(draft.inputs):
            for column in draft.sources[relation.source].schema.names:
                name = f"{draft.spelling.alias(relation.alias)}_{draft.spelling.column(relation.source, column)}"
                draft.outputs.append(Output(name, draft.column(number, column)))
        return
    if rng.random() < 0.85:
        draft.outputs += [
            Output(f"{relation.alias}_v", draft.column(i, "v")) for i, relation in enumerate(draft.inputs)
        ]
    numbers = range(len(draft.inputs))
    for count in range(rng.choice([0, 1, 1, 2, 4]) or (0 if draft.outputs else 1)):
        number = rng.choice(numbers)
        schema = draft.sources[draft.inputs[number].source].schema
        names = [name for name in schema.names if name != carried.CARRIED]
        expr: Expr = draft.column(number, rng.choice(names))
        if rng.random() < 0.5:
            expr = _draw_expression(draft, number, rng.choice(numbers))
        draft.outputs.append(Output(f"out{count}", expr))
    rng.shuffle(draft.outputs)


def _draw_expression(draft: Draft, i: int, j: int) -> Expr:
    p, s, f, v = (draft.column(i, name) for name in "psfv")
    q, t, g = (draft.column(j, name) for name in "psf")
    forms: list[Expr] = [
        arith("add", p, q),
        arith("mul", v, lit(3)),
        arith("add", v, p),
        arith("mul", f, lit(2)),
        arith("sub", f, g),
        arith("div", p, q),
        arith("mod", v, lit(7)),
        Op("coalesce", (s, t), pa.string()),
        Op("upper", (s,), pa.string()),
        Op("concat", (s, t), pa.string()),
        Op("length", (s,), pa.int32()),
        Op("case", (cond("gt", p, q), s, t), pa.string()),
        Op("neg", (p,), pa.int32()),
        Op("floor", (f,), pa.int64()),
        Op("ceil", (f,), pa.int64()),
        Op("trim", (s,), pa.string()),
        cond("contains", s, lit("a")),
        Op("abs", (f,), pa.float64()),
        Op("cast", (p,), pa.float64()),
        Op("cast", (v,), pa.string()),
        Op("cast", (s,), pa.int32()),
        Op("greatest", (f, g), pa.float64()),
        Op("least", (p, q), pa.int32()),
        cond("lt", p, q),
        cond("is_null", s),
        arith("mul", arith("mul", p, lit(2_000_000_000)), q),
        lit(42),
    ]
    return draft.rng.choice(forms)


def _text(draft: Draft) -> str:
    rng = draft.rng
    swap = rng.random() < 0.1

    def name(column: Col) -> str:
        relation = draft.inputs[column.input]
        alias, spelled = draft.spelling.alias(relation.alias), draft.spelling.column(relation.source, column.name)
        text = f"{quote_name(alias)}.{quote_name(spelled)}"
        return text.swapcase() if swap else text

    selects = []
    for output in draft.outputs:
        bare = isinstance(output.expr, Col) and not swap and output.expr.name == output.name
        selects.append(cql(output.expr, name) + ("" if bare else f" AS {output.name}"))
    froms = [_from(rng, relation, draft.spelling) for relation in draft.inputs]
    conditions = [cql(predicate, name, nested=True) for predicate in draft.predicates]
    conditions += [cql(condition, name, nested=True) for relation in draft.inputs for condition in relation.filters]
    rng.shuffle(conditions)
    selected = "*" if draft.select_all else ", ".join(selects)
    where = "\nWHERE " + "\n  AND ".join(conditions) if conditions else ""
    comma = rng.random() < 0.85 and draft.kind != "cross"
    return f"SELECT {selected}\nFROM {', '.join(froms) if comma else ' CROSS JOIN '.join(froms)}{where}"


def _from(rng: random.Random, relation: Input, spelling: Spelling) -> str:
    window = {
        "range": f" [RANGE {duration_text(relation.window.size)}]",
        "rows": f" [ROWS {relation.window.size}]",
        "unbounded": " [UNBOUNDED]",
        "static": "",
    }[relation.window.kind]
    alias = ""
    if relation.alias != relation.source:
        alias = rng.choice([" ", " AS "]) + quote_name(spelling.alias(relation.alias))
    return f"{quote_name(spelling.source(relation.source))}{window}{alias}"
