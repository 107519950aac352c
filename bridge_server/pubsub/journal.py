"""Writes messages and acknowledgements to the disk, all that came during a commit in the next transaction."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.ids import IdMaker
from bridge_server.pubsub.queues.models import Changes, Message, QueueLimits
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.wire import notice_of

_MOST_MESSAGES = 1_000
_MOST_BYTES = 8 * 2**20
_PATIENCE_SECONDS = 5.0
_RETRY_SECONDS = 0.25

log = structlog.get_logger()


class Journal:
    """Changes on their way to the disk. `running` must be entered.

    `refuse` is called with each message that is not stored, because its topic or its address has too many.
    """

    def __init__(
        self,
        store: TopicStore,
        clock: Clock,
        ids: IdMaker,
        limits: QueueLimits,
        refuse: Callable[[Message, BridgeError], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._notice = partial(notice_of, ids)
        self._limits = limits
        self._refuse = refuse
        self._unsaved: dict[int, Message] = {}
        self._unsaved_bytes = 0
        self._settled: list[int] = []
        self._announced: list[Message] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._is_writing = self._is_closed = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while inside, and the rest on leaving."""
        writing = asyncio.create_task(self._write_until_closed())
        try:
            yield
        finally:
            self._is_closed = True
            self._wanted.set()
            await writing

    def keep(self, message: Message) -> None:
        """Store the message."""
        self._unsaved[message.number] = message
        self._unsaved_bytes += len(message.text)
        self._wanted.set()

    def settle(self, message: Message) -> None:
        """Delete the message, which was to be kept."""
        if self._unsaved.pop(message.number, None) is None:
            self._settled.append(message.number)
            self._wanted.set()
        else:
            self._unsaved_bytes -= len(message.text)

    def drop(self, number: int) -> None:
        """Delete the stored message of this number."""
        self._settled.append(number)
        self._wanted.set()

    def announce(self, message: Message) -> None:
        """Call the webhooks of the message's topic, unless the message is refused."""
        self._announced.append(message)
        self._wanted.set()

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsaved that publishers must wait."""
        return (
            len(self._unsaved) + len(self._announced) >= _MOST_MESSAGES or self._unsaved_bytes >= _MOST_BYTES
        )

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk. Raises UnavailableError."""
        if not (self._is_writing or self._has_changes()):
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._wanted.set()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await done
        except TimeoutError as error:
            raise UnavailableError("Messages cannot be stored. Try again shortly.") from error

    def _has_changes(self) -> bool:
        return bool(self._unsaved or self._settled or self._announced)

    async def _write_until_closed(self) -> None:
        while not self._is_closed or self._has_changes():
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._write()
            except UnavailableError as error:
                log.warning("messages_not_stored", reason=error.detail, messages=len(self._unsaved))
                if self._is_closed:
                    return
                await asyncio.sleep(_RETRY_SECONDS)
                self._wanted.set()
            except Exception:  # tried again it would fail again, and all that comes later with it
                log.exception("messages_lost")

    async def _write(self) -> None:
        """Write all unsaved changes. If the write fails, they are unsaved again."""
        unsaved, unsaved_bytes, waiting = self._unsaved, self._unsaved_bytes, self._waiting
        changes = Changes(tuple(unsaved.values()), tuple(self._settled), tuple(self._announced))
        self._unsaved, self._unsaved_bytes = {}, 0
        self._settled, self._announced, self._waiting = [], [], []
        self._is_writing = True
        try:
            refused = await self._store.apply(changes, self._clock.now_ms(), self._limits, self._notice)
        except UnavailableError:
            self._unsaved, self._unsaved_bytes = unsaved | self._unsaved, unsaved_bytes + self._unsaved_bytes
            self._settled[:0] = changes.settled
            self._announced[:0] = changes.announced
            self._waiting[:0] = waiting
            raise
        finally:
            self._is_writing = False
        taken = unsaved | {message.number: message for message in changes.announced}
        for number, error in refused.items():
            self._refuse(taken[number], error)
        for done in waiting:
            if not done.done():
                done.set_result(None)
