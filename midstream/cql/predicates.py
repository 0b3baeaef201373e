"""Conjuncts -> the parts of a query that a join can use: filters, key classes, bands, thetas.

Every part of a conjunct goes to exactly one place:

* over no input or one: a filter (a constant is a filter of the first stream);
* an equality of two inputs: a key class;
* a comparison of two inputs that is exactly a band: that band;
* anything else: a theta, although a band may find its candidates.

At last the inputs must hang together, because a product of everything with everything is rarely meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from midstream.cql import functions
from midstream.cql.bands import find_bands
from midstream.cql.conjuncts import Conjunct
from midstream.cql.keys import close_equalities, is_equality
from midstream.cql.model import Band, Expr, KeyClass, Theta


@dataclass(frozen=True)
class Predicates:
    """WHERE, taken apart. `filters` has one tuple per input; `links` are the sets of inputs that share a part."""

    filters: tuple[tuple[Expr, ...], ...]
    key_classes: tuple[KeyClass, ...]
    bands: tuple[Band, ...]
    thetas: tuple[Theta, ...]
    links: tuple[frozenset[int], ...]


def take_apart(conjuncts: Sequence[Conjunct], inputs: int, first_stream: int) -> Predicates:
    """The predicates in some conjuncts over a number of inputs."""
    parts = [part for conjunct in conjuncts for part in conjunct.parts]
    filters: list[dict[Expr, None]] = [{} for _ in range(inputs)]
    for part in parts:
        if len(part.inputs) < 2:
            filters[next(iter(part.inputs), first_stream)][part.expr] = None
    joining = [part for part in parts if len(part.inputs) >= 2]
    keys = close_equalities(part for part in joining if is_equality(part))
    bands = find_bands(dict.fromkeys(part for part in joining if not is_equality(part)))
    for number, expr in (*keys.filters, *bands.filters):
        filters[number][expr] = None
    thetas: dict[Expr, Theta] = {}
    for conjunct in conjuncts:
        rest: dict[frozenset[int], list[Expr]] = {}
        for part in conjunct.parts:
            if len(part.inputs) >= 2 and not is_equality(part) and part not in bands.replaced:
                rest.setdefault(part.inputs, []).append(part.expr)
        for numbers, exprs in rest.items():
            expr = exprs[0] if len(exprs) == 1 else functions.call("and", exprs)
            thetas.setdefault(expr, Theta(expr, numbers, conjunct.text))
    return Predicates(
        tuple(tuple(applied) for applied in filters),
        keys.classes,
        bands.bands,
        tuple(thetas.values()),
        tuple(part.inputs for part in joining),
    )


def find_groups(inputs: int, links: Iterable[Iterable[int]]) -> list[list[int]]:
    """The inputs that hang together, directly or through others.

    >>> find_groups(4, [{0, 2}, {2, 3}])
    [[0, 2, 3], [1]]
    """
    group = {number: [number] for number in range(inputs)}
    for link in links:
        merged = sorted({member for number in link for member in group[number]})
        for member in merged:
            group[member] = merged
    return [group[number] for number in range(inputs) if group[number][0] == number]
