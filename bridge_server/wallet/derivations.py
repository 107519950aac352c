"""Keys from passphrases: slow and hungry for memory, so one at a time, and beside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from bridge_server.ethereum.keystore import PassphraseError
from bridge_server.ethereum.keystore_kdf import CostError
from bridge_server.kernel.errors import LimitError, UnavailableError

Pause: TypeAlias = Callable[[float], Awaitable[None]]

_MOST_WAITING = 16
_RETRY_SECONDS = 5
_PAUSE_SECONDS = 1.0

Result = TypeVar("Result")


class Derivations:
    """Lets one be made after the other, each in a thread.

    After a wrong passphrase all wait a second, so that guessing is slow with files that are quick to open.
    """

    def __init__(self, pause: Pause = asyncio.sleep) -> None:
        self._pause = pause
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work when its turn has come, and raise what it raises.

        Raises LimitError when too many wait, UnavailableError when there is too little memory. The work is
        done to its end, and its pause kept, though the caller be cancelled.
        """
        if self._waiting >= _MOST_WAITING:
            raise LimitError(
                "Too many passphrases wait to be tried: try again in a few seconds.", _RETRY_SECONDS
            )
        self._waiting += 1
        return await asyncio.shield(asyncio.create_task(self._run(work)))

    async def _run(self, work: Callable[[], Result]) -> Result:
        try:
            async with self._turn:
                return await self._run_alone(work)
        finally:
            self._waiting -= 1

    async def _run_alone(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(work)
        except PassphraseError:
            await self._pause(_PAUSE_SECONDS)
            raise
        except CostError as error:
            raise UnavailableError(f"The passphrase cannot be tried: {error}.") from error
