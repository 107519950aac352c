"""What every provider can do, and what it says of an attempt."""

from collections.abc import Callable
from typing import Protocol, Self, TypeAlias

from bridge_server.kernel.clock import Clock
from bridge_server.outgoing.outcome import Outcome
from bridge_server.push.models import PushNotice


class Provider(Protocol):
    """Brings pushes to devices. Used as an async context manager, which holds its connections."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def checked_token(self, token: str) -> str:
        """The token, if it has the form that this provider's tokens have. Raises ValueError."""
        ...

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Attempt to deliver once. Whatever goes wrong becomes an outcome, never an error:

        DELIVERED when the provider took it; GONE when it calls the token dead; FAILED when another attempt
        may succeed (with the wait that it asked for); REFUSED when this notice never will (too large);
        BLOCKED when the provider refuses this server's credentials, so that nothing else will get through.
        """
        ...


ProviderOf: TypeAlias = Callable[[Clock], Provider]
"""Makes a provider that goes by this clock."""
