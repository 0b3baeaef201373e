"""Random predicates: join shapes as links between attributes, and the forms in which a link can be written."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from .expr import Col, Expr, Lit, Op, arith, cond, interval, lit

KINDS = ("key", "chain", "star", "clique", "tree", "band", "theta", "time", "mixed", "cross")


@dataclass(frozen=True)
class Link:
    """Attribute `a` of input `i` is compared with attribute `b` of input `j`; `op` is eq, band or theta."""

    i: int
    a: int
    j: int
    b: int
    op: str


def draw_links(rng: random.Random, kind: str, n: int) -> list[Link]:
    """The links of a join shape over `n` inputs."""
    if kind == "key":
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        if rng.random() < 0.5:
            pairs = [(i, i + 1) for i in range(n - 1)]
        links = [Link(i, 0, j, 0, "eq") for i, j in pairs]
        if rng.random() < 0.25:  # a composite key
            links += [Link(i, 1, i + 1, 1, "eq") for i in range(n - 1)]
        return links
    if kind == "chain":
        return [Link(i, 1, i + 1, 0, "eq") for i in range(n - 1)]
    if kind == "star":
        return [Link(0, i - 1, i, 0, "eq") for i in range(1, n)]
    if kind == "clique":
        return [Link(i, j, j, i, "eq") for i in range(n) for j in range(i + 1, n)]
    if kind == "tree":
        return [Link(rng.randrange(i), rng.randrange(3), i, rng.randrange(3), "eq") for i in range(1, n)]
    if kind == "band":
        return [Link(i, 1, i + 1, 0, "band") for i in range(n - 1)]
    if kind == "theta":
        ops = ["theta", "theta", "eq"]
        return [Link(rng.randrange(i), rng.randrange(2), i, rng.randrange(2), rng.choice(ops)) for i in range(1, n)]
    if kind == "cross":  # the last input is joined with nothing
        return [Link(i, 0, i + 1, 0, "eq") for i in range(n - 2)]
    if kind == "time":
        return [Link(i, 0, i + 1, 0, "eq") for i in range(n - 1)]
    links = []
    for i in range(1, n):
        op = rng.choice(["eq", "eq", "eq", "band", "theta"])
        links.append(Link(rng.randrange(i), rng.randrange(3), i, rng.randrange(3), op))
    for _ in range(rng.randint(0, 2) if n > 1 else 0):
        i, j = rng.sample(range(n), 2)
        links.append(Link(i, rng.randrange(3), j, rng.randrange(3), rng.choice(["eq", "band", "theta"])))
    return links


def equality(rng: random.Random, x: Col, y: Col) -> list[Expr]:
    """Ways to write an equality."""
    if rng.random() < 0.3:
        x, y = y, x
    form = rng.random()
    if form < 0.08 and types.is_integer(x.type) and types.is_integer(y.type):
        shift = lit(rng.randint(0, 2))
        return [cond("eq", arith("add", x, shift), arith(rng.choice(["add", "sub"]), y, shift))]
    if form < 0.08 and x.type == y.type == pa.string():
        function = rng.choice(["upper", "lower"])
        return [cond("eq", Op(function, (x,), pa.string()), Op(function, (y,), pa.string()))]
    if form < 0.12 and types.is_integer(x.type) and types.is_integer(y.type):
        return [cond("eq", x, Op("coalesce", (y, lit(1)), y.type))] if y.type == pa.int32() else [cond("eq", x, y)]
    return [cond("eq", x, y)]


def band(rng: random.Random, x: Col, y: Col) -> list[Expr]:
    """Ways to say that two values are close; each item is a conjunct of its own."""
    zoned = types.is_timestamp(x.type)
    if zoned:
        low, high = interval(rng.randint(0, 2) * 1_000_000), interval(rng.choice([0, 500_000, 1_000_000, 2_000_000]))
    elif x.type == y.type == pa.float64() and rng.random() < 0.7:
        low, high = lit(rng.choice([0.0, 0.5, 0.1])), lit(rng.choice([0.0, 0.5, 1.0, 0.1]))
        if rng.random() < 0.4:  # small values vanish beside a large constant, although it is on both sides
            large = lit(rng.choice([1.0, 1e9, 2.0**53, 1e16, 1e300]))
            return [cond(rng.choice(["le", "lt", "ge"]), arith("add", x, large), arith("add", y, large))]
    else:
        low, high = lit(rng.randint(0, 2)), lit(rng.randint(0, 2))
    form = rng.randrange(6)
    if form in (1, 2) and zoned:
        return [cond("le", arith("sub", x, y), high), cond("le", arith("sub", y, x), low)]
    if form == 1:
        return [cond("between", arith("sub", x, y), lit(-low.value), high)]
    if form == 2:
        difference = arith("sub", x, y)
        return [cond(rng.choice(["le", "lt"]), Op("abs", (difference,), difference.type), high)]
    if form == 3:
        return [cond("ge", x, arith("sub", y, low)), cond("le", x, arith("add", y, high))]
    if form == 4:
        return [cond("gt", x, arith("sub", y, low)), cond("lt", arith("sub", x, high), y)]
    if form == 5 and rng.random() < 0.3:
        return [cond("le", x, arith("add", y, high))]
    return [cond("between", x, arith("sub", y, low), arith("add", y, high))]


def theta(rng: random.Random, x: Col, y: Col, p: Col, q: Col) -> list[Expr]:
    """Comparisons and boolean expressions over two inputs; `p` and `q` are small int32 columns of the same two."""
    compare = cond(rng.choice(["lt", "le", "gt", "ge", "ne"]), x, y)
    total = arith("add", p, q)
    forms: list[Expr] = [
        compare,
        compare,
        cond("or", cond("eq", x, y), cond("lt", p, q)),
        cond("or", cond("is_null", p), cond("eq", p, q)),
        cond("gt", total, lit(3)),
        cond("eq", arith("mod", total, lit(2)), lit(0)),
        cond("not", cond("eq", x, y)),
        cond("ge", Op("coalesce", (p, q), pa.int32()), lit(2)),
        cond("gt", Op("case", (cond("gt", p, q), p, lit(0)), pa.int32()), lit(1)),
        cond("in", arith("sub", p, q), lit(0), lit(2)),
        cond("gt", arith("div", p, q), lit(1)),
        cond("same", p, q),
        cond("same", x, y) if x.type == y.type else compare,
        cond("and", compare, cond("or", cond("not_null", p), cond("eq", q, lit(1)))),
    ]
    return [rng.choice(forms)]


def theta_three(rng: random.Random, p: Col, q: Col, r: Col) -> Expr:
    """A predicate over three inputs, on small int32 columns."""
    forms: list[Expr] = [
        cond("eq", arith("add", p, q), r),
        cond("or", cond("eq", p, q), cond("eq", q, r)),
        cond("ge", Op("case", (cond("gt", p, q), r, lit(0)), pa.int32()), lit(1)),
        cond("eq", Op("coalesce", (p, q), pa.int32()), r),
        cond("between", p, q, r),
        cond("lt", Op("abs", (arith("sub", p, q),), pa.int32()), r),
        cond("ge", Op("greatest", (p, q), pa.int32()), r),
    ]
    return rng.choice(forms)


def time_condition(rng: random.Random, x: Col, y: Col, tick: int) -> list[Expr]:
    """A condition on two event times, as interval joins have."""
    size = rng.choice([0, 1, 2, 4]) * tick
    span = lit(size) if x.type == pa.int64() else interval(size)
    forms: list[list[Expr]] = [
        [cond("between", y, x, arith("add", x, span))],
        [cond("le", x, y)],
        [cond("lt", x, y), cond("le", arith("sub", y, span), x)],
        [cond("ge", y, arith("sub", x, span)), cond("le", y, arith("add", x, span))],
    ]
    return rng.choice(forms)


def input_filter(rng: random.Random, columns: dict[str, Col], key: Col) -> Expr:
    """A condition on one input; `columns` are its payload p (int32), s (string), f (float64), b (bool)."""
    p, s, f, b = (columns[name] for name in "psfb")
    forms: list[Expr] = [
        cond("gt", p, lit(0)),
        cond("in", p, lit(0), lit(1), lit(3)),
        cond("not", cond("in", p, lit(2), lit(9))),
        cond("is_null", p),
        cond("not_null", key),
        cond("like", s, lit(rng.choice(["a%", "%b", "_", "%a%", "%"]))),
        cond("or", cond("eq", p, lit(1)), cond("eq", s, lit("b"))),
        cond("or", cond("is_null", s), cond("ne", s, lit("a"))),
        cond("eq", Op("upper", (s,), pa.string()), lit("A")),
        cond("lt", Op("length", (s,), pa.int32()), lit(2)),
        cond("not", cond("eq", p, lit(1))),
        cond("lt", Op("coalesce", (p, lit(0)), pa.int32()), lit(3)),
        cond("between", p, lit(1), lit(3)),
        cond("gt", Op("abs", (arith("sub", p, lit(2)),), pa.int32()), lit(0)),
        cond("le", f, lit(1.5)),
        cond("gt", f, lit(-1.0)),
        cond("eq", arith("mod", p, lit(2)), lit(0)),
        b,
        cond("not", b),
        cond("same", p, Lit(None, pa.int32())),
        cond("startswith", s, lit("a")),
        cond("contains", s, lit("b")),
        cond("le", Op("floor", (f,), pa.int64()), lit(1)),
        cond("ne", Op("substring", (s, lit(1), lit(1)), pa.string()), lit("a")),
        cond("gt", arith("div", lit(6), p), lit(2)),
        cond("ge", Op("cast", (f,), pa.int64()), lit(0)),
    ]
    return rng.choice(forms)
