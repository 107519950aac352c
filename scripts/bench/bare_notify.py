"""The least that a notification to 500 accounts can cost: their delivery rows, in a transaction of their own.

DATABASE ACCOUNTS_FILE A_COMMIT, where the lines of the file are JSON arrays of account numbers, taken in
turn; so many of them share a commit. The same table with its indexes, the same settings of the connection, a
commit that is on disk, and the log checkpointed from another connection as the server does it.
"""

import itertools
import sqlite3
import sys
from pathlib import Path

from worker import serve

_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA wal_autocheckpoint = 0;
PRAGMA cache_size = -16384;
PRAGMA temp_store = MEMORY;
"""
_INSERT = "INSERT INTO deliveries (account, sending) SELECT value, ? FROM json_each(?)"


class BareInsertion:
    """The statement between BEGIN and COMMIT."""

    def __init__(self, database: str, accounts_file: str, a_commit: str) -> None:
        self._writer, self._checkpointer = (sqlite3.connect(database, isolation_level=None) for _ in "wc")
        for connection in (self._writer, self._checkpointer):
            connection.executescript(_PRAGMAS)
        ((last,),) = self._writer.execute("SELECT coalesce(max(sending), 0) FROM deliveries")
        self._sendings = itertools.count(last + 1)
        self._accounts = itertools.cycle(Path(accounts_file).read_text("ascii").splitlines())

        self._a_commit = int(a_commit)

    def insert(self, count: int, checkpoint_every: int) -> None:
        """So many notifications, and a checkpoint after every so many of them and at the end."""
        unmoved = 0
        for start in range(0, count, self._a_commit):
            together = min(self._a_commit, count - start)
            self._writer.execute("BEGIN IMMEDIATE")
            for _ in range(together):
                self._writer.execute(_INSERT, (next(self._sendings), next(self._accounts)))
            self._writer.execute("COMMIT")
            unmoved += together
            if unmoved >= checkpoint_every or start + together == count:
                self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                unmoved = 0


if __name__ == "__main__":
    serve(BareInsertion(*sys.argv[1:]).insert)
