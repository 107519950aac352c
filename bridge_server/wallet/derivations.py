"""Key derivation from passphrases: slow and hungry for memory, so one at a time, in a thread."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import structlog

from bridge_server.ethereum.keystore import PassphraseError, read_keystore
from bridge_server.ethereum.keystore_kdf import CostError
from bridge_server.kernel.errors import LimitError, UnavailableError
from bridge_server.kernel.turns import KeyedLock
from bridge_server.wallet.models import Address

Pause: TypeAlias = Callable[[float], Awaitable[None]]

_MOST_WAITING = 64
_MOST_WAITING_OF_ONE = 8
_RETRY_SECONDS = 5
_PAUSE_SECONDS = 1.0

Result = TypeVar("Result")

log = structlog.get_logger()


class Derivations:
    """Runs key derivations one after the other, each in a thread.

    After a wrong passphrase the account's next one waits a second, so that guessing is slow with files that
    are quick to open. Other accounts do not wait for it, and no account takes all the places in the queue.
    """

    def __init__(self, pause: Pause = asyncio.sleep) -> None:
        self._pause = pause
        self._accounts = KeyedLock()
        self._memory = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    async def run(self, account: str, work: Callable[[], Result]) -> Result:
        """Do the work for an account in its turn, and raise what the work raises.

        Raises LimitError when too many wait, UnavailableError when there is too little memory. The work is
        done to its end, and its pause kept, even if the caller is cancelled.
        """
        if self._waiting[account] >= _MOST_WAITING_OF_ONE or self._waiting.total() >= _MOST_WAITING:
            raise LimitError(
                "Too many passphrases wait to be tried: try again in a few seconds.", _RETRY_SECONDS
            )
        self._waiting[account] += 1
        task = asyncio.create_task(self._run(account, work))
        task.add_done_callback(_look_at_failure)
        return await asyncio.shield(task)

    async def _run(self, account: str, work: Callable[[], Result]) -> Result:
        try:
            async with self._accounts.taken(account):
                return await self._try(work)
        finally:
            self._waiting -= Counter((account,))

    async def _try(self, work: Callable[[], Result]) -> Result:
        try:
            async with self._memory:
                return await asyncio.to_thread(work)
        except PassphraseError:
            await self._pause(_PAUSE_SECONDS)
            raise
        except CostError as error:
            raise UnavailableError(f"The passphrase cannot be tried: {error}.") from error


def _look_at_failure(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception for callers that left: asyncio logs unretrieved ones as defects."""
    if not task.cancelled():
        task.exception()


def open_key_file(address: Address, content: bytes, passphrase: str) -> bytes:
    """The secret in a key file. A wrong passphrase is logged here, because the caller may be gone by then."""
    try:
        return read_keystore(content).open(encoded(passphrase))
    except PassphraseError:
        log.warning("wrong_passphrase", account=address)
        raise


def encoded(passphrase: str) -> bytes:
    """The passphrase's bytes. Bytes of the command line that are no UTF-8 stay as they were."""
    return passphrase.encode(errors="surrogateescape")
