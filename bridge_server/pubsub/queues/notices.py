"""Notices to webhooks of topics: parts of the transactions that store messages."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.store import enqueue
from bridge_server.storage.database import Transaction
from bridge_server.topics.models import Topic
from bridge_server.topics.webhooks import webhooks_of

NoticeOf: TypeAlias = Callable[[Topic, str | None, str], OutgoingMessage]
"""Writes the notice to a webhook: given the topic, the address that the message counts to, the webhook."""


_SOME_NOTICES_BYTES = 1_024


class Allowance(Protocol):
    """The bytes that an address may store; None is exempt."""

    async def hold(self, needs: Mapping[str | None, int]) -> None:
        """Have at hand what addresses are going to store, where several processes charge them."""
        ...

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether the address may store this many bytes. Any thread may call it."""
        ...

    def pay(self, address: str | None, size_bytes: int) -> None:
        """Count bytes that have been stored."""
        ...


class Notices:
    """The notices that one transaction causes, by the address whose messages cause them."""

    def __init__(self, notice: NoticeOf, allowance: Allowance | None, now_ms: int) -> None:
        self._notice = notice
        self._allowance = allowance
        self._now_ms = now_ms
        self._webhooks: dict[Topic, list[str]] = {}
        self._promised: Counter[str | None] = Counter()

    def of(self, topic: Topic, address: str | None) -> Transaction[list[OutgoingMessage] | None]:
        """One for each webhook of the topic; None when its address may not cause so much any more."""
        if topic not in self._webhooks:
            self._webhooks[topic] = yield from webhooks_of(topic, self._now_ms)
        messages = [self._notice(topic, address, webhook) for webhook in self._webhooks[topic]]
        size_bytes = sum(message.size_bytes for message in messages)
        if messages and not self._covers(address, self._promised[address] + size_bytes):
            return None
        self._promised[address] += size_bytes
        return messages

    def _covers(self, address: str | None, size_bytes: int) -> bool:
        return self._allowance is None or self._allowance.covers(address, size_bytes)


async def hold_for_notices(allowance: Allowance | None, addresses: Iterable[str | None]) -> None:
    """Have something at hand for notices that these addresses may cause; nobody knows yet how much.

    Raises UnavailableError.
    """
    needs = dict.fromkeys(addresses, _SOME_NOTICES_BYTES)
    if allowance is not None and needs:
        await allowance.hold(needs)


def send_later(messages: list[OutgoingMessage], now_ms: int) -> Transaction[Counter[str | None]]:
    """Queue notices; returns their bytes by the address that caused them."""
    caused: Counter[str | None] = Counter()
    for message in messages:
        caused[message.client] += message.size_bytes
        yield from enqueue(message, now_ms)
    return caused


def pay_for(caused: Mapping[str | None, int], allowance: Allowance | None) -> None:
    """Charge the addresses for their stored notices."""
    if allowance is not None:
        for address, size_bytes in caused.items():
            allowance.pay(address, size_bytes)
