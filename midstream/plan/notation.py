"""Plan text: ``((R S) T) U``, read and checked; `str(plan)` writes it.

A plan is two parts side by side, and a part is an input's alias or a pair in parentheses. Between two parts may stand a
set operation: ``union``, ``minus`` or ``intersect``; before parentheses an operator: ``distinct(a b)`` or
``group(a b)``. The outer parentheses may be left out, words match without regard
to case, and an alias that is not one plain word, or is the word of an operator, stands in double quotes or backticks, a
quote inside it doubled. Reading goes from left to right with a stack of open parentheses, so the depth of
a plan is not limited by the depth of Python's own stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from midstream.errors import PlanError, did_you_mean, shown
from midstream.plan.nodes import (
    OPERATOR_WORDS,
    SET_WORDS,
    UNARY_WORDS,
    Join,
    Leaf,
    Node,
    OperatorNode,
    SetNode,
    notation_of,
    quoted,
)
from midstream.plan.tree import Plan

_OPENS, _OPENS_AT_ONCE = re.compile(r"\s*\("), re.compile(r"\(")
_TOKEN = re.compile(
    r"""\s*(?: (?P<open>\() | (?P<close>\)) | "(?P<double>(?:[^"]|"")*)" | `(?P<backtick>(?:[^`]|``)*)`
           | (?P<word>[^\s()"`,]+) | (?P<other>\S) | $)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    value: str
    at: int


@dataclass
class _Group:
    """An open parenthesis, or the whole text: where it is, where its first part is, and what was read so far.

    `words` are the set operations, each with how many parts stand before it; `operator` stands before the parenthesis.
    """

    at: int
    operator: str | None = None
    first: int = 0
    parts: list[Node] = field(default_factory=list)
    words: list[tuple[int, _Token]] = field(default_factory=list)

    def add(self, part: Node, at: int) -> None:
        if not self.parts:
            self.first = at
        self.parts.append(part)


def parse_plan(text: str, aliases: Sequence[str], has_sets: bool = True) -> Plan:
    """The plan that a text describes, over the inputs `aliases` in the order of FROM.

    For a query without set operations (`has_sets`) a word such as union is an alias like any other; distinct and group
    are no aliases where a parenthesis follows at once.

    >>> print(parse_plan("(r s) t", ["R", "S", "T"]))
    ((R S) T)
    >>> print(parse_plan("(R S) union T", ["R", "S", "T"]))
    ((R S) union T)
    >>> print(parse_plan("distinct(R) (S T)", ["R", "S", "T"]))
    (distinct(R) (S T))
    >>> parse_plan("(R X) T", ["R", "S", "T"])
    Traceback (most recent call last):
    midstream.errors.PlanError: plan: unknown input 'X' at column 4; inputs: R, S, T
    """
    if not isinstance(text, str):
        raise PlanError(f"plan: got {shown(text)}; write text such as '((a b) c)'")
    if not isinstance(aliases, Sequence) or not all(isinstance(alias, str) for alias in aliases):
        raise PlanError(f"plan: aliases={shown(aliases)}; give the names of the inputs in a list")
    if not isinstance(has_sets, bool):
        raise PlanError(f"plan: has_sets={shown(has_sets)}; give True or False")
    reader = _Reader(text, tuple(aliases), has_sets)
    return Plan(tuple(aliases), reader.read())


class _Reader:
    def __init__(self, text: str, aliases: tuple[str, ...], has_sets: bool) -> None:
        self.text = text
        self.has_sets = has_sets
        self.aliases = aliases
        self.numbers = {alias.casefold(): number for number, alias in enumerate(aliases)}
        self.first_use: dict[int, int] = {}

    def read(self) -> Node:
        groups = [_Group(0)]
        operator: _Token | None = None
        operators = 0
        for token in self._tokens():
            if token.kind == "open":
                groups.append(_Group(token.at) if operator is None else _Group(operator.at, operator.value.lower()))
                operator = None
            elif token.kind == "before":
                operator, operators = token, operators + 1
                if operators > self._most_operators:
                    raise self._error(
                        f"'{token.value}' {self._where(token.at)} is one operator too many; "
                        f"over {len(self.aliases)} inputs there is room for {self._most_operators} operators"
                    )
            elif token.kind == "close":
                if len(groups) == 1:
                    raise self._error(f"')' {self._where(token.at)} closes nothing; take it out or open it with '('")
                group = groups.pop()
                part = self._pair(group)
                groups[-1].add(part if group.operator is None else OperatorNode(group.operator, part), group.at)
            elif token.kind == "operator":
                groups[-1].words.append((len(groups[-1].parts), token))
            else:
                groups[-1].add(self._leaf(token), token.at)
        if len(groups) > 1:
            raise self._error(f"'(' {self._where(groups[-1].at)} is not closed; add ')'")
        return self._pair(groups[0])

    def _tokens(self) -> Iterator[_Token]:
        position = 0
        while match := _TOKEN.match(self.text, position):
            position = match.end()
            kind = match.lastgroup
            if kind is None:
                return
            value = match[kind]
            if kind in ("double", "backtick"):
                quote = '"' if kind == "double" else "`"
                yield _Token("alias", value.replace(quote * 2, quote), match.start(kind) - 1)
            elif kind == "word":
                is_alias = not self.has_sets and value.casefold() in self.numbers
                opens = (_OPENS_AT_ONCE if is_alias else _OPENS).match(self.text, position)
                if value.lower() in UNARY_WORDS and opens:
                    yield _Token("before", value, match.start(kind))
                    continue
                is_operator = value.lower() in OPERATOR_WORDS and not is_alias
                yield _Token("operator" if is_operator else "alias", value, match.start(kind))
            elif kind == "other":
                right = "separate inputs by blanks" if value == "," else f"close it with {value}"
                what = "unexpected ','" if value == "," else f"open quote {value}"
                raise self._error(f"{what} {self._where(match.start(kind))}; {right}")
            else:
                yield _Token(kind, value, match.start(kind))

    def _leaf(self, token: _Token) -> Leaf:
        number = self.numbers.get(token.value.casefold())
        if number is None:
            hint = did_you_mean(token.value, self.aliases)
            raise self._error(f"unknown input '{token.value}' {self._where(token.at)}; {hint}inputs: {self._inputs}")
        if number in self.first_use:
            both = f"{self._where(self.first_use[number])} and {self._where(token.at)}"
            raise self._error(f"input '{self.aliases[number]}' is used twice, {both}; inputs: {self._inputs}")
        self.first_use[number] = token.at
        return Leaf(number)

    def _pair(self, group: _Group) -> Node:
        parts = group.parts
        for before, token in group.words:
            self._check_operator(token, before == 1 and len(parts) == 2 and len(group.words) == 1)
        if not parts:
            whole = not self.text.strip()
            what = "the text is empty" if whole else f"nothing between the parentheses {self._where(group.at)}"
            example = self._example([quoted(alias) for alias in self.aliases])
            raise self._error(f"{what}; write a plan like {example}; inputs: {self._inputs}")
        if len(parts) == 1:
            return parts[0]
        if len(parts) == 2 and group.words:
            return SetNode(group.words[0][1].value.lower(), parts[0], parts[1])
        if len(parts) == 2:
            return Join(parts[0], parts[1])
        example = self._example([notation_of(part, self.aliases) for part in parts])
        raise self._error(
            f"{len(parts)} parts side by side {self._where(group.first)}; "
            f"a join has two: bracket pairs, for example {example}"
        )

    def _check_operator(self, token: _Token, is_between_two: bool) -> None:
        word = token.value.lower()
        if word in SET_WORDS and not self.has_sets:
            raise self._error(f"{token.value!r} {self._where(token.at)}: the query has no set operation; leave it out")
        if word in SET_WORDS and is_between_two:
            return
        stands = f"between two parts, as in (a {word} b)" if word in SET_WORDS else f"before parentheses: {word}(a b)"
        hint = f'; the input of that name is written "{token.value}"' if word in self.numbers else ""
        raise self._error(f"{token.value!r} {self._where(token.at)} stands {stands}{hint}")

    @staticmethod
    def _example(parts: Sequence[str]) -> str:
        """The parts, joined one after the other."""
        example = parts[0]
        for part in parts[1:]:
            example = f"({example} {part})"
        return example

    @property
    def _most_operators(self) -> int:
        """Each operator once over every part: nobody needs more, and a longer row of them is no plan but an attack."""
        return len(UNARY_WORDS) * (2 * len(self.aliases) - 1)

    @property
    def _inputs(self) -> str:
        return ", ".join(self.aliases)

    def _where(self, at: int) -> str:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return f"at line {line}, column {column}" if "\n" in self.text else f"at column {column}"

    @staticmethod
    def _error(message: str) -> PlanError:
        return PlanError(f"plan: {message}")
