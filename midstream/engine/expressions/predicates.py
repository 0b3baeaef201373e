"""Comparison, three-valued logic and choice.

NaN equals NaN and is greater than every other float, -0.0 equals 0.0. IEEE says otherwise of NaN, so a float
comparison takes up to three steps; beside a constant that is no NaN, which is the common case, one or two are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from midstream.cql.model import Call, Expr, Literal
from midstream.engine.expressions.vectors import (
    Kernel,
    Value,
    Vector,
    both_valid,
    constant,
    physical,
    read_booleans,
    reader,
    true_where,
    unscaled_value,
    validity,
)

_UFUNCS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_ARROW = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_FEW = 8


def comparison(call: Call) -> Kernel:
    """The kernel of one of the six comparisons; arguments are of one type, or integers of any width."""
    a, b = call.args
    name = call.function
    if physical(a.type) is None:
        return _compare_arrow(_over_unscaled(a.type, _ARROW[name]))
    if not (_is_float(a) or _is_float(b)):
        return _compare(_UFUNCS[name])
    if _is_number(b):
        return _compare(_FLOATS_WITH_CONSTANT[name])
    if _is_number(a):
        beside = _FLOATS_WITH_CONSTANT[_MIRRORED[name]]
        return _compare(lambda x, y: beside(y, x))
    return _compare(_FLOATS[name])


def _compare(test: Callable[[Any, Any], Any]) -> Kernel:
    def compare(a: Vector, b: Vector) -> Vector:
        (x, p), (y, q) = a, b
        return test(x, y), (q if p is None else both_valid(p, q))

    return compare


def _compare_arrow(test: Callable[[Any, Any], pa.Array]) -> Kernel:
    return lambda a, b: read_booleans(test(a, b))


def _lt(x: Any, y: Any) -> Any:
    return ~(y <= x) & (x == x)


def _le(x: Any, y: Any) -> Any:
    return (x <= y) | (y != y)


def _eq(x: Any, y: Any) -> Any:
    return (x == y) | ((x != x) & (y != y))


_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": _eq,
    "ne": lambda x, y: ~_eq(x, y),
    "lt": _lt,
    "le": _le,
    "gt": lambda x, y: _lt(y, x),
    "ge": lambda x, y: _le(y, x),
}

# y is a constant and no NaN: only x can be one, and is then greater.
_FLOATS_WITH_CONSTANT: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": lambda x, y: ~(x <= y),
    "ge": lambda x, y: ~(x < y),
}


def null_safe_equal(call: Call) -> Kernel:
    """``<=>``: never null; two nulls are equal."""
    equal = comparison(Call("eq", call.args, call.type))

    def compare(a: Value, b: Value) -> Vector:
        values, valid = equal(a, b)
        if valid is None:
            return values, None
        p, q = _validity_of(a), _validity_of(b)
        p, q = (np.True_ if p is None else p), (np.True_ if q is None else q)
        return np.where(p & q, values, ~(p | q)), None

    return compare


def conjunction(call: Call) -> Kernel:
    return _repeat(_and)


def disjunction(call: Call) -> Kernel:
    return _repeat(_or)


def _repeat(operation: Callable[[Vector, Vector], Vector]) -> Kernel:
    def repeat(first: Vector, second: Vector, *others: Vector) -> Vector:
        result = operation(first, second)
        for operand in others:
            result = operation(result, operand)
        return result

    return repeat


def _and(a: Vector, b: Vector) -> Vector:
    (x, p), (y, q) = a, b
    if p is None and q is None:
        return x & y, None
    p, q = (np.True_ if p is None else p), (np.True_ if q is None else q)
    return x & y, (p & q) | (p & ~x) | (q & ~y)


def _or(a: Vector, b: Vector) -> Vector:
    (x, p), (y, q) = a, b
    if p is None and q is None:
        return x | y, None
    p, q = (np.True_ if p is None else p), (np.True_ if q is None else q)
    x, y = x & p, y & q
    return x | y, (p & q) | x | y


def negation(call: Call) -> Kernel:
    return lambda a: (~a[0], a[1])


def is_true(call: Call) -> Kernel:
    """A predicate in a place where null is as good as false; the compiler puts it there."""
    return lambda a: (true_where(a), None)


def is_null(call: Call) -> Kernel:
    if physical(call.args[0].type) is None:
        return lambda a: (pc.is_null(a).to_numpy(zero_copy_only=False), None)

    def test(a: Vector) -> Vector:
        values, valid = a
        missing = np.False_ if valid is None else ~valid
        return (missing if np.ndim(missing) else np.full(np.shape(values), missing)), None

    return test


def membership(call: Call) -> Kernel:
    """``x IN (constants)``: null if x is null, or if it is not found and there is a null among the constants."""
    scalars = [_scalar(arg) for arg in call.args[1:]]
    known = [scalar for scalar in scalars if scalar.is_valid]
    has_null = len(known) < len(scalars)
    type = call.args[0].type
    if physical(type) is None:
        options = pa.array(known, type)

        def find_in_arrow(a: pa.Array) -> Vector:
            found, _ = read_booleans(pc.is_in(a, value_set=options))
            return found, (both_valid(validity(a), found) if has_null else validity(a))

        return find_in_arrow
    if len(known) <= _FEW or _is_float(call.args[0]):
        equal = _eq if _is_float(call.args[0]) else np.equal
        constants = [constant(scalar)[0] for scalar in known]

        def find(x: Any) -> Any:
            found = np.zeros(np.shape(x), np.bool_)
            for value in constants:
                found |= equal(x, value)
            return found
    else:
        values, _ = reader(type)(pa.array(known, type))

        def find(x: Any) -> Any:
            return np.isin(x, values)

    def find_in_vector(a: Vector) -> Vector:
        found = find(a[0])
        return found, (both_valid(a[1], found) if has_null else a[1])

    return find_in_vector


def case(call: Call) -> Kernel:
    """``c1, v1, c2, v2, ..., else``: the value beside the first condition that is true."""
    if physical(call.type) is None:
        pick = _keep_decimals(call.type, pc.if_else)

        def choose_arrow(*args: Value) -> Value:
            result = args[-1]
            for at in range(len(args) - 3, -1, -2):
                result = pick(pa.array(np.atleast_1d(true_where(args[at]))), args[at + 1], result)
            return result

        return choose_arrow

    def choose(*args: Vector) -> Vector:
        values, valid = args[-1]
        for at in range(len(args) - 3, -1, -2):
            holds = true_where(args[at])
            x, p = args[at + 1]
            values = np.where(holds, x, values)
            if p is not None or valid is not None:
                valid = np.where(holds, np.True_ if p is None else p, np.True_ if valid is None else valid)
        return values, valid

    return choose


def coalesce(call: Call) -> Kernel:
    if physical(call.type) is None:
        return _keep_decimals(call.type, pc.coalesce)

    def first_known(*args: Vector) -> Vector:
        values, valid = args[0]
        for x, p in args[1:]:
            if valid is None:
                break
            values = np.where(valid, values, x)
            valid = None if p is None else valid | p
        return values, valid

    return first_known


def greatest(call: Call) -> Kernel:
    def is_better(x: Any, values: Any) -> Any:
        return (x > values) | (np.isnan(x) & ~np.isnan(values)) if _is_float(call) else x > values

    return _extreme(call, is_better, pc.max_element_wise)


def least(call: Call) -> Kernel:
    def is_better(x: Any, values: Any) -> Any:
        return (x < values) | (np.isnan(values) & ~np.isnan(x)) if _is_float(call) else x < values

    return _extreme(call, is_better, pc.min_element_wise)


def _extreme(call: Call, is_better: Any, pick_arrow: Any) -> Kernel:
    """The largest or smallest of the values that are not null, NaN being the largest.

    Of values that compare equal the first stays: 0.0 and -0.0 are told apart when they are printed.
    """
    if physical(call.type) is None:
        return _keep_decimals(call.type, pick_arrow)

    def choose(*args: Vector) -> Vector:
        values, valid = args[0]
        for x, p in args[1:]:
            chosen: Any = np.where(is_better(x, values), x, values)
            if valid is not None or p is not None:
                v, p = (np.True_ if valid is None else valid), (np.True_ if p is None else p)
                chosen = np.where(v & p, chosen, np.where(v, values, x))
                valid = v | p
            values = chosen
        return values, valid

    return choose


def _over_unscaled(type: pa.DataType, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Arrow over values of one type; it gets decimals as numbers without their scale."""
    if not pt.is_decimal(type):
        return function

    def run(*args: Any) -> Any:
        return function(*(unscaled_value(arg) if pt.is_decimal(arg.type) else arg for arg in args))

    return run


def _keep_decimals(type: pa.DataType, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Arrow that gives some of its arguments; of decimals, too, in the type that they have."""
    if not pt.is_decimal(type):
        return function
    choose = _over_unscaled(type, function)
    return lambda *args: choose(*args).view(type)


def _is_float(expr: Expr) -> bool:
    dtype = physical(expr.type)
    return dtype is not None and dtype.kind == "f"


def _is_number(expr: Expr) -> bool:
    """A constant that is not NaN; null is fine too, the validity says what comes of it."""
    return isinstance(expr, Literal) and not (_is_float(expr) and bool(np.isnan(constant(_scalar(expr))[0])))


def _scalar(expr: Expr) -> pa.Scalar:
    assert isinstance(expr, Literal), "constants are literals by the time kernels are chosen"
    return expr.value if isinstance(expr.value, pa.Scalar) else pa.scalar(expr.value, expr.type)


def _validity_of(value: Value) -> Any:
    return value[1] if isinstance(value, tuple) else validity(value)
