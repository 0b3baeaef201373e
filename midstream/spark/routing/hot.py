"""Hot keys: values of a key class that have so many rows that one coordinate would be too heavy.

In the dimension of the class the rows of one input with such a value are spread over all coordinates, and the rows of
the class's other inputs with that value are copied to all. A result has one row of the spread input, so it is still
found in exactly one cell. Which input is spread, and which values are hot, is part of the routing and may not change
during the life of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa
import pyarrow.types as pat

from midstream.cql.model import Cast, Column, Expr, Query
from midstream.cql.names import find_spellings, list_names
from midstream.cql.plain import plain_type
from midstream.engine.expressions import compile_expression
from midstream.errors import QueryError, did_you_mean
from midstream.spark.routing.shares import Shares
from midstream.state.keys import codes_of

HotKeys = Mapping[str, Iterable[object]]


@dataclass(frozen=True)
class HotKey:
    """The hot values of a dimension, by their codes in rising order and as text, and the input that is spread."""

    dimension: int
    spread: int
    codes: tuple[int, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    """A column that is a key: input, key class, and the class's expression for it."""

    number: int
    key_class: int
    column: Column
    expr: Expr


def hot_keys_of(
    query: Query, shares: Shares, rates: Sequence[Fraction], hot_keys: HotKeys | None
) -> tuple[HotKey, ...]:
    """The hot keys of a grid in the order of its dimensions; a dimension of one coordinate has nothing to spread."""
    found: dict[int, dict[int, str]] = {}
    for name, values in (hot_keys or {}).items():
        places = _places(query, name)
        for value in _listed_values(name, values):
            for place in places:
                code, text = _code(name, value, place)
                found.setdefault(place.key_class, {})[code] = text
    hot = []
    for dimension_number, dimension in enumerate(shares.dimensions):
        if dimension.share > 1 and dimension.key_class in found:
            codes = dict(sorted(found[dimension.key_class].items()))
            spread = max(sorted(dimension.inputs), key=lambda number: rates[number])
            hot.append(HotKey(dimension_number, spread, tuple(codes), tuple(codes.values())))
    return tuple(hot)


def _places(query: Query, name: str) -> list[_Place]:
    """The keys that a name such as ``o.id``, ``orders.id`` or ``id`` means; those of a branch have the same classes."""
    parts = str(name).split(".", 1)
    keys = list(_key_columns(query))
    known = _list_places(query, keys)
    owners = set(range(len(query.inputs)))
    if len(parts) == 2:
        owners = {number for number in owners if find_spellings(parts[0], [query.aliases[number]])}
        owners = owners or {
            number for number, relation in enumerate(query.inputs) if find_spellings(parts[0], [relation.source])
        }
        if not owners:
            hint = did_you_mean(parts[0], query.aliases)
            raise QueryError(f"hot_keys: unknown stream {parts[0]!r} in {name!r}; {hint}join keys: {known}")
    if not any(find_spellings(parts[-1], query.schemas[query.inputs[number].source].names) for number in owners):
        raise QueryError(f"hot_keys: unknown column {name!r}; join keys: {known}")
    places = [key for key in keys if key.number in owners and find_spellings(parts[-1], [key.column.name])]
    if not places:
        raise QueryError(f"hot_keys: {name!r} is not a join key of the query; join keys: {known}")
    for inputs in query.branch_inputs:
        classes = [{place.key_class for place in places if place.number == number} for number in inputs]
        if len({frozenset(class_numbers) for class_numbers in classes if class_numbers}) > 1:
            told = "is ambiguous, the query joins by several of that name"
            raise QueryError(f"hot_keys: {name!r} {told}; write {_list_places(query, places)}")
    return places


def _list_places(query: Query, places: Iterable[_Place]) -> str:
    return list_names(dict.fromkeys(f"{query.aliases[place.number]}.{place.column.name}" for place in places))


def _key_columns(query: Query) -> Iterator[_Place]:
    for class_number, key_class in enumerate(query.key_classes):
        for number, expr in key_class.keys:
            bare = expr.operand if isinstance(expr, Cast) else expr
            if isinstance(bare, Column):
                yield _Place(number, class_number, bare, expr)


def _listed_values(name: str, values: object) -> list[object]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise QueryError(f"hot_keys: {name!r} has {values!r}; give a list of values")
    return list(values)


def _code(name: str, value: object, place: _Place) -> tuple[int, str]:
    """The code of a value in its key class, and the value there as text."""
    type = plain_type(place.column.type)
    column = _column_of(value, type)
    if column is None:
        raise QueryError(f"hot_keys: {value!r} is not a value of {name!r}, which is {type}")
    key = compile_expression(place.expr)({(place.number, place.column.name): column}, 1)
    if key.null_count:
        raise QueryError(f"hot_keys: {value!r} of {name!r} joins with nothing; it has no value as {place.expr.type}")
    shown = key[0].as_py()
    # Equal keys need one text: 0.0 and -0.0 are equal.
    text = str(shown + 0.0) if isinstance(shown, float) else shown.hex() if isinstance(shown, bytes) else str(shown)
    return int(codes_of(key)[0]), text


def _column_of(value: object, type: pa.DataType) -> pa.Array | None:
    """A column of one value, or None if the type does not have this value."""
    if value is None or isinstance(value, bool) != pat.is_boolean(type):
        return None
    try:
        column = pa.array([value], type)
        # Arrow cuts 1.5 to 1 for an integer and takes bytes for text; a float may be rounded to a narrower one.
        same = pat.is_floating(type) or column[0].as_py() == value
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError):
        return None
    return column if same and column.null_count == 0 else None
