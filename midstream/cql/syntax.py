"""Text -> syntax tree: sqlglot's Spark SQL with CQL's windows lifted out and every place kept.

The text is tokenised once. A bracketed window such as ``[RANGE 10 MINUTES]`` is not SQL, so its tokens are taken out
of the stream before sqlglot parses the rest, and kept with their places; `sources` gives them back to the names that
they follow. Tokens keep their offsets, so every node of the tree can be pointed at in the original text:

    SELECT o.id FROM orders [RANGE 10 MINUTES] o      ->  windows:  RANGE 10 MINUTES, after 'orders'
                                                      ->  sqlglot:  SELECT o.id FROM orders o

Some methods of sqlglot's parser are extended so that operands remember their extent, because sqlglot itself keeps
places of names and literals only, and intervals their text.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from midstream.cql.brackets import find_bare_window
from midstream.cql.literals import INTERVAL_TEXT
from midstream.cql.windows import TUMBLE_TEXT, WINDOW_FUNCTIONS
from midstream.errors import Place, QueryError

QUERY_TEXT = "a query is SELECT ... FROM ... WHERE ... GROUP BY ... HAVING ..."
_ALL_BUT_SELECT = frozenset(TokenType) - {TokenType.SELECT}

_EXTENT = "extent"
_CLAUSES = frozenset({TokenType.FROM, TokenType.WHERE, TokenType.JOIN, TokenType.ON, TokenType.ALIAS})
#: What cannot follow a comma or GROUP BY.
_LIST_ENDS = frozenset({
    TokenType.COMMA, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
    TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.R_PAREN, TokenType.SEMICOLON,
})  # fmt: skip


class _CqlParser(SparkParser):
    """Spark's grammar; functions stay as written, because `functions` knows them, and operands have extents."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}

    def _parse_unary(self) -> exp.Expr | None:
        first = self._curr
        return self._with_extent(first, super()._parse_unary())

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        first = None if this else self._curr
        before = None if this is None else this.meta.get(_EXTENT)
        node = super()._parse_range(this, parse_is)
        if before and node is not None and node is not this:
            node.meta[_EXTENT] = (before[0], self._prev.end)
            return node
        return self._with_extent(first, node)

    def _parse_interval_span(self, this: exp.Expr, *args: Any, **options: Any) -> exp.Interval:
        """The text of an interval stays whole: sqlglot drops what it does not understand of it."""
        node: exp.Interval = super()._parse_interval_span(this, *args, **options)
        if this.is_string:
            node.meta[INTERVAL_TEXT] = this.name
        return node

    def _with_extent(self, first: Token | None, node: exp.Expr | None) -> exp.Expr | None:
        if first and node is not None and self._prev:
            node.meta[_EXTENT] = (first.start, self._prev.end)
        return node


class _Cql(Spark):
    """Spark's dialect, with double quotes for names as in standard SQL and '' for a quote inside a string."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]

    Parser = _CqlParser


@dataclass(frozen=True)
class WindowText:
    """A bracketed window: the words inside, its first and last offset, and the last offset of the token before it."""

    words: str
    start: int
    end: int
    after: int


class Source:
    """The text of a query, its tokens, and the places of things in it.

    `span` is where to look for words: the first and the last offset of the SELECT that is being read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.span = (0, len(text))
        self.tokens = self._tokenise()
        self.windows, self._sql_tokens = self._lift_windows()

    def of_branch(self, select: exp.Expr) -> Source:
        """The same source while one of several SELECTs is read."""
        start, end = self.extent(select)
        word = self.before(start, _ALL_BUT_SELECT)
        found = copy.copy(self)
        found.span = (start if word is None else word.start, end)
        return found

    @property
    def first_token(self) -> Token:
        """The first token of the SELECT that is being read."""
        return next((token for token in self.tokens if token.start >= self.span[0]), self.tokens[0])

    def place(self, offset: int) -> str:
        before = self.text[:offset]
        return f"line {before.count(chr(10)) + 1}, column {offset - (before.rfind(chr(10)) + 1) + 1}"

    def error(self, at: exp.Expr | Token | int, what: str, right: str = "") -> QueryError:
        """An error that says where, what, and what would be right."""
        offset = at if isinstance(at, int) else at.start if isinstance(at, Token) else self.extent(at)[0]
        problem = QueryError(f"query: {what} at {self.place(offset)}" + (f"; {right}" if right else ""))
        problem.place = Place(offset, what, right)
        return problem

    def extent(self, node: exp.Expr) -> tuple[int, int]:
        """The first and the last offset of what a node was written as."""
        starts, ends = [], []
        for child in node.walk(prune=lambda parent: _EXTENT in parent.meta):
            if _EXTENT in child.meta:
                start, end = child.meta[_EXTENT]
            elif "start" in child.meta:
                start, end = child.meta["start"], child.meta["end"]
            else:
                continue
            starts.append(start)
            ends.append(end)
        if starts:
            return min(starts), max(ends)
        return self.extent(node.parent) if node.parent else (0, len(self.text) - 1)

    def written(self, node: exp.Expr) -> str:
        """What a node was written as, with comments left out and white space reduced to single blanks."""
        start, end = self.extent(node)
        first = bisect_left(self.tokens, start, key=lambda token: token.start)
        last = bisect_right(self.tokens, end, key=lambda token: token.start)
        return self._joined(self.tokens[first:last])

    def before(self, offset: int, skip: Container[TokenType] = ()) -> Token | None:
        """The last token of SQL before an offset; windows and tokens of the given types are skipped."""
        index = bisect_left(self._sql_tokens, offset, key=lambda token: token.start) - 1
        while index > 0 and self._sql_tokens[index].token_type in skip:
            index -= 1
        return self._sql_tokens[index] if index >= 0 else None

    def after(self, token: Token) -> int:
        """The offset of the next token of SQL after a token."""
        index = bisect_right(self._sql_tokens, token.start, key=lambda other: other.start)
        return self._sql_tokens[index].start if index < len(self._sql_tokens) else len(self.text)

    def find(self, first: int, last: int, *types: TokenType) -> Token | None:
        """The first token of SQL of one of these types between two offsets, outside parentheses and not after a dot."""
        depth, dotted = 0, False
        for token in self._sql_tokens:
            if not first <= token.start <= last:
                continue
            if token.token_type in types and not depth and not dotted:
                return token
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            dotted = token.token_type == TokenType.DOT
        return None

    def parse(self) -> exp.Expr:
        """The syntax tree of the one statement in the text."""
        self._check_statement()
        self._check_parentheses()
        self._check_lists()
        try:
            statements = _Cql().parser().parse(self._sql_tokens, self.text)
        except ParseError as error:
            raise self._syntax_error(error) from None
        except RecursionError:
            raise self.error(0, "the query is nested too deeply", "write it with fewer parentheses") from None
        except Exception as error:  # sqlglot lets other errors through for some malformed texts
            raise self.error(0, f"the text is not SQL ({error})", QUERY_TEXT) from None
        tree = statements[0] if statements else None
        if tree is None:
            raise self.error(0, "the query is empty", QUERY_TEXT)
        return tree

    def _check_statement(self) -> None:
        """Refuse everything but a single SELECT. sqlglot would accept many other statements."""
        tokens = self._sql_tokens
        if not tokens or tokens[0].token_type == TokenType.SEMICOLON:
            raise self.error(0, "the query is empty", QUERY_TEXT)
        if tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
            raise self.error(tokens[0], f"a query does not begin with '{tokens[0].text}'", QUERY_TEXT)
        ends = [index for index, token in enumerate(tokens) if token.token_type == TokenType.SEMICOLON]
        pipe = next((token for token in tokens if token.token_type == TokenType.PIPE_GT), None)
        if pipe is not None:
            raise self.error(pipe, "'|>' is not supported", QUERY_TEXT)
        second = next((tokens[index + 1] for index in ends if index + 1 not in (*ends, len(tokens))), None)
        if second is not None:
            raise self.error(second, "a second statement is not supported", "write one SELECT")

    def _check_parentheses(self) -> None:
        """Refuse a parenthesis without its partner: sqlglot misses some and blames the wrong word for others."""
        opened: list[Token] = []
        for token in self._sql_tokens:
            if token.token_type == TokenType.L_PAREN:
                opened.append(token)
            elif token.token_type == TokenType.R_PAREN:
                if not opened:
                    raise self.error(token, "')' has no '(' before it", "take it out, or open it")
                opened.pop()
        if opened:
            raise self._never_closed(opened[-1])

    def _check_lists(self) -> None:
        """Refuse lists without an end and clauses out of order, which sqlglot lets pass."""
        clauses: list[set[TokenType]] = [set()]
        dotted = False
        for token, following in zip_longest(self._sql_tokens, self._sql_tokens[1:]):
            assert token is not None
            after_dot, dotted = dotted, token.token_type == TokenType.DOT
            if after_dot and token.token_type not in (TokenType.L_PAREN, TokenType.R_PAREN):
                continue  # a name, whatever else the word may mean
            is_end = following is None or following.token_type in _LIST_ENDS
            if token.token_type == TokenType.COMMA and is_end:
                raise self.error(token, "nothing follows ','", "take it out, or go on with the list")
            if token.token_type == TokenType.GROUP_BY and is_end:
                raise self.error(token, "GROUP BY has no keys", "write columns after it, or take it out")
            if token.token_type == TokenType.GROUP_BY and TokenType.HAVING in clauses[-1]:
                raise self.error(token, "GROUP BY stands after HAVING", "write it before HAVING")
            if token.token_type == TokenType.L_PAREN:
                clauses.append(set())
            elif token.token_type == TokenType.R_PAREN:
                clauses.pop()
            elif token.token_type == TokenType.SELECT:
                clauses[-1].clear()
            else:
                clauses[-1].add(token.token_type)

    def _never_closed(self, opened: Token) -> QueryError:
        return self.error(opened, "')' is missing: '(' is never closed", "add ')' where it ends")

    def _opened_before(self, token: Token) -> Token | None:
        """The parenthesis inside which a token stands."""
        opened: list[Token] = []
        for earlier in self._sql_tokens:
            if earlier.start >= token.start:
                break
            if earlier.token_type == TokenType.L_PAREN:
                opened.append(earlier)
            elif earlier.token_type == TokenType.R_PAREN and opened:
                opened.pop()
        return opened[-1] if opened else None

    def _joined(self, tokens: Iterable[Token]) -> str:
        pieces: list[str] = []
        reached = 0
        for token in tokens:
            if token.start < reached:  # sqlglot makes several tokens of one, such as 3L
                continue
            if pieces and token.start > reached:
                pieces.append(" ")
            pieces.append(self.text[token.start : token.end + 1])
            reached = token.end + 1
        return "".join(pieces)

    def _tokenise(self) -> list[Token]:
        try:
            return _Cql().tokenize(self.text)
        except (TokenError, ParseError, RecursionError):
            offset = self._unreadable()
            right = "close the quote" if self.text[offset : offset + 1] in ("'", '"', "`") else ""
            raise self.error(offset, "the text cannot be read", right) from None

    def _unreadable(self) -> int:
        """The offset of the quote that is never closed: the text before it can be read."""
        for offset in range(len(self.text) - 1, -1, -1):
            if self.text[offset] in "'\"`":
                try:
                    _Cql().tokenize(self.text[:offset])
                except (TokenError, ParseError, RecursionError):
                    continue
                return offset
        return 0

    def _lift_windows(self) -> tuple[list[WindowText], list[Token]]:
        windows: list[WindowText] = []
        rest: list[Token] = []
        opened: Token | None = None
        inside: list[Token] = []
        for token in self.tokens:
            if token.token_type == TokenType.L_BRACKET and opened is None:
                opened, inside = token, []
            elif token.token_type == TokenType.R_BRACKET and opened is not None:
                after = rest[-1].end if rest else -1
                windows.append(WindowText(self._joined(inside), opened.start, token.end, after))
                opened = None
            elif token.token_type == TokenType.R_BRACKET:
                raise self.error(token, "']' has no '[' before it", "write a window such as [RANGE 10 MINUTES]")
            elif opened is not None:
                inside.append(token)
            else:
                rest.append(token)
        if opened is not None:
            raise self.error(opened, "'[' is never closed", "write a window such as [RANGE 10 MINUTES]")
        return windows, rest

    def _syntax_error(self, error: ParseError) -> QueryError:
        called = [
            word
            for word, following in pairwise(self._sql_tokens)
            if following.token_type == TokenType.L_PAREN and word.text.lower() in WINDOW_FUNCTIONS
        ]
        # To sqlglot `window` begins a clause where GROUP BY could end.
        if called and called[0].token_type == TokenType.WINDOW:
            return self.error(called[0], f"{called[0].text}(...) is not supported", TUMBLE_TEXT)
        bare = find_bare_window(self.text, self._sql_tokens)
        if bare is not None:
            return self.error(bare.first, f"the {bare.first.text} window has no brackets", bare.right)
        if called:  # those of other systems, with a TABLE or PARTITION BY in them
            return self.error(called[0], f"{called[0].text}(...) is not supported", TUMBLE_TEXT)
        details = error.errors[0] if error.errors else {}
        shown = str(details.get("highlight") or "")
        token = next(
            (
                candidate
                for candidate in self._sql_tokens
                if (candidate.line, candidate.col) == (details.get("line"), details.get("col"))
            ),
            None,
        )
        missing = str(details.get("description") or "").startswith("Required")
        if token is None or (token is self._sql_tokens[-1] and missing):
            return self.error(len(self.text.rstrip()), "the text ends where something more is expected")
        opened = self._opened_before(token) if token.token_type in _CLAUSES else None
        if opened is not None:
            what, right = f"')' is missing before '{token.text}'", f"close the '(' at {self.place(opened.start)}"
            return self.error(token, what, right)
        what = f"something is missing after '{shown}'" if missing else f"'{shown}' is not expected here"
        return self.error(token, f"syntax error: {what}")
