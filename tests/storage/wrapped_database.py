"""A database that passes everything on, for tests that break or delay a part of it."""

from collections.abc import Callable, Sequence

from bridge_server.storage.database import NO_TURNS, Database, Result, Row, Transaction, Turns, Value


class WrappedDatabase:
    """Everything goes to the database inside."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def takes_turns(self) -> bool:
        return self._database.takes_turns

    @property
    def is_busy(self) -> bool:
        return self._database.is_busy

    @property
    def is_full(self) -> bool:
        return self._database.is_full

    def require_room(self) -> None:
        self._database.require_room()

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return await self._database.read(sql, parameters)

    def look_up(self, sql: str, parameters: Sequence[Value]) -> list[Row] | None:
        return self._database.look_up(sql, parameters)

    async def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Result:
        return await self._database.transaction(begin, adds=adds, turns=turns)
