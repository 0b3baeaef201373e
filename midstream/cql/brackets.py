"""Windows whose brackets were forgotten: ``FROM orders RANGE 5 MINUTES``.

To SQL the first word is then an alias, and what follows it is a surprise, or nothing follows and a stream has become a
static table. Either way what is said is that brackets are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import Token, TokenType

from midstream.cql.windows import UNBOUNDED, WINDOW_WORDS, WINDOWS_TEXT, parse_window
from midstream.errors import QueryError

_MOST_TOKENS = 8
_BEGIN_LENGTHS = frozenset({TokenType.NUMBER, TokenType.INTERVAL, TokenType.STRING})
_PARENTHESES = frozenset({TokenType.L_PAREN, TokenType.R_PAREN})
#: What stands behind a length in the frame of OVER.
_FRAME_WORDS = frozenset({"PRECEDING", "FOLLOWING"})


class BareWindow(NamedTuple):
    """Words of a window without brackets: the first one, and what to write instead."""

    first: Token
    right: str


def find_bare_window(text: str, tokens: Sequence[Token]) -> BareWindow | None:
    """The first window without brackets in a text that is not SQL; those in brackets are not among `tokens`.

    >>> from sqlglot import tokenize
    >>> text = "SELECT id FROM orders RANGE 5 MINUTES o WHERE id > 3"
    >>> find_bare_window(text, tokenize(text)).right
    "write [RANGE 5 MINUTES] after a stream's name"
    """
    for place, word in enumerate(tokens):
        begun = tokens[place : place + _MOST_TOKENS]
        if word.text.upper() in WINDOW_WORDS and word.token_type != TokenType.IDENTIFIER and _is_window(begun):
            return BareWindow(word, f"{_what_to_write(text, begun)} after a stream's name")
    return None


def _is_window(tokens: Sequence[Token]) -> bool:
    """Whether what a window's word is followed by belongs to a window, and not to SQL."""
    following = [token for token in tokens[1:] if token.token_type not in _PARENTHESES]
    if any(token.text.upper() in _FRAME_WORDS for token in following):
        return False
    if tokens[0].text.upper() == UNBOUNDED:
        return not following or following[0].token_type != TokenType.DOT
    return bool(following) and following[0].token_type in _BEGIN_LENGTHS


def _what_to_write(text: str, tokens: Sequence[Token]) -> str:
    """The longest window that some tokens begin with, in brackets; any window if they begin with none."""
    written = [text[token.start : token.end + 1] for token in tokens if token.token_type not in _PARENTHESES]
    for count in range(len(written), 0, -1):
        words = " ".join(written[:count])
        for candidate in (words, words.replace("'", "")):
            try:
                parse_window(candidate)
            except QueryError:
                continue
            return f"write [{candidate}]"
    return WINDOWS_TEXT
