"""Acknowledgements by a call: of messages that were sent over any socket of the client, at any process.

Only the process that has sent a message knows which one the id of its request stands for. So a process asks
the others about ids that are not its own, by an event, and they say by another which of them are on disk.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.pubsub.irn.events import IrnReceiptsGiven, IrnReceiptsStored
from bridge_server.pubsub.irn.id_blocks import IdBlocks
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.models import ClientKey, Receipt
from bridge_server.pubsub.irn.socket import IrnSocket
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.topics.models import Topic

_ATTEMPTS = 2
"""The first question may be lost, as any event."""
_ANSWER_SECONDS = 1.0
_MOST_IN_AN_EVENT = 300


class _Question:
    """Ids that other processes are asked about."""

    def __init__(self, request_ids: set[int]) -> None:
        self.left = request_ids
        self.is_answered = asyncio.Event()

    def settle(self, request_ids: Sequence[int]) -> None:
        self.left.difference_update(request_ids)
        if not self.left:
            self.is_answered.set()


class Receipts:
    """`of_client` are the open sockets of each client in this process."""

    def __init__(
        self,
        store: IrnStore,
        journal: IrnJournal,
        ids: IdBlocks,
        of_client: Mapping[ClientKey, Mapping[IrnSocket, None]],
        events: Events,
    ) -> None:
        self._store = store
        self._journal = journal
        self._ids = ids
        self._of_client = of_client
        self._questions: dict[_Question, None] = {}
        self._found: list[IrnReceiptsStored] = []
        self._something_found = asyncio.Event()
        if store.is_shared:
            events.subscribe_elsewhere(IrnReceiptsGiven, self._on_given)
            events.subscribe_elsewhere(IrnReceiptsStored, self._on_stored)

    async def take(self, client: ClientKey, receipts: Sequence[Receipt]) -> None:
        """Return once the acknowledgements are on disk; an id that no open socket has is passed over.

        Raises UnavailableError.
        """
        unknown = [each for each in receipts if not self._confirm(client, each.topic, each.request_id)]
        await self._journal.caught_up()
        if self._store.is_shared:
            await self._ask_others(
                client, [each for each in unknown if self._ids.is_foreign(each.request_id)]
            )

    async def answer_forever(self) -> None:
        """Answer the questions of other processes."""
        while self._store.is_shared:
            await self._something_found.wait()
            self._something_found.clear()
            found, self._found = self._found, []
            with suppress(UnavailableError):
                await self._journal.caught_up()
                await self._store.announce(found)

    def _confirm(self, client: ClientKey, topic: Topic, request_id: int) -> bool:
        return any(each.sending.confirm(request_id, topic) for each in self._of_client.get(client, ()))

    async def _ask_others(self, client: ClientKey, receipts: Sequence[Receipt]) -> None:
        """Return once the others have stored all of it, or none of them says so in time."""
        if not receipts:
            return
        question = _Question({each.request_id for each in receipts})
        self._questions[question] = None
        try:
            for _ in range(_ATTEMPTS):
                await self._store.announce(list(_given(client, receipts)))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ANSWER_SECONDS):
                        await question.is_answered.wait()
                        return
        finally:
            del self._questions[question]

    def _on_given(self, event: IrnReceiptsGiven) -> None:
        client, topic = ClientKey(event.client), Topic(event.topic)
        found = tuple(each for each in event.request_ids if self._confirm(client, topic, each))
        if found:
            self._found.append(IrnReceiptsStored(found))
            self._something_found.set()

    def _on_stored(self, event: IrnReceiptsStored) -> None:
        for question in self._questions:
            question.settle(event.request_ids)


def _given(client: ClientKey, receipts: Sequence[Receipt]) -> Iterator[IrnReceiptsGiven]:
    """The events, each small enough to be carried."""
    by_topic: defaultdict[Topic, list[int]] = defaultdict(list)
    for topic, request_id in receipts:
        by_topic[topic].append(request_id)
    for topic, ids in by_topic.items():
        for first in range(0, len(ids), _MOST_IN_AN_EVENT):
            yield IrnReceiptsGiven(client, topic, tuple(ids[first : first + _MOST_IN_AN_EVENT]))
