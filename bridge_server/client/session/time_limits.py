"""Time limits of a client's waits, and the errors when they are over."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bridge_server.client.session.errors import AnswerTimeoutError, BridgeUnreachableError
from bridge_server.client.session.pace import Pace


class TimeLimits(ABC):
    """A way to the bridge that limits the time of blocks."""

    pace: Pace

    @abstractmethod
    def within(self, seconds: float | None, missing: str) -> AbstractAsyncContextManager[None]:
        """Limit the time of the block; None is no limit.

        Raises AnswerTimeoutError with the text `missing`; BridgeUnreachableError if the bridge cannot be used
        at that moment.
        """

    @asynccontextmanager
    async def bridge_within(self, seconds: float | None, missing: str) -> AsyncIterator[None]:
        """Like `within`, for an answer of the bridge itself. Raises BridgeUnreachableError."""
        try:
            async with self.within(seconds, missing):
                yield
        except AnswerTimeoutError as error:
            raise BridgeUnreachableError(str(error)) from error

    def patiently(self, missing: str) -> AbstractAsyncContextManager[None]:
        """Like `bridge_within`, with the time limit of requests without their own timeout."""
        return self.bridge_within(self.pace.patience_seconds, missing)
