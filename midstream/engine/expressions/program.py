"""Evaluation of scalar expressions over batches of rows.

An expression is compiled once per query and run once per batch. Compiling does the thinking: it folds what is constant,
drops conversions that kernels do by themselves, picks a kernel for every function by the types of its arguments, and
writes a straight program in which equal subexpressions and columns appear once. Running is a short loop over that::

    a.price * b.count > 100          r0 = column (0, price)    r1 = column (1, count)    r2 = 100
                                     r3 = convert(r1)   r4 = multiply(r0, r3)   r5 = greater(r4, r2)

What a register holds is told in `vectors`; what the functions mean, in `docs/reference/functions.md`. A value
on which an expression fails gives null, so a batch never fails because of its values. Where text gets too long for one
array, which `limits` finds out, the rows are evaluated in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.cql.model import Call, Cast, Column, Expr, Literal, columns_of
from midstream.cql.typing_types import family
from midstream.engine.expressions import decimals, numbers, predicates, strings, times, user_functions
from midstream.engine.expressions.casts import conversion
from midstream.engine.expressions.limits import limit_kernel
from midstream.engine.expressions.vectors import Kernel, Value, computed_in, constant, reader, writer
from midstream.state.sizes import ArrayTooLargeError, make_in_pieces, wide_type

Columns = Mapping[tuple[int, str], pa.Array]

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_QUIET = _COMPARISONS | {"and", "or", "not", "is_null", "is_true", "in", "null_safe_eq", "case", "coalesce", "like"}

_KERNELS: dict[str, Callable[[Call], Kernel]] = {
    **dict.fromkeys(_COMPARISONS, predicates.comparison),
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "modulo"), numbers.arithmetic),
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofweek", "hour", "minute", "second"), times.time_field),
    **dict.fromkeys(("startswith", "endswith", "contains"), strings.text_test),
    "null_safe_eq": predicates.null_safe_equal,
    "and": predicates.conjunction,
    "or": predicates.disjunction,
    "not": predicates.negation,
    "is_true": predicates.is_true,
    "is_null": predicates.is_null,
    "in": predicates.membership,
    "case": predicates.case,
    "coalesce": predicates.coalesce,
    "greatest": predicates.greatest,
    "least": predicates.least,
    "negate": numbers.negate,
    "abs": numbers.absolute,
    "sqrt": numbers.sqrt,
    "exp": numbers.exp,
    "ln": numbers.ln,
    "sign": numbers.sign,
    "power": numbers.power,
    "isnan": numbers.is_nan,
    "floor": numbers.floor,
    "ceil": numbers.ceil,
    "round": numbers.rounding,
    "div": numbers.whole_quotient,
    "like": strings.like,
    "ilike": strings.like,
    "upper": strings.upper,
    "lower": strings.lower,
    "trim": strings.trim,
    "ltrim": strings.ltrim,
    "rtrim": strings.rtrim,
    "length": strings.length,
    "concat": strings.concat,
    "replace": strings.replace,
    "substring": strings.substring,
    "date_trunc": times.date_trunc,
    "unix_micros": times.unix_micros,
}

_DECIMAL_KERNELS: dict[str, Callable[[Call], Kernel]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "modulo"), decimals.arithmetic),
    "negate": decimals.negate,
    "abs": decimals.absolute,
    "floor": decimals.floor,
    "ceil": decimals.ceil,
    "round": decimals.rounding,
}

_BOUND = {"in": 1, "like": 1, "ilike": 1, "round": 1, "replace": 1}
"""Functions whose kernel already knows the arguments after so many, which are literals."""


class Evaluator:
    """A compiled expression; call it with a batch's columns and its length.

    >>> from midstream.cql.functions import call
    >>> double = compile_expression(call("multiply", [Column(0, "x", pa.int64()), Literal(2, pa.int64())]))
    >>> double({(0, "x"): pa.array([1, None, 2**62])}, 3).to_pylist()
    [2, None, None]
    """

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self._program = _Program(expr)
        self._write = writer(expr.type)
        self._wide = wide_type(expr.type)
        self._column = (expr.input, expr.name) if isinstance(expr, Column) else None
        self._mask: _Program | None = None

    def __call__(self, columns: Columns, length: int) -> pa.Array:
        """The expression's value for every row, as an array of its type.

        Raises `ArrayTooLargeError` if several rows are too many bytes for one array on the way; `make_in_pieces` helps.
        """
        if self._column is not None:
            return columns[self._column]
        values = self._write(self._program.run(columns), length)
        assert values.type in (self.expr.type, self._wide), f"{self.expr.type} is what {self.expr} gives"
        return values

    def chunks(self, columns: Columns, length: int) -> pa.Array | pa.ChunkedArray:
        """The expression's value for every row, in several arrays if one does not hold them."""
        try:
            return self(columns, length)
        except ArrayTooLargeError:
            parts = make_in_pieces(lambda begin, end: self(_slice(columns, begin, end), end - begin), 0, length)
            return pa.chunked_array(list(parts), self.expr.type)

    def mask(self, columns: Columns, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Where a boolean expression is true; null counts as false.

        >>> from midstream.cql.functions import call
        >>> large = compile_expression(call("gt", [Column(0, "x", pa.int64()), Literal(1, pa.int64())]))
        >>> large.mask({(0, "x"): pa.array([1, None, 2])}, 3)
        array([False, False,  True])
        """
        try:
            return self._true_where(columns, length)
        except ArrayTooLargeError:
            parts = make_in_pieces(
                lambda begin, end: self._true_where(_slice(columns, begin, end), end - begin), 0, length
            )
            return np.concatenate(list(parts))

    def _true_where(self, columns: Columns, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if self._mask is None:
            self._mask = _Program(_as_mask(self.expr))
        values: Any = self._mask.run(columns)[0]
        return values if np.ndim(values) else np.full(length, values)


def compile_expression(expr: Expr) -> Evaluator:
    """An expression made ready to run over many batches."""
    return Evaluator(expr)


def evaluate_mask(evaluator: Evaluator, columns: Columns, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where a compiled boolean expression is true; null counts as false."""
    return evaluator.mask(columns, length)


class _Program:
    """Registers and the steps that fill them: first the columns, then one kernel after the other."""

    def __init__(self, expr: Expr) -> None:
        self._registers: list[Value] = []
        self._loads: list[tuple[int, tuple[int, str], Callable[[pa.Array], Value]]] = []
        self._steps: list[tuple[int, Kernel, tuple[int, ...]]] = []
        self._places: dict[Expr, int] = {}
        self._loud = False
        self._result = self._place(_simplify(expr))

    def run(self, columns: Columns) -> Value:
        """The value of the expression; a constant if it reads no column."""
        if self._loud:
            with np.errstate(all="ignore"):
                return self._run(columns)
        return self._run(columns)

    def _run(self, columns: Columns) -> Value:
        registers = self._registers.copy()
        for place, key, read in self._loads:
            registers[place] = read(columns[key])
        for place, kernel, args in self._steps:
            registers[place] = kernel(*[registers[register] for register in args])
        return registers[self._result]

    def _place(self, expr: Expr) -> int:
        """The register that holds an expression, with the steps that fill it."""
        if expr in self._places:
            return self._places[expr]
        operands = () if isinstance(expr, Column | Literal) else _operands(expr)
        args = tuple(self._place(operand) for operand in operands)
        place = self._places[expr] = len(self._registers)
        self._registers.append(constant(_scalar(expr)) if isinstance(expr, Literal) else None)
        if isinstance(expr, Column):
            self._loads.append((place, (expr.input, expr.name), reader(expr.type)))
        elif isinstance(expr, Cast):
            self._loud |= "float" in (family(expr.operand.type), family(expr.type))
            self._steps.append((place, limit_kernel(_kernel, expr, operands), args))
        elif isinstance(expr, Call):
            self._loud |= expr.function not in _QUIET and family(expr.type) in ("float", "integer")
            self._steps.append((place, limit_kernel(_kernel, expr, operands), args))
        return place


def _kernel(expr: Call | Cast) -> Kernel:
    if isinstance(expr, Cast):
        return conversion(expr.operand.type, expr.type)
    if expr.compute is not None:
        return user_functions.kernel_of(expr)
    by_decimals = expr.function in _DECIMAL_KERNELS and family(expr.args[0].type) == "decimal"
    return (_DECIMAL_KERNELS if by_decimals else _KERNELS)[expr.function](expr)


def _operands(call: Call | Cast) -> tuple[Expr, ...]:
    """The arguments that a kernel is called with; others it was built with."""
    if isinstance(call, Cast):
        return (call.operand,)
    if call.function == "date_trunc":
        return call.args[1:]
    if call.function in ("startswith", "endswith", "contains") and isinstance(call.args[1], Literal):
        return call.args[:1]
    if call.function == "substring" and strings.is_plain_slice(call):
        return call.args[:1]
    return call.args[: _BOUND.get(call.function, len(call.args))]


def _simplify(expr: Expr) -> Expr:
    """The same expression with constants folded, and without conversions that comparison does by itself."""
    if isinstance(expr, Column | Literal):
        return expr
    if isinstance(expr, Cast):
        expr = Cast(_simplify(expr.operand), expr.type)
    else:
        expr = replace(expr, args=tuple(map(_simplify, expr.args)))
        if expr.function in _DECIDED:
            chosen = _DECIDED[expr.function](expr)
            if chosen is not expr:
                return chosen
        if expr.function in _COMPARISONS:
            expr = _bare_integers(expr)
    return _fold(expr) if not columns_of(expr) else expr


def _fold(expr: Call | Cast) -> Literal:
    """A constant expression, computed once over a batch of one row."""
    operands = _operands(expr)
    rows = []
    for operand in operands:
        assert isinstance(operand, Literal)
        rows.append(reader(operand.type)(pa.array([_scalar(operand)], operand.type)))
    with np.errstate(all="ignore"):
        value = limit_kernel(_kernel, expr, operands)(*rows)
    result = writer(expr.type)(value, 1)[0]
    # Literals tell 0.0 and -0.0 apart by Python's values.
    return Literal(result.as_py() if family(expr.type) == "float" else result, expr.type)


def _drop_decided_arms(call: Call) -> Expr:
    """A CASE without the arms whose condition is constant: never true, or true before any other is asked."""
    arms: list[Expr] = []
    otherwise = call.args[-1]
    for condition, value in zip(call.args[:-1:2], call.args[1::2], strict=True):
        if isinstance(condition, Literal):
            if _scalar(condition).as_py() is True:
                otherwise = value
                break
            continue
        arms += [condition, value]
    if len(arms) == len(call.args) - 1:
        return call
    return Call("case", (*arms, otherwise), call.type) if arms else otherwise


def _drop_decided_arguments(call: Call) -> Expr:
    """A COALESCE without the constants that are null, and without what stands behind one that is not."""
    asked: list[Expr] = []
    for arg in call.args:
        if not isinstance(arg, Literal):
            asked.append(arg)
        elif _scalar(arg).is_valid:
            asked.append(arg)
            break
    if len(asked) == len(call.args):
        return call
    if len(asked) > 1:
        return Call("coalesce", tuple(asked), call.type)
    return asked[0] if asked else call.args[-1]


_DECIDED: dict[str, Callable[[Call], Expr]] = {"case": _drop_decided_arms, "coalesce": _drop_decided_arguments}
"""What constants among the arguments decide: less is left of such a call, or one of its arguments."""


def _bare_integers(call: Call) -> Call:
    """A comparison of integers without their conversion to a common type: NumPy compares any two of them exactly."""
    bare = tuple(arg.operand if isinstance(arg, Cast) else arg for arg in call.args)
    exact = all(family(arg.type) == "integer" for arg in bare) and all(_keeps_integers(arg) for arg in call.args)
    return Call(call.function, bare, call.type) if exact else call


def _keeps_integers(expr: Expr) -> bool:
    """Whether a conversion changes no integer: to a wider one, or to a decimal with room for it."""
    if not isinstance(expr, Cast):
        return True
    if family(expr.type) == "decimal":
        return bool(expr.type.precision - expr.type.scale >= 20)
    return family(expr.type) == "integer" and bool(np.can_cast(computed_in(expr.operand.type), computed_in(expr.type)))


def _as_mask(expr: Expr) -> Expr:
    """A predicate where null may become false as early as possible: below AND and OR, not below NOT."""
    if isinstance(expr, Call) and expr.function in ("and", "or"):
        return Call(expr.function, tuple(map(_as_mask, expr.args)), expr.type)
    return Call("is_true", (expr,), expr.type)


def _slice(columns: Columns, begin: int, end: int) -> Columns:
    return {key: values.slice(begin, end - begin) for key, values in columns.items()}


def _scalar(literal: Literal) -> pa.Scalar:
    value = literal.value
    return value if isinstance(value, pa.Scalar) else pa.scalar(value, literal.type)
