"""Messages that a client fetches instead of waiting for them to be sent."""

from collections.abc import Sequence

from bridge_server.kernel.clock import Clock
from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.socket import IrnSocket
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.topics.models import Topic

_MOST_FETCHED = 500
_MOST_FETCHED_BYTES = 256 * 1024


class Fetching:
    """Fetched messages count as delivered once their answer is written."""

    def __init__(self, store: IrnStore, journal: IrnJournal, clock: Clock) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock

    async def fetch(self, socket: IrnSocket, id_text: bytes, topics: Sequence[Topic]) -> None:
        """Answer with the messages that wait for the client on these topics. Raises UnavailableError."""
        await self._journal.caught_up()
        found = await self._store.fetchable(socket.client, topics, self._clock.now_ms(), _MOST_FETCHED + 1)
        chosen = _first_of(found)
        messages = await self._store.by_numbers(chosen)
        socket.answer(wire.write_result(id_text, wire.write_fetched(messages, len(chosen) < len(found))))
        if await socket.has_written():
            self._journal.acknowledge(socket.client, [message.number for message in messages])


def _first_of(found: Sequence[tuple[int, int]]) -> list[int]:
    """The messages of one answer, up to its limit of bytes; a larger message is answered alone."""
    chosen: list[int] = []
    size_bytes = 0
    for number, each_bytes in found[:_MOST_FETCHED]:
        size_bytes += each_bytes
        if chosen and size_bytes > _MOST_FETCHED_BYTES:
            break
        chosen.append(number)
    return chosen
