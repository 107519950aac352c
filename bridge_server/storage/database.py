"""What a store may ask of a database, so that a driver is one file and the stores are written once.

A transaction is a generator: it yields statements and is sent the rows of each (a statement that has none
to give is answered with one row: how many rows it changed), yields announcements of what it changes, and
returns its result. It runs wholly or not at all, possibly sharing a commit with
others, and may be run again from its start if the first attempt was rolled back: so it must not change
anything but the database.
"""

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from bridge_server.kernel.signals import Key

Value: TypeAlias = str | bytes | int | None
Row: TypeAlias = tuple[Value, ...]

Result = TypeVar("Result")


class Statement(NamedTuple):
    """One statement of portable SQL and its parameters."""

    sql: str
    parameters: Sequence[Value] = ()


class Announcement(NamedTuple):
    """Say, once this transaction is committed, that what `key` names has changed."""

    key: Key


Step: TypeAlias = Statement | Announcement
Transaction: TypeAlias = Generator[Step, list[Row], Result]


class Database(Protocol):
    """Committed reads and durable transactions.

    Both raise `UnavailableError` when the database cannot serve now: a full disk, a lock held elsewhere,
    too much waiting.
    """

    @property
    def is_busy(self) -> bool:
        """Whether a read or a transaction is under way."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether it has reached its limit: transactions that add to it are refused."""
        ...

    def require_room(self) -> None:
        """Raise UnavailableError when it is full."""
        ...

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of one statement that only reads; sees every commit that was answered before the call."""
        ...

    async def transaction(self, begin: Callable[[], Transaction[Result]], *, adds: bool = False) -> Result:
        """Run the transaction that `begin` makes; return its result once it is on disk.

        One that `adds` to what is stored, on somebody's demand, is refused while the database is full.

        Its announcements are made then, even when the caller no longer waits. What it raises is raised,
        and it then has changed nothing.
        """
        ...
