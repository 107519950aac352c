"""The rows of the whole database, which test mode empties and counts."""

from bridge_server.storage.database import Database, Statement, Transaction, scalar, transaction
from bridge_server.testmode import sql


class EveryTable:
    """All tables of all rooms."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @transaction
    def empty(self) -> Transaction[None]:
        """Delete every row. Raises UnavailableError."""
        for delete_all in sql.EMPTY:
            yield Statement(delete_all)

    async def rows(self) -> int:
        """The number of rows. Raises UnavailableError."""
        return scalar(int, await self.database.read(sql.COUNT))
