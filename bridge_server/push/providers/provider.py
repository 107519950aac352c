"""The interface of every provider."""

from collections.abc import Callable
from typing import Protocol, Self, TypeAlias

from bridge_server.kernel.clock import Clock
from bridge_server.outgoing.outcome import Outcome
from bridge_server.push.models import PushNotice


class Provider(Protocol):
    """Delivers pushes to devices. It is an async context manager that owns its connections."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def checked_token(self, token: str) -> str:
        """The token in its normal form. Raises ValueError if it does not have the provider's form."""
        ...

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Attempt to deliver once. Every failure is an outcome; no exception is raised.

        DELIVERED: the provider accepted the push. GONE: it calls the token dead. FAILED: a retry may succeed,
        after the provider's Retry-After. REFUSED: this notice will never be accepted, for instance because
        it is too large. BLOCKED: the provider refuses this server's credentials, so every push would fail.
        """
        ...


ProviderOf: TypeAlias = Callable[[Clock], Provider]
"""Makes a provider that uses the clock."""
