"""One socket of a client: its requests, their answers, and whether the client is still there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from bridge_server.kernel.errors import BridgeError
from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.models import ClientKey, ClientRequest, Confirmation, IrnCall, PublishCall
from bridge_server.pubsub.irn.params import read_call
from bridge_server.pubsub.irn.sending import Sending
from bridge_server.web.charges import QuotaError
from bridge_server.web.frames import text_frame
from bridge_server.web.socket import Socket

Perform: TypeAlias = Callable[["IrnSocket", bytes, IrnCall], Awaitable[None] | None]
"""Performs a client's call; given its socket, the JSON of the request's id, and the call."""
ChargeMessages: TypeAlias = Callable[[str, int], Awaitable[None] | None]
"""Spends messages of an address, at once or when what it returns was awaited. Raises QuotaError."""

_LONGEST_PAUSE_SECONDS = 1.0


class IrnSocket:
    """Implements the party of a socket. Over a rate, what the client says is heard more slowly: it reads no
    code of an error, and repeats what is refused.
    """

    __slots__ = (
        "_charge", "_farewell", "_is_quiet", "_is_settling", "_leave", "_outlet", "_perform", "_settle",
        "_welcome", "address", "client", "is_doubtful", "number", "sending",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        address: str | None,
        client: ClientKey,
        sending: Sending,
        perform: Perform,
        charge: ChargeMessages,
        settle: Callable[[], Awaitable[None]],
        welcome: Callable[["IrnSocket"], None],
        leave: Callable[["IrnSocket"], None],
    ) -> None:
        self.number = number
        self.address = address
        self.client = client
        self.sending = sending
        self.is_doubtful = False
        """Whether its last publication was refused, so that the next one may be as well."""
        self._perform = perform
        self._charge = charge
        self._settle = settle
        self._welcome = welcome
        self._leave = leave
        self._outlet: Socket | None = None
        self._farewell: tuple[int, str] | None = None
        self._is_quiet = self._is_settling = False

    def join(self, outlet: Socket) -> None:
        self._outlet = outlet
        if self._farewell is not None:
            outlet.end(*self._farewell)
            return
        self.sending.open(outlet)
        self._welcome(self)

    def hear(self, text: bytes) -> Awaitable[None] | None:
        self._is_quiet = False
        frame = wire.read_frame(text)
        if isinstance(frame, Confirmation):
            is_known = frame.is_received and self.sending.confirm(frame.request_id)
            return None if is_known else self._pay(1)
        try:
            wire.require_request(frame)
            call = read_call(frame.method, frame.params)
        except BridgeError as error:
            self.answer(wire.write_error(frame.id_text, error))
            return self._pay(1)
        late = self._pay(len(call.publications) if isinstance(call, PublishCall) else 1)
        return self._do(frame, call) if late is None else self._do_after(late, frame, call)

    async def settle(self) -> None:
        self._is_quiet, self._is_settling = False, True
        try:
            late = self._pay(1)
            if late is not None:
                await late
            await self._settle()
        finally:
            self._is_settling = False

    def recognise(self, pong: bytes) -> None:
        self._is_quiet = False
        self.sending.answers.recognise(pong)

    def leave(self) -> None:
        self._outlet = None
        self.sending.close()
        self._leave(self)

    def probe(self, ping: bytes, _: bytes) -> None:
        """Ping the client. A client that has sent nothing since the last ping is not there any more.

        What it sends while the disk is waited for is heard only after that.
        """
        if self._outlet is None or self._is_settling:
            return
        if self._is_quiet:
            self._outlet.abort()
            return
        self._is_quiet = True
        self._outlet.push(ping)

    def end(self, code: int, reason: str) -> None:
        """Close the socket in good order, at once or as soon as it is open."""
        self._farewell = code, reason
        if self._outlet is not None:
            self._outlet.end(code, reason)

    def answer(self, text: bytes) -> None:
        """Answer a request, unless the client has left."""
        if self._outlet is not None:
            self._outlet.push_joined(text_frame(text))

    def answer_call(self, id_text: bytes, result: bytes, refused: BridgeError | None) -> None:
        """Answer a request with its result, or with the reason why there is none."""
        if refused is None:
            self.answer(wire.write_result(id_text, result))
        else:
            self.answer(wire.write_error(id_text, refused))

    async def has_written(self) -> bool:
        """Wait until all answers have been written; returns whether they have."""
        if self._outlet is None:
            return False
        await self._outlet.drain()
        return self._outlet is not None and self._outlet.is_open

    def _do(self, request: ClientRequest, call: IrnCall) -> Awaitable[None] | None:
        try:
            pending = self._perform(self, request.id_text, call)
        except BridgeError as error:
            self.answer(wire.write_error(request.id_text, error))
            return None
        return None if pending is None else self._finish(request, pending)

    async def _finish(self, request: ClientRequest, pending: Awaitable[None]) -> None:
        try:
            await pending
        except BridgeError as error:
            self.answer(wire.write_error(request.id_text, error))
        finally:
            self._is_quiet = False

    async def _do_after(self, late: Awaitable[None], request: ClientRequest, call: IrnCall) -> None:
        await late
        pending = self._do(request, call)
        if pending is not None:
            await pending

    def _pay(self, messages: int) -> Awaitable[None] | None:
        """Spend so many messages of the address: at once, or when what is returned was awaited."""
        if self.address is None:
            return None
        try:
            late = self._charge(self.address, messages)
        except QuotaError as error:
            return self._pay_later(messages, error)
        return None if late is None else self._pay_late(messages, late)

    async def _pay_late(self, messages: int, late: Awaitable[None]) -> None:
        try:
            await late
        except QuotaError as error:
            await self._pay_later(messages, error)

    async def _pay_later(self, messages: int, refusal: QuotaError) -> None:
        assert self.address is not None
        while self._outlet is not None:
            await asyncio.sleep(_pause_seconds(refusal))
            self._is_quiet = False  # its pongs wait behind what it has said
            try:
                late = self._charge(self.address, messages)
                if late is not None:
                    await late
            except QuotaError as error:
                refusal = error
            else:
                return


def _pause_seconds(refusal: QuotaError) -> float:
    longest_us = max(charge.spending.retry_after_us for charge in refusal.charges)
    return min(longest_us / 1_000_000, _LONGEST_PAUSE_SECONDS)
