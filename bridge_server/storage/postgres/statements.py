"""Prepared statements of one connection: one at a time, or many with different parameters in one exchange."""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from bridge_server.storage.database import Row, Value
from bridge_server.storage.postgres.translation import decoded, encoded, translated

_FIRST_WORD = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL)
_CHANGES = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_COUNTED = {"INSERT", "UPDATE", "DELETE"}


Answer: TypeAlias = tuple[list[Row], bool]
"""The rows of a statement, or one row with how many it changed; and whether it changed any."""


class Texts:
    """The statements of a database by the texts of the stores. An override takes the place of a text."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._overrides = overrides
        self._texts: dict[str, Text] = {}

    def of(self, sql: str) -> "Text":
        """The text that PostgreSQL is sent for a statement."""
        text = self._texts.get(sql)
        if text is None:
            text = self._texts[sql] = Text(translated(self._overrides.get(sql, sql)))
        return text


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
        count = _count(prepared.one.get_statusmsg())
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
        records = await prepared.many.fetchmany(
            [(*encoded(each), place) for place, each in enumerate(parameters)]
        )
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
        """Prepared under a name: without one, asyncpg would have it parsed at each execution.

        A name means one text everywhere: a pooler that confuses its clients' statements runs no other one.
        """
        digest = blake2b(f"{sql}\0{form}".encode(), digest_size=12).hexdigest()
        return await self._connection.prepare(form, name=f"bridge_{digest}_{self._times_forgotten}")


def _count(status: str) -> int:
    """The number at the end of a command's tag, such as `INSERT 0 3`."""
    number = status.rpartition(" ")[2]
    return int(number) if number.isdigit() else 0
