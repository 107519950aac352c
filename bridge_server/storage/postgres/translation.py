"""The shared statements and their texts as PostgreSQL takes them.

Parameters are numbered, SQLite's hint CROSS JOIN with a condition is a plain join, and texts may contain
U+0000, which PostgreSQL refuses: U+10FFFF, which is no character, introduces it.
"""

import re
from collections.abc import Sequence

from bridge_server.storage.database import Row, Value

MARK = "\U0010ffff"
_NUL_ESCAPED = MARK + "0"
_MARK_ESCAPED = MARK + "1"

_TOKEN = re.compile(
    r"""(?P<kept>'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/)
    | (?P<parameter>\?(?P<number>\d*))
    | (?P<cross>\bCROSS(?P<gap>\s+)JOIN\b)
    | (?P<word>\b\w+\b)
    | (?P<other>[(),;])""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_AFTER_JOIN = frozenset(
    {
        "JOIN",
        "CROSS",
        "LEFT",
        "RIGHT",
        "INNER",
        "FULL",
        "NATURAL",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
    }
    | {"UNION", "EXCEPT", "INTERSECT", "RETURNING", "WINDOW"}
)


def translated(sql: str) -> str:
    """The statement for PostgreSQL: `?` is `$n`, and CROSS JOIN with ON is JOIN."""
    last = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal last
        if match["parameter"]:
            number = int(match["number"]) if match["number"] else last + 1
            last = max(last, number)
            return f"${number}"
        if match["cross"] and _has_condition(sql, match.end()):
            return "JOIN"
        return match[0]

    return _TOKEN.sub(replaced, sql)


def _has_condition(sql: str, start: int) -> bool:
    """Whether the join whose table begins at `start` has an ON."""
    depth = 0
    for match in _TOKEN.finditer(sql, start):
        if match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
        if depth < 0:
            return False
        if depth == 0:
            word = match[0].upper()
            if word == "ON":
                return True
            if match["cross"] or word in _AFTER_JOIN or word in (",", ";"):
                return False
    return False


def encoded(parameters: Sequence[Value]) -> Sequence[Value]:
    """The parameters, in whose texts U+0000 is escaped."""
    for value in parameters:
        if isinstance(value, str) and ("\0" in value or MARK in value):
            return [escaped(value) if isinstance(value, str) else value for value in parameters]
    return parameters


def decoded(row: Row) -> Row:
    """The row, with the texts that were stored."""
    for value in row:
        if type(value) is str and MARK in value:
            return tuple(unescaped(value) if isinstance(value, str) else value for value in row)
    return row


def escaped(text: str) -> str:
    """The text without U+0000. Different texts stay different."""
    return text.replace(MARK, _MARK_ESCAPED).replace("\0", _NUL_ESCAPED)


def unescaped(text: str) -> str:
    """The text from which `escaped` made this one."""
    return text.replace(_NUL_ESCAPED, "\0").replace(_MARK_ESCAPED, MARK)
