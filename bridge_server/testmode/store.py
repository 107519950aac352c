"""The database as test mode sees it: something to empty."""

from bridge_server.storage.database import Database, Transaction, scalar, transaction
from bridge_server.testmode import sql


class EveryTable:
    """All tables of all rooms."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @transaction
    def empty(self) -> Transaction[None]:
        """Delete every row. Raises UnavailableError."""
        for statement in sql.EMPTY:
            yield statement

    async def rows(self) -> int:
        """How many there are. Raises UnavailableError."""
        return scalar(int, await self.database.read(sql.COUNT))
