"""The database as test mode sees it: something to empty."""

from bridge_server.storage.database import Database, Transaction, transaction
from bridge_server.testmode import sql


class EveryTable:
    """All tables of all rooms."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @transaction
    def empty(self) -> Transaction[None]:
        """Delete every row. Raises UnavailableError."""
        yield from sql.EMPTY
