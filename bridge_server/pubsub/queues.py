"""Messages that wait, of any generation: their limits, the sockets they are sent to, webhooks of topics."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson
from aiohttp import WSCloseCode

from bridge_server.kernel.errors import InvalidInputError, LimitError, UnavailableError, UnsupportedMediaError
from bridge_server.kernel.json_texts import why_not_json
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.store import enqueue
from bridge_server.outbox.topics import Topic, webhooks_of
from bridge_server.pubsub.frames import Frames
from bridge_server.storage.database import Statement, Transaction, json_array
from bridge_server.web.limits import Cost, TokenBuckets
from bridge_server.web.sockets import ping_frame


@dataclass(slots=True)
class Share:
    """The limit of waiting messages and their bytes."""

    messages: int
    size_bytes: int


@dataclass(slots=True)
class QueueLimits:
    """Limits of waiting messages by topic and address, and their lifetime; rewritten when settings are."""

    topic: Share
    address: Share
    lifetime_ms: int


@dataclass(slots=True)
class SocketLimits:
    """Limits of a client's sockets and topics, and the interval of pings."""

    per_address: int
    topics: int
    """To which one socket may subscribe."""
    address_topics: int
    """Topics of all sockets of an address together. Each takes about 1 KiB of memory."""
    unacknowledged: int
    """Messages of one topic that a socket was sent, also messages that other sockets have acknowledged."""
    heartbeat_seconds: float


_RETRY_SECONDS = 10


class FrameNotJsonError(UnsupportedMediaError, code="not-json", title="The frame is not JSON"):
    """A frame is not JSON."""


class InvalidFrameError(InvalidInputError, code="invalid-frame", title="The frame is not valid"):
    """A frame is JSON, but no message."""


def read_members(text: bytes, form: str) -> dict[str, Any]:
    """The members of a frame of this form. Raises FrameNotJsonError; InvalidFrameError if it is no object."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FrameNotJsonError(f"The frame is not JSON: {why_not_json(error.msg)}.") from error
    if not isinstance(values, dict):
        raise InvalidFrameError(f"A frame must be {form}.")
    return values


class TooManyAddressTopicsError(
    LimitError, code="too-many-address-topics", title="Too many topics of an address"
):
    """The sockets of the address have subscribed to as many topics as they may."""

    def __init__(self, limit: int) -> None:
        detail = f"The sockets of your address have {limit} topics, and may have no more."
        super().__init__(f"{detail} Unsubscribe from some.", _RETRY_SECONDS)


class TooManySocketsError(LimitError, code="too-many-sockets", title="Too many open sockets"):
    """The address has as many open sockets as it may have."""

    def __init__(self, limit: int) -> None:
        detail = f"Your address has {limit} open sockets, and may have no more. Close one first."
        super().__init__(detail, _RETRY_SECONDS)


class QueueFullError(LimitError, code="queue-full", title="Too many waiting messages"):
    """The topic, or the address, has as many messages waiting as it may have."""

    def __init__(self, whose: str) -> None:
        detail = f"Not taken: {whose} has as much waiting as it may have. Wait for the receiver."
        super().__init__(detail, _RETRY_SECONDS)


# The waiting messages of a topic, an address or a client, and whether there is room for more.


class Claim(NamedTuple):
    """A share that a message counts to."""

    statement: str
    """Reads the number and the bytes of the messages that wait, of several owners by a JSON array."""
    whose: str
    share: Share
    name: str
    """The owner of the share, as an error names it."""


@dataclass(slots=True)
class _Waiting:
    messages: int
    size_bytes: int


class Shares:
    """Shares within one transaction: read once, and counted in memory from then on."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._counted: dict[tuple[str, str], _Waiting] = {}

    def count(self, claims: Iterable[Claim]) -> Transaction[None]:
        """Read what waits for the owners of these claims, unless it was read before."""
        owners: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for statement, whose, *_ in claims:
            if (statement, whose) not in self._counted:
                owners[statement][whose] = None
        for statement, all_of_them in owners.items():
            rows = yield Statement(statement, (json_array(all_of_them), self._now_ms))
            self._counted |= {(statement, whose): _Waiting(0, 0) for whose in all_of_them}
            self._counted |= {(statement, whose): _Waiting(*found) for whose, *found in rows}

    def take(self, claims: Sequence[Claim], size_bytes: int) -> QueueFullError | None:
        """Count one message more to each of these counted claims, or to none of them and say why not."""
        owners = [self._counted[claim.statement, claim.whose] for claim in claims]
        for waiting, claim in zip(owners, claims, strict=True):
            share = claim.share
            if waiting.messages >= share.messages or waiting.size_bytes + size_bytes > share.size_bytes:
                return QueueFullError(claim.name)
        for waiting in owners:
            waiting.messages += 1
            waiting.size_bytes += size_bytes
        return None

    def give_back(self, claims: Sequence[Claim], size_bytes: int) -> None:
        """Take back the count of a message that is not stored."""
        for claim in claims:
            waiting = self._counted[claim.statement, claim.whose]
            waiting.messages -= 1
            waiting.size_bytes -= size_bytes


class MessageCharges:
    """Charges an address for messages on its sockets. More than it may send at once empties its bucket."""

    def __init__(self, quotas: TokenBuckets, limit: Limit) -> None:
        self._quotas = quotas
        self._limit = limit

    def charge(self, address: str, messages: int) -> Awaitable[None] | None:
        """Charge for messages to be sent, at once or in the awaitable. Raises QuotaError."""
        limit = self._limit
        if self._quotas.take((((limit.name, address), limit),), messages) is not None:
            return None
        return self._quotas.charge_costs((Cost(address, limit, min(messages, limit.burst)),))

    def charge_more(self, address: str, messages: int) -> None:
        """Charge for messages that have been sent, as far as there is something left."""
        self._quotas.charge_what_is_left((Cost(address, self._limit, min(messages, self._limit.burst)),))


async def until_done(
    waiting: list[asyncio.Future[None]], wanted: asyncio.Event, patience_seconds: float, verb: str
) -> None:
    """Have work done now, and wait with others for its end. Raises UnavailableError after this time."""
    done = asyncio.get_running_loop().create_future()
    waiting.append(done)
    wanted.set()
    try:
        async with asyncio.timeout(patience_seconds):
            await done
    except TimeoutError as error:
        raise UnavailableError(f"Messages cannot be {verb}. Try again shortly.") from error


# Notices to webhooks of topics: parts of the transactions that store messages.

NoticeOf: TypeAlias = Callable[[Topic, str | None, str], OutgoingMessage]
"""Writes the notice to a webhook: given the topic, the address that the message counts to, the webhook."""

_SOME_NOTICES_BYTES = 1_024


class Allowance(Protocol):
    """The bytes that an address may store; None is exempt."""

    async def hold(self, needs: Mapping[str | None, int]) -> None:
        """Lease the bytes that addresses are going to store, where several processes share the buckets."""

    def covers(self, address: str | None, size_bytes: int) -> bool:
        """Whether the address may store this many bytes. Any thread may call it."""

    def pay(self, address: str | None, size_bytes: int) -> None:
        """Count bytes that have been stored."""


class Notices:
    """The notices that one transaction causes, by the address whose messages cause them."""

    def __init__(self, notice: NoticeOf, allowance: Allowance | None, now_ms: int) -> None:
        self._notice = notice
        self._allowance = allowance
        self._now_ms = now_ms
        self._webhooks: dict[Topic, list[str]] = {}
        self._promised: Counter[str | None] = Counter()

    def of(self, topic: Topic, address: str | None) -> Transaction[list[OutgoingMessage] | None]:
        """A notice for each webhook of the topic; None when the address may not store so many bytes."""
        if topic not in self._webhooks:
            self._webhooks[topic] = yield from webhooks_of(topic, self._now_ms)
        messages = [self._notice(topic, address, webhook) for webhook in self._webhooks[topic]]
        size_bytes = sum(message.size_bytes for message in messages)
        promised = self._promised[address] + size_bytes
        if messages and self._allowance is not None and not self._allowance.covers(address, promised):
            return None
        self._promised[address] = promised
        return messages


async def hold_for_notices(allowance: Allowance | None, addresses: Iterable[str | None]) -> None:
    """Lease bytes for notices of these addresses, whose number is not known yet. Raises UnavailableError."""
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


# Open sockets: their number per address, the detection of dead ones, and their end.

_PING_BYTES = 4
_PINGS_IN_A_ROW = 250
_RESET = "The server was reset. Connect again."
_GOODBYE = "The server stops. Connect again."


class OpenSocket(Protocol):
    """One open socket."""

    @property
    def number(self) -> int:
        """The socket's number, unique in its generation."""

    @property
    def address(self) -> str | None:
        """The client's address; None is exempt from limits."""

    def probe(self, ping: bytes, payload: bytes) -> None:
        """Ping the client, and close its socket if it has sent nothing since the last ping."""

    def end(self, code: int, reason: str) -> None:
        """Close in good order, at once or as soon as the socket is open."""

    def leave(self) -> None:
        """Leave: the client is not there any more. A second call changes nothing."""


class SocketShares:
    """Counts the open sockets (`open_from`) and the topics of each address, of both generations together."""

    def __init__(self, limits: SocketLimits, open_from: Counter[str]) -> None:
        self.limits = limits
        self.open_from = open_from
        self._of_address: Counter[str] = Counter()

    def require_room(self, address: str | None, topics: int) -> None:
        """Raise TooManyAddressTopicsError unless the address may have so many more; None is exempt."""
        limit = self.limits.address_topics
        if address is not None and topics > 0 and self._of_address[address] + topics > limit:
            raise TooManyAddressTopicsError(limit)

    def take(self, address: str | None) -> None:
        """Count one topic more of a socket. Raises TooManyAddressTopicsError."""
        self.require_room(address, 1)
        if address is not None:
            self._of_address[address] += 1

    def give_back(self, address: str | None, topics: int = 1) -> None:
        """Take back the count of topics that a socket has left."""
        if address is not None and topics:
            self._of_address[address] -= topics
            if not self._of_address[address]:
                del self._of_address[address]


AnySocket = TypeVar("AnySocket", bound=OpenSocket)


class OpenSockets(Generic[AnySocket]):
    """The sockets of one generation of clients. `frames` records what they carry, if anything does."""

    def __init__(
        self, shares: SocketShares, heartbeat_seconds: Callable[[], float], frames: Frames | None = None
    ) -> None:
        self.shares = shares
        self.frames = frames
        self._heartbeat_seconds = heartbeat_seconds
        self._sockets: dict[int, AnySocket] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._sockets)

    def get(self, number: int) -> AnySocket | None:
        """The socket of this number, if it is open."""
        return self._sockets.get(number)

    def require_place(self, address: str | None) -> None:
        """Raise TooManySocketsError, or UnavailableError when the server stops."""
        if self._is_closed:
            raise UnavailableError(_GOODBYE)
        shares = self.shares
        if address is not None and shares.open_from[address] >= shares.limits.per_address:
            raise TooManySocketsError(shares.limits.per_address)

    def add(self, socket: AnySocket) -> None:
        """Add a socket that has opened."""
        self._sockets[socket.number] = socket
        if socket.address is not None:
            self.shares.open_from[socket.address] += 1

    def forget(self, socket: AnySocket) -> bool:
        """Remove a closed socket; returns whether it was there until now."""
        if self._sockets.pop(socket.number, None) is None:
            return False
        if socket.address is not None:
            open_from = self.shares.open_from
            open_from[socket.address] -= 1
            if not open_from[socket.address]:
                del open_from[socket.address]
        return True

    def close(self) -> None:
        """End every socket, and let none open any more: the server stops."""
        self._is_closed = True
        for socket in self._sockets.values():
            socket.end(WSCloseCode.GOING_AWAY, _GOODBYE)

    def end_all(self) -> None:
        """End every socket, and do nothing more for its client: the server was reset."""
        for socket in list(self._sockets.values()):
            socket.end(WSCloseCode.GOING_AWAY, _RESET)
            socket.leave()

    async def ping_forever(self) -> None:
        """Ping every socket now and then, letting others have a turn in between."""
        for round_number in count():
            await asyncio.sleep(self._heartbeat_seconds())
            payload = (round_number % 2**32).to_bytes(_PING_BYTES)
            ping = ping_frame(payload)
            for pinged, socket in enumerate(list(self._sockets.values()), 1):
                socket.probe(ping, payload)
                if pinged % _PINGS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
