"""Prepared statements of one connection: one at a time, or many with different parameters in one exchange."""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from bridge_server.storage.database import Row, Value

NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The time of the database server, as a part of statements."""

Answer: TypeAlias = tuple[list[Row], bool]
"""The rows of a statement, or one row with how many it changed; and whether it changed any."""
_FIRST_WORD = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL)
_CHANGES = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_COUNTED = {"INSERT", "UPDATE", "DELETE"}


class Text:
    """One statement for PostgreSQL, and its properties that are known without asking."""

    def __init__(self, sql: str) -> None:
        self.sql = sql.strip().rstrip(";")
        word = _FIRST_WORD.match(sql)
        self.word = word[1].upper() if word else ""
        self.is_select = self.word in ("SELECT", "VALUES")
        self.may_change = bool(_CHANGES.search(sql)) and not self.is_select

    @property
    def is_grouped(self) -> bool:
        """Whether many executions can share an exchange. Statements that begin with WITH stay alone."""
        return self.is_select or self.word in _COUNTED

    def of_many(self, parameters: int, has_rows: bool) -> str:
        """The form whose rows begin with the place of the execution, which is one parameter more."""
        place = f"${parameters + 1}::int4"
        if self.is_select:
            return f"SELECT {place}, q.* FROM ({self.sql}\n) AS q"  # noqa: S608 - no input
        if has_rows:
            return f"WITH w AS ({self.sql}\n) SELECT {place}, w.* FROM w"  # noqa: S608 - no input
        return f"WITH w AS ({self.sql}\nRETURNING 1) SELECT {place}, count(*) FROM w"  # noqa: S608 - no input


class Texts:
    """The statements of a database by the texts of the stores. An override takes the place of a text."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._overrides = overrides
        self._texts: dict[str, Text] = {}

    def of(self, sql: str) -> Text:
        """The text that PostgreSQL is sent for a statement."""
        text = self._texts.get(sql)
        if text is None:
            text = self._texts[sql] = Text(translated(self._overrides.get(sql, sql)))
        return text


class _Prepared:
    """One text on one connection; the form for many is prepared once there are many."""

    __slots__ = ("has_rows", "many", "one", "parameters")

    def __init__(self, one: Any) -> None:
        self.one = one
        self.many: Any = None
        self.has_rows = bool(one.get_attributes())
        self.parameters = len(one.get_parameters())


class Statements:
    """Runs the stores' statements on one connection of asyncpg."""

    def __init__(self, connection: Any, texts: Texts) -> None:
        self._connection = connection
        self._texts = texts
        self._prepared: dict[str, _Prepared] = {}
        self._times_forgotten = 0

    def forget(self) -> None:
        """Prepare everything anew: a migration may have changed the tables."""
        self._prepared.clear()
        self._times_forgotten += 1

    async def run(self, sql: str, parameters: Sequence[Value]) -> Answer:
        """Execute one statement."""
        text = self._texts.of(sql)
        prepared = self._prepared.get(sql) or await self._prepare(sql, text)
        records = await prepared.one.fetch(*encoded(parameters))
        if prepared.has_rows:
            return [decoded(tuple(record)) for record in records], text.may_change and bool(records)
        number = prepared.one.get_statusmsg().rpartition(" ")[2]  # at the end of a tag, as in `INSERT 0 3`
        count = int(number) if number.isdigit() else 0
        return [(count,)], count > 0

    async def run_many(self, sql: str, parameters: Sequence[Sequence[Value]]) -> list[Answer]:
        """Execute one statement with several parameters, in their order; the answers in that order."""
        text = self._texts.of(sql)
        if len(parameters) == 1 or not text.is_grouped:
            return [await self.run(sql, each) for each in parameters]
        prepared = self._prepared.get(sql) or await self._prepare(sql, text)
        if prepared.many is None:
            form = text.of_many(prepared.parameters, prepared.has_rows)
            prepared.many = await self._named(sql, form)
        values = [(*encoded(each), place) for place, each in enumerate(parameters)]
        records = await prepared.many.fetchmany(values)
        if not prepared.has_rows:
            return [([(count,)], count > 0) for _, count in records]
        by_place: list[list[Row]] = [[] for _ in parameters]
        for record in records:
            by_place[record[0]].append(decoded(tuple(record)[1:]))
        return [(rows, text.may_change and bool(rows)) for rows in by_place]

    async def _prepare(self, sql: str, text: Text) -> _Prepared:
        prepared = self._prepared[sql] = _Prepared(await self._named(sql, text.sql))
        return prepared

    async def _named(self, sql: str, form: str) -> Any:
        """Prepare under a name: without one, asyncpg would have it parsed at each execution. A name means
        one text everywhere: a pooler that confuses its clients' statements runs no other one.
        """
        digest = blake2b(f"{sql}\0{form}".encode(), digest_size=12).hexdigest()
        return await self._connection.prepare(form, name=f"bridge_{digest}_{self._times_forgotten}")


# The shared statements as PostgreSQL takes them. Parameters are numbered, SQLite's hint CROSS JOIN with a
# condition is a plain join, and texts may contain U+0000, which PostgreSQL refuses: U+10FFFF, which is no
# character, introduces it.

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
_AFTER_JOIN = frozenset({
    "JOIN", "CROSS", "LEFT", "RIGHT", "INNER", "FULL", "NATURAL", "WHERE", "GROUP", "HAVING", "ORDER",
    "LIMIT", "UNION", "EXCEPT", "INTERSECT", "RETURNING", "WINDOW",
})  # fmt: skip


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


# Rewriting a statement where PostgreSQL spells a part of it otherwise. The result is written as the stores
# write: with `?` and `CROSS JOIN`, which the driver translates.

_JSON_LIST = "json_each("


def numbers(statement: str) -> str:
    """The statement, whose JSON arrays hold whole numbers."""
    return with_parts(statement, {_JSON_LIST: "json_numbers("})


def texts(statement: str) -> str:
    """The statement, whose JSON arrays hold texts."""
    return with_parts(statement, {_JSON_LIST: "json_texts("})


def with_parts(statement: str, parts: Mapping[str, str]) -> str:
    """The statement with each of these parts replaced. Raises ValueError for a part that it does not have."""
    for part, replacement in parts.items():
        if part not in statement:
            raise ValueError(f"the statement has no {part!r}: {statement}")
        statement = statement.replace(part, replacement)
    return statement


# Sweeps: statements that delete or change up to so many rows that are due.

_A_SWEEP = re.compile(
    r"""\s*(?P<verb>DELETE\ FROM\ (?P<deleted>\w+) | UPDATE\ (?P<updated>\w+)\ SET\ \w+\ =\ \w+)
    \s+WHERE\ (?P<also>[^()]*\ AND\ )?
    \(?[\w, ]+\)?\ IN\s+
    \(SELECT\ [\w, ]+\ FROM\ \w+\s+WHERE\ (?P<due>.+?)\s(?P<order>ORDER\ BY\ [\w, ]+\ )?LIMIT\ \?\)
    (?P<end>(?:\s+RETURNING\ [\w, ]+)?)\s*""",
    re.VERBOSE,
)


def swept(statement: str) -> str:
    """The sweep by `ctid`: the planner, which cannot estimate the number of rows, would scan whole tables.
    Each row is checked again, since another process may have prolonged it. Raises ValueError for a statement
    of another form.
    """
    found = _A_SWEEP.fullmatch(statement)
    if found is None:
        raise ValueError(f"the statement is no sweep: {statement}")
    table, order = found["deleted"] or found["updated"], found["order"] or ""
    also, due, limit = _numbered(found["also"] or "", found["due"], "?")
    rows = f"SELECT ctid FROM {table} WHERE {due} {order}LIMIT {limit}"  # noqa: S608 - parts of the statement
    return f"{found['verb']} WHERE {also}{due} AND ctid = ANY (ARRAY({rows})){found['end']}"


def _numbered(*parts: str) -> list[str]:
    count = 0

    def number(_: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"?{count}"

    return [re.sub(r"\?", number, part) for part in parts]
