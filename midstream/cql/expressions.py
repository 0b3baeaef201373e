"""Syntax -> typed expressions: one rule per kind of node; every error points at its place in the text.

`functions` decides which functions there are and what their types are; what it refuses becomes an error that points at
the node. Operators are functions too (``a + b`` is ``add``). What SQL only abbreviates is written out: BETWEEN is two
comparisons, IS NOT NULL a negation, CASE x WHEN a comparison with each value.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import TokenType, exp

from midstream.cql import functions, literals
from midstream.cql.model import Expr, Literal, inputs_of
from midstream.cql.names import Scope
from midstream.cql.typing_aggregates import AGGREGATES, AGGREGATES_TEXT, OTHER_AGGREGATES
from midstream.cql.windows import TUMBLE_TEXT, WINDOW_FUNCTIONS
from midstream.errors import QueryError, did_you_mean

BOOL = pa.bool_()

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_BINARY: dict[type[exp.Expr], str] = {
    **COMPARISONS,
    exp.NullSafeEQ: "null_safe_eq",
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "modulo",
    exp.IntDiv: "div",
    exp.DPipe: "concat",
    exp.RegexpLike: "rlike",
    exp.Like: "like",
    exp.ILike: "ilike",
}
_TYPES: dict[exp.DType, pa.DataType] = {
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
    exp.DType.CHAR: pa.string(),
    exp.DType.BINARY: pa.binary(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMP: pa.timestamp("us"),
    exp.DType.TIMESTAMPTZ: pa.timestamp("us"),
    exp.DType.TIMESTAMPLTZ: pa.timestamp("us"),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}
_TYPES_TEXT = "TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), BOOLEAN, STRING, BINARY, DATE, TIMESTAMP"
_SIZED_TEXTS = frozenset({exp.DType.VARCHAR, exp.DType.CHAR})
_FIELDS = frozenset({"year", "quarter", "month", "day", "dayofweek", "hour", "minute"})


class Reader:
    """Turns nodes into expressions over the inputs of a scope.

    `clause` is where the nodes stand, for messages. What a name means, and whether there may be aggregates, depends on
    it: readers of other clauses answer `column` and `aggregate` in their own way.
    """

    clause = "WHERE or ON"

    def __init__(self, scope: Scope, given: Sequence[functions.Function] = ()) -> None:
        self.scope = scope
        self.given = given
        self.source = scope.source

    def read(self, node: exp.Expr) -> Expr:
        """The expression that a node means."""
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return self.column(node)
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if type(node) in _BINARY:
            return self._binary(node)
        if isinstance(node, exp.Anonymous):
            return self._function(node)
        if isinstance(node, exp.And | exp.Or):
            return self._chain(node)
        constant = self._constant(node)
        return constant if constant is not None else self._other(node)

    def column(self, node: exp.Column) -> Expr:
        """What a name means."""
        return self.scope.column(node)

    def aggregate(self, node: exp.Anonymous) -> Expr:
        """What a call of one of our aggregates means."""
        what = f"the aggregate {node.name.lower()} has no place in {self.clause}"
        raise self.source.error(node, what, "use aggregates in SELECT and HAVING")

    def condition(self, node: exp.Expr) -> Expr:
        """An expression that must be a boolean."""
        return self.as_condition(self.read(node), node)

    def as_condition(self, expr: Expr, node: exp.Expr) -> Expr:
        if pa.types.is_null(expr.type):
            return Literal(None, BOOL)
        if not pa.types.is_boolean(expr.type):
            what = f"a condition must be a boolean, '{self.source.written(node)}' is {expr.type}"
            raise self.source.error(node, what, "write a comparison")
        return expr

    def call(self, name: str, args: Sequence[Expr], node: exp.Expr) -> Expr:
        """A call, or an error that points at the node."""
        try:
            return functions.call(name, args, self.given)
        except functions.FunctionError as error:
            raise self.located(error, node) from None

    def located(self, error: Exception, node: exp.Expr) -> QueryError:
        """An error of a lower part, with the place of a node put in."""
        what, separator, right = str(error).removeprefix("query: ").partition("; ")
        return self.source.error(node, what, right if separator else "")

    def between(self, node: exp.Between) -> tuple[Expr, Expr, Expr]:
        """The value and the bounds of a BETWEEN."""
        low, high = node.args["low"], node.args["high"]
        if node.args.get("symmetric") is not None:
            raise self.source.error(node, "BETWEEN SYMMETRIC is not supported", "write BETWEEN low AND high")
        if self.source.find(self.source.extent(low)[1] + 1, self.source.extent(high)[0], TokenType.AND) is None:
            raise self.source.error(high, "AND is missing before the upper bound", "write BETWEEN low AND high")
        return self.read(node.this), self.read(low), self.read(high)

    def _binary(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.DPipe) and isinstance(node.expression, exp.Add | exp.Sub):
            what = f"'{self.source.written(node)}' may mean two things: + and - bind as strongly as || in Spark"
            raise self.source.error(node, what, "write parentheses")
        expr = self.call(_BINARY[type(node)], (self.read(node.this), self.read(node.expression)), node)
        return self.call("not", (expr,), node) if node.args.get("negate") else expr

    def _chain(self, node: exp.Expr) -> Expr:
        """AND and OR, which may be chained a thousand times and lean to the left."""
        kind = type(node)
        operands = []
        while isinstance(node, kind):
            operands.append(node.expression)
            node = node.this
        operands.append(node)
        name = "and" if kind is exp.And else "or"
        return self.call(name, [self.condition(operand) for operand in reversed(operands)], node)

    def _function(self, node: exp.Anonymous) -> Expr:
        name = node.name.lower()
        if name in AGGREGATES:
            return self.aggregate(node)
        if name in OTHER_AGGREGATES:
            raise self._no_aggregate(node, name)
        if name in WINDOW_FUNCTIONS and name not in {function.name for function in self.given}:
            raise self.source.error(node, f"{name}(...) is not supported", TUMBLE_TEXT)
        for arg in node.expressions:
            if isinstance(arg, exp.Star | exp.Distinct):
                if hint := did_you_mean(name, AGGREGATES).strip():
                    raise self.source.error(node, f"unknown function '{name}'", hint)
                raise self.source.error(node, f"'{self.source.written(node)}' is not supported", "write a column")
        return self.call(name, [self.read(arg) for arg in node.expressions], node)

    def _constant(self, node: exp.Expr) -> Literal | None:
        try:
            if isinstance(node, exp.Null):
                return Literal(None, pa.null())
            if isinstance(node, exp.Boolean):
                return Literal(bool(node.this), BOOL)
            if isinstance(node, exp.Literal):
                return Literal(node.name, pa.string()) if node.is_string else literals.parse_number(node.name)
            if isinstance(node, exp.Concat) and all(part.is_string for part in node.expressions):
                return Literal("".join(part.name for part in node.expressions), pa.string())
            if isinstance(node, exp.HexString):
                return Literal(bytes.fromhex(node.name), pa.binary())
            if isinstance(node, exp.Interval):
                return literals.parse_interval(node)
            if isinstance(node, exp.Neg | exp.TryCast):
                inner = node.this if isinstance(node, exp.Neg) else node
                written = self.source.written(inner)
                plain = isinstance(inner, exp.Literal) and not inner.is_string
                suffixed = isinstance(inner, exp.TryCast) and written[:1] in tuple("0123456789.")
                if plain or (suffixed and isinstance(inner.this, exp.Literal) and "::" not in written):
                    return literals.parse_number(("-" if isinstance(node, exp.Neg) else "") + written)
            if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and node.this.is_string:
                if node.to.this == exp.DType.DATE:
                    return literals.parse_date(node.this.name)
                if _TYPES.get(node.to.this) == literals.TIMESTAMP:
                    return literals.parse_timestamp(node.this.name)
        except (QueryError, ValueError) as error:
            raise self.located(error, node) from None
        return None

    def _other(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Neg):
            return self.call("negate", (self.read(node.this),), node)
        if isinstance(node, exp.Not):
            return self.call("not", (self.read(node.this),), node)
        if isinstance(node, exp.Between):
            value, low, high = self.between(node)
            return self.call("and", (self.call("ge", (value, low), node), self.call("le", (value, high), node)), node)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.NullSafeNEQ):
            same = self.call("null_safe_eq", (self.read(node.this), self.read(node.expression)), node)
            return self.call("not", (same,), node)
        if isinstance(node, exp.In) and node.expressions:
            return self._in(node)
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.If):
            otherwise = node.args.get("false")
            last = self.read(otherwise) if otherwise is not None else Literal(None, pa.null())
            return self.call("if", (self.read(node.this), self.read(node.args["true"]), last), node)
        if isinstance(node, exp.Extract) and node.this.name.lower() == "second":
            what = f"'{self.source.written(node)}', which has a fraction in Spark, is not supported"
            raise self.source.error(node, what, "write second(...) for whole seconds")
        if isinstance(node, exp.Extract) and node.this.name.lower() in _FIELDS:
            return self.call(node.this.name.lower(), (self.read(node.expression),), node)
        raise self._unsupported(node)

    def _cast(self, node: exp.Cast) -> Expr:
        extra = [key for key, value in node.args.items() if value and key not in ("this", "to", "safe", "_type")]
        target = _target_type(node.to)
        what = f"'{self.source.written(node)}' is not supported"
        if target is None or extra:
            raise self.source.error(node, what, f"types to cast to: {_TYPES_TEXT}")
        if self._casts_text_of_literal(node):
            raise self.source.error(node, what, "write CAST(... AS type) around the literal")
        try:
            return functions.cast(self.read(node.this), target)
        except functions.FunctionError as error:
            raise self.located(error, node) from None

    def _casts_text_of_literal(self, node: exp.Cast) -> bool:
        """Whether ``::`` follows ``DATE '...'``: sqlglot casts the text first then, and makes a date of that."""
        inner = node.this
        while isinstance(inner, exp.TryCast):
            inner = inner.this
        if isinstance(node, exp.TryCast) or inner is node.this or not inner.is_string:
            return False
        word = self.source.before(self.source.extent(inner)[0])
        return word is not None and word.text.upper().startswith(("DATE", "TIMESTAMP"))

    def _is(self, node: exp.Is) -> Expr:
        value, right = self.read(node.this), node.expression
        if isinstance(right, exp.Null):
            expr = self.call("is_null", (value,), node)
        elif isinstance(right, exp.Boolean):
            expr = self.call("null_safe_eq", (value, Literal(bool(right.this), BOOL)), node)
        else:
            raise self._unsupported(node)
        return self.call("not", (expr,), node) if node.args.get("negate") else expr

    def _in(self, node: exp.In) -> Expr:
        value = self.read(node.this)
        items = [self.read(item) for item in node.expressions]
        if not any(inputs_of(item) for item in items):
            return self.call("in", (value, *items), node)
        equal = [self.call("eq", (value, item), node) for item in items]
        return equal[0] if len(equal) == 1 else self.call("or", equal, node)

    def _case(self, node: exp.Case) -> Expr:
        args: list[Expr] = []
        subject = self.read(node.this) if node.this is not None else None
        for arm in node.args["ifs"]:
            when = self.read(arm.this)
            args.append(when if subject is None else self.call("eq", (subject, when), arm))
            args.append(self.read(arm.args["true"]))
        default = node.args.get("default")
        args.append(self.read(default) if default is not None else Literal(None, pa.null()))
        return self.call("case", args, node)

    def _no_aggregate(self, node: exp.Expr, name: str) -> QueryError:
        return self.source.error(node, f"the aggregate {name} is not supported", AGGREGATES_TEXT)

    def _unsupported(self, node: exp.Expr) -> QueryError:
        if isinstance(node, exp.Exists):
            return self.source.error(node, "EXISTS is not supported", "name the stream in FROM and join it")
        if isinstance(node, exp.Query) or (isinstance(node, exp.In) and node.args.get("query")):
            return self.source.error(node, "a subquery is not supported", "name the stream in FROM and join it")
        if isinstance(node, exp.Window):
            return self.source.error(node, "a window function (OVER) is not supported", "write a scalar expression")
        if isinstance(node, exp.Filter):
            return self.source.error(node, "FILTER is not supported", "write count(CASE WHEN ... THEN 1 END)")
        if isinstance(node, exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            return self._no_aggregate(node, self.source.written(node))
        if isinstance(node, exp.Any) and isinstance(node.this, exp.Paren):
            return self._no_aggregate(node, "any")
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            return self.source.error(
                node, "'*' has no place here", "it stands alone in the SELECT list, or in count(*)"
            )
        what = f"'{self.source.written(node)}' is not supported"
        return self.source.error(node, what, "write columns, literals, operators and scalar functions")


def _target_type(to: exp.DataType) -> pa.DataType | None:
    """The type that a CAST names; None if there is none, or if it says more than we know."""
    if to.args.get("collate") or to.args.get("values"):
        return None
    sizes = [size.name for size in to.expressions]
    if to.this != exp.DType.DECIMAL:
        return None if sizes and to.this not in _SIZED_TEXTS else _TYPES.get(to.this)
    if len(sizes) > 2 or not all(size.isascii() and size.isdigit() for size in sizes):
        return None
    precision, scale = int(sizes[0]) if sizes else 10, int(sizes[1]) if len(sizes) > 1 else 0
    return pa.decimal128(precision, scale) if max(scale, 1) <= precision <= literals.DECIMAL_DIGITS else None
