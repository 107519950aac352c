"""The wallet where several processes share a database: one of them has it, and the others forward calls."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from bridge_server.kernel.background import running
from bridge_server.kernel.own_url import OwnUrl
from bridge_server.storage.database import Transaction
from bridge_server.wallet.errors import NoNodeError

Resources: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class WalletRole:
    """The wallet's role, as this process has it or waits for it."""

    fence: Callable[[], Transaction[None]]
    """The first steps of each write of the wallet."""
    is_here: Callable[[], bool]
    """Whether this process has the wallet, ready to serve."""
    is_held: Callable[[], bool]
    """Whether this process has the wallet, ready or not, and no other one can have taken it over."""
    holder_url: Callable[[], Awaitable[str | None]]
    """The URL of the process that has the wallet, if another one has."""
    announce: Callable[[str], None]
    """Lets others know how they reach this process."""
    serve_forever: Callable[[Resources], Awaitable[None]]
    """Keeps the wallet's resources open whenever this process has the wallet."""
    first_look: Callable[[], Awaitable[None]]
    """Returns once it is known whether this process has the wallet at its start."""

    def require_held(self) -> None:
        """Raise NoNodeError where this process may not speak to the node for the wallet any more."""
        if not self.is_held():
            raise NoNodeError("Another process may have taken over the wallet: that one asks the node.")


@asynccontextmanager
async def served_in_turn(role: WalletRole, resources: Resources, own_url: OwnUrl) -> AsyncIterator[None]:
    """Have the wallet inside, or wait for it."""

    async def serve() -> None:
        await role.serve_forever(resources)

    async def announce() -> None:
        role.announce(await own_url.known())

    async with running(serve()), running(announce()):
        await role.first_look()
        yield
