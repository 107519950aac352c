"""The parts of a session of generation 1.x that dapp and wallet share: one key, a topic for each side."""

import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import aiohttp
import orjson

from bridge_server.client.session.contents import write_request
from bridge_server.client.session.conversation import Conversation
from bridge_server.client.session.errors import BadPayloadError, SessionEndedError
from bridge_server.client.session.line import Line
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.pairing import Pairing
from bridge_server.client.session.payload_ids import PayloadIds
from bridge_server.client.v1.cipher import SocketCipher
from bridge_server.client.v1.messages import ENDED, is_silent
from bridge_server.client.v1.topic_client import TopicClient

_log = logging.getLogger(__name__)


class SocketSession:
    """Encrypted JSON-RPC; `requested` and `responded` are called with the messages of the other side."""

    def __init__(
        self,
        pairing: Pairing,
        http: aiohttp.ClientSession | None,
        pace: Pace,
        requested: Callable[[dict[str, Any]], None],
        responded: Callable[[dict[str, Any]], None],
    ) -> None:
        self.pairing = pairing
        self.client_id = str(uuid4())
        self.peer_id: str | None = None
        self.conversation = Conversation()
        self.line = Line(pairing.bridge_url, http, pace)
        self._topics = TopicClient(self.line, self._heard, self.conversation.fail)
        self._cipher = SocketCipher(pairing.key)
        self._requested = requested
        self._responded = responded
        self.ids = PayloadIds()

    def open(self, *topics: str) -> None:
        """Connect, and subscribe to this side's topic and to others."""
        self.line.open(self._topics)
        for topic in (self.client_id, *topics):
            self._topics.subscribe(topic)

    async def request(
        self, topic: str, method: str, params: Any, request_id: int | None = None, *, repeatable: bool = True
    ) -> int:
        """Publish a JSON-RPC request; returns its id. Raises TypeError if `params` is not JSON."""
        request_id = request_id or self.ids.next()
        self.conversation.ask(str(request_id))
        content = write_request(request_id, method, params)
        await self._topics.publish(
            topic, self._sealed(content), silent=is_silent(method), repeatable=repeatable
        )
        return request_id

    async def respond(self, content: dict[str, Any]) -> None:
        """Publish a JSON-RPC response to the other side."""
        await self._topics.publish(self._peer(), self._sealed(content), silent=True)

    async def update(self, status: dict[str, Any]) -> None:
        """Publish an update of the session."""
        await self.request(self._peer(), "wc_sessionUpdate", [status])

    async def end(self) -> None:
        """End the session, and tell the other side if there is one."""
        if self.peer_id is not None and self.conversation.failure is None:
            await self.update(ENDED)
        self.conversation.fail(SessionEndedError("This side ended the session."))

    def _peer(self) -> str:
        self.conversation.require_open()
        if self.peer_id is None:
            raise SessionEndedError("There is no session yet: the dapp has not asked for one.")
        return self.peer_id

    def _sealed(self, content: dict[str, Any]) -> str:
        return orjson.dumps(self._cipher.seal(content)).decode()

    def _heard(self, payload: str) -> None:
        """Handle a message. A message that cannot be read is logged and ignored."""
        try:
            content = self._cipher.open(payload)
            if not isinstance(content, dict):
                raise BadPayloadError("The message is no JSON object.")
            (self._requested if "method" in content else self._responded)(content)
        except BadPayloadError as error:
            _log.warning("a message cannot be read: %s", error)
