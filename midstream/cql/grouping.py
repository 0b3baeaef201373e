"""GROUP BY, HAVING and the aggregates of SELECT -> `Grouping`, and outputs that read groups.

The SELECT list is read first, because GROUP BY may name its columns or give their positions. There and in HAVING every
aggregate is at once a column of `OF_AGGREGATES`, equal ones the same. Once the keys are known, whatever equals a key
becomes a column of `OF_KEYS`; a column of an input that is left then has many values in a group, and is an error::

    SELECT o.city AS c, sum(o.n) / count(*) AS m ... GROUP BY c HAVING m > 3

    keys        o.city
    aggregates  sum(o.n), count(*)
    outputs     key 0, aggregate 0 / aggregate 1
    having      aggregate 0 / aggregate 1 > 3

Names mean what they mean in Spark: a column of FROM comes before an output of that name. In HAVING a name that several
entries of FROM have may be an output's, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import TokenType, exp

from midstream.cql.expressions import Reader
from midstream.cql.functions import Function, FunctionError
from midstream.cql.model import (
    OF_AGGREGATES,
    OF_KEYS,
    Aggregate,
    Call,
    Cast,
    Column,
    Expr,
    Grouping,
    Output,
    columns_of,
)
from midstream.cql.names import Scope, list_names
from midstream.cql.outputs import Selected
from midstream.cql.typing_aggregates import AGGREGATES, check_comparable, count_rows, make_aggregate
from midstream.errors import QueryError

_KEYS_TEXT = "write the keys: GROUP BY a.x, a.y"
_SEVERAL_GROUPINGS: dict[type[exp.Expr], str] = {
    exp.GroupingSets: "GROUPING SETS",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
}


@dataclass(frozen=True)
class GroupedOutputs:
    """The outputs of a query, and the grouping that they read, if there is one."""

    outputs: tuple[Output, ...]
    grouping: Grouping | None


class SelectReader(Reader):
    """Reads SELECT: aggregates become columns, and are kept in the order of their first use."""

    def __init__(self, scope: Scope, given: Sequence[Function] = (), earlier: SelectReader | None = None) -> None:
        super().__init__(scope, given)
        self.aggregates: dict[Aggregate, Column] = {} if earlier is None else earlier.aggregates
        self._arguments = _ArgumentReader(scope, given)

    def aggregate(self, node: exp.Anonymous) -> Column:
        found = self._read(node)
        return self.aggregates.setdefault(found, Column(OF_AGGREGATES, str(len(self.aggregates)), found.type))

    def _read(self, node: exp.Anonymous) -> Aggregate:
        name = node.name.lower()
        args = node.expressions
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            args = args[0].expressions
        elif name == "count" and len(args) == 1 and isinstance(args[0], exp.Star) and not any(args[0].args.values()):
            return count_rows()
        if len(args) != 1:
            what = f"{name}{'(DISTINCT ...)' if distinct else ''} takes one argument, not {len(args)}"
            raise self.source.error(node, what, self._one_argument(name, args, distinct))
        if isinstance(args[0], exp.Literal) and args[0].is_string and AGGREGATES[name] in ("sum", "avg"):
            raise self.source.error(node, *_text_for_column(f"{name}(...)", args[0].name))
        argument = self._arguments.read(args[0])
        try:
            return make_aggregate(name, argument, distinct)
        except FunctionError as error:
            raise self.located(error, node) from None

    def _one_argument(self, name: str, args: Sequence[exp.Expr], distinct: bool) -> str:
        """What to write instead of an aggregate of several arguments, or of none."""
        if name != "count":
            return f"write {name}(x)"
        if not (distinct and args):
            return "write count(*), count(x) or count(DISTINCT x)"
        joined = ", '|', ".join(self.source.written(arg) for arg in args)
        return f"write count(DISTINCT concat({joined})), with a separator that no value has"


class _ArgumentReader(Reader):
    clause = "another aggregate"


class _KeyReader(Reader):
    """Reads GROUP BY, where a name that FROM does not have may be an output's."""

    clause = "GROUP BY"

    def __init__(self, selecting: SelectReader, selected: Sequence[Selected]) -> None:
        super().__init__(selecting.scope, selecting.given)
        self._selected = selected

    def read_key(self, node: exp.Expr) -> Expr:
        plain = node.unnest()
        number = plain.this if isinstance(plain, exp.Neg) else plain
        if isinstance(plain, exp.Literal) and plain.is_string:
            raise self.source.error(node, *_text_for_column("GROUP BY", plain.name))
        if isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit():
            expr = self._at_position(node)
        else:
            expr = self.read(node)
        try:
            check_comparable(expr, "GROUP BY", self.source.written(node))
        except FunctionError as error:
            raise self.located(error, node) from None
        return expr

    def column(self, node: exp.Column) -> Expr:
        if not node.args.get("table") and not self.scope.owners(node.name):
            named = _find_output(self._selected, node.name)
            if named is None:
                raise self.scope.unknown_column(node, _names_of(self._selected, with_aggregates=False))
            return self._without_aggregates(named, node)
        return super().column(node)

    def _at_position(self, node: exp.Expr) -> Expr:
        written = self.source.written(node).strip("() ")
        if not (written.isascii() and written.isdigit() and 1 <= int(written) <= len(self._selected)):
            right = f"positions are 1 to {len(self._selected)}"
            raise self.source.error(node, f"GROUP BY {written}: SELECT has no such position", right)
        return self._without_aggregates(self._selected[int(written) - 1], node)

    def _without_aggregates(self, selected: Selected, node: exp.Expr) -> Expr:
        if _has_aggregate(selected.output.expr):
            what = f"'{selected.output.name}' has an aggregate and cannot be a key of GROUP BY"
            raise self.source.error(node, what, "group by columns and expressions of them")
        return selected.output.expr


class _HavingReader(SelectReader):
    """Reads HAVING, where a name that FROM does not have once may be an output's."""

    def __init__(self, selecting: SelectReader, selected: Sequence[Selected]) -> None:
        super().__init__(selecting.scope, selecting.given, selecting)
        self._selected = selected

    def column(self, node: exp.Column) -> Expr:
        if not node.args.get("table") and len(self.scope.owners(node.name)) != 1:
            named = _find_output(self._selected, node.name)
            if named is not None:
                return named.output.expr
            if not self.scope.owners(node.name):
                raise self.scope.unknown_column(
                    node, _names_of(self._selected), f"aggregates: {list_names(AGGREGATES)}"
                )
        return super().column(node)


def read_grouping(reader: SelectReader, select: exp.Select, selected: Sequence[Selected]) -> GroupedOutputs:
    """What a SELECT whose list has been read says about groups."""
    group, having = select.args.get("group"), select.args.get("having")
    keys = {} if group is None else _read_keys(_KeyReader(reader, selected), group)
    filtering = _HavingReader(reader, selected)
    condition = None if having is None else filtering.condition(having.this)
    if group is None and not reader.aggregates:
        if having is not None:
            token = reader.source.find(*reader.source.span, TokenType.HAVING)
            right = "write WHERE, or add GROUP BY or an aggregate"
            raise reader.source.error(token or having, "HAVING stands without a grouping", right)
        return GroupedOutputs(tuple(column.output for column in selected), None)
    outputs = tuple(
        replace(column.output, expr=_of_groups(reader, column.output.expr, keys, column.node)) for column in selected
    )
    if condition is not None and having is not None:
        condition = _of_groups(filtering, condition, keys, having.this)
    return GroupedOutputs(outputs, Grouping(tuple(keys), tuple(reader.aggregates), condition))


def check_distinct(reader: Reader, select: exp.Select) -> bool:
    """Whether a SELECT is DISTINCT."""
    distinct = select.args.get("distinct")
    if distinct is None:
        return False
    if distinct.args.get("on"):
        raise reader.source.error(distinct.args["on"], "DISTINCT ON is not supported", "write SELECT DISTINCT ...")
    return True


def check_rows(reader: Reader, selected: Sequence[Selected], taker: str) -> None:
    """Refuse columns without an equality for a clause that compares whole rows."""
    for column in selected:
        try:
            check_comparable(column.output.expr, taker, column.output.name)
        except FunctionError as error:
            raise reader.located(error, column.node) from None


def _read_keys(reader: _KeyReader, group: exp.Group) -> dict[Expr, Column]:
    """The keys, each once, and the columns that stand for them. Constants split no group and are left out."""
    token = reader.source.find(*reader.source.span, TokenType.GROUP_BY)
    if "all" in group.args and group.args["all"] is not None:
        word = "ALL" if group.args["all"] else "DISTINCT"
        raise reader.source.error(token or group, f"GROUP BY {word} is not supported", _KEYS_TEXT)
    for name in ("grouping_sets", "rollup", "cube", "totals"):
        if group.args.get(name):
            what = f"{name.replace('_', ' ').upper()} is not supported"
            raise reader.source.error(token or group, what, _KEYS_TEXT)
    keys: dict[Expr, Column] = {}
    for node in group.expressions:
        if type(node) in _SEVERAL_GROUPINGS:
            what = f"{_SEVERAL_GROUPINGS[type(node)]} is not supported"
            raise reader.source.error(token or group, what, _KEYS_TEXT)
        expr = reader.read_key(node)
        if columns_of(expr):
            keys.setdefault(expr, Column(OF_KEYS, str(len(keys)), expr.type))
    return keys


def _text_for_column(taker: str, name: str) -> tuple[str, str]:
    """What is wrong with a name in single quotes, and what to write instead."""
    what = f"{taker} has the text '{name}', not a column: single quotes make text"
    return what, f'write {name}, or `{name}` or "{name}" if the name needs quotes'


def _find_output(selected: Sequence[Selected], name: str) -> Selected | None:
    return next((column for column in selected if column.output.name.casefold() == name.casefold()), None)


def _names_of(selected: Sequence[Selected], with_aggregates: bool = True) -> list[str]:
    """The names that AS gave to outputs: others have those of columns, or none that can be written."""
    return [
        column.output.name
        for column in selected
        if isinstance(column.node, exp.Alias) and (with_aggregates or not _has_aggregate(column.output.expr))
    ]


def _has_aggregate(expr: Expr) -> bool:
    return any(column.input == OF_AGGREGATES for column in columns_of(expr))


def _of_groups(reader: SelectReader, expr: Expr, keys: Mapping[Expr, Column], node: exp.Expr) -> Expr:
    """An expression over join results as one over keys and aggregates."""
    found = _with_keys(expr, keys)
    stray = next((column for column in columns_of(found) if column.input >= 0), None)
    if stray is not None:
        name = f"{reader.scope.aliases[stray.input]}.{stray.name}"
        what = f"column '{name}' is neither a key of GROUP BY nor inside an aggregate"
        right = f"add it to GROUP BY, or write an aggregate such as max({name})"
        raise reader.source.error(_place_of(reader, stray, keys, node), what, right)
    return found


def _with_keys(expr: Expr, keys: Mapping[Expr, Column]) -> Expr:
    if expr in keys:
        return keys[expr]
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_with_keys(arg, keys) for arg in expr.args))
    return replace(expr, operand=_with_keys(expr.operand, keys)) if isinstance(expr, Cast) else expr


def _place_of(reader: SelectReader, stray: Column, keys: Mapping[Expr, Column], node: exp.Expr) -> exp.Expr:
    """The first name in a node that means the stray column and stands neither in an aggregate nor in a key."""

    def is_of_groups(part: exp.Expr) -> bool:
        if isinstance(part, exp.Anonymous) and part.name.lower() in AGGREGATES:
            return True
        return isinstance(part, exp.Condition) and _means(reader, part, keys)

    for part in node.walk(bfs=False, prune=is_of_groups):
        if isinstance(part, exp.Column) and _means(reader, part, (stray,)):
            return part
    return node


def _means(reader: SelectReader, part: exp.Expr, wanted: Mapping[Expr, Column] | tuple[Column]) -> bool:
    try:
        return reader.read(part) in wanted
    except QueryError:
        return False
