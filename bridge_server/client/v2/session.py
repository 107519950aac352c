"""The parts of a session of generation 2.x that dapp and wallet share."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp

from bridge_server.client.session.contents import write_request
from bridge_server.client.session.conversation import Conversation
from bridge_server.client.session.errors import BadPayloadError, SessionEndedError
from bridge_server.client.session.line import Line
from bridge_server.client.session.pace import Pace
from bridge_server.client.session.payload_ids import PayloadIds
from bridge_server.client.v2.envelope import TopicKey
from bridge_server.client.v2.methods import REQUESTS, RESPONSES, SESSION_SECONDS
from bridge_server.client.v2.relay_client import RelayClient

UNAUTHORIZED_METHOD = 3001

_USER_DISCONNECTED = {"code": 6000, "message": "User disconnected."}

_log = logging.getLogger(__name__)


class RelaySession:
    """JSON-RPC on the session's topic; `requested` handles the requests that only one side makes."""

    def __init__(
        self,
        relay_url: str,
        project_id: str | None,
        http: aiohttp.ClientSession | None,
        pace: Pace,
        requested: Callable[[dict[str, Any]], None],
    ) -> None:
        self.conversation = Conversation()
        self.line = Line(relay_url, http, pace)
        self.relay = RelayClient(self.line, project_id, self.conversation.fail)
        self.ids = PayloadIds()
        self.key: TopicKey | None = None
        self.expires_s: int | None = None
        self._requested = requested
        self._tasks: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """Wait a moment for publications in the background, and close the connection."""
        if self._tasks and self.line.is_open:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.line.close()

    async def request(self, method: str, params: Any) -> str:
        """Publish a request on the session's topic; returns its id. Raises TypeError, SessionEndedError."""
        request_id = self.ids.next()
        self.conversation.ask(str(request_id))
        await self.relay.publish(self.open_key(), write_request(request_id, method, params), REQUESTS[method])
        return str(request_id)

    async def respond(self, request_id: Any, result: Any, method: str = "wc_sessionRequest") -> None:
        """Publish the result of a request."""
        content = {"id": request_id, "jsonrpc": "2.0", "result": result}
        await self.relay.publish(self.open_key(), content, RESPONSES[method])

    async def respond_error(
        self, request_id: Any, code: int, message: str, method: str = "wc_sessionRequest"
    ) -> None:
        """Publish the error of a request."""
        await self.relay.publish(self.open_key(), failed(request_id, code, message), RESPONSES[method])

    async def ping(self, timeout: float | None) -> None:
        """Wait for the other side's answer to a ping."""
        async with self.line.within(timeout, "The other side did not answer the ping"):
            await self.conversation.result_of(await self.request("wc_sessionPing", {}))

    async def end(self) -> None:
        """End the session, tell the other side, and unsubscribe from the topic."""
        if self.conversation.failure is None and self.key is not None:
            await self.request("wc_sessionDelete", _USER_DISCONNECTED)
            await self.relay.unsubscribe(self.key)
        self.conversation.fail(SessionEndedError("This side ended the session."))

    def extend(self) -> int:
        """Renew the session's lifetime; returns its expiry in seconds since the epoch."""
        self.expires_s = int(time.time()) + SESSION_SECONDS
        return self.expires_s

    def heard(self, content: dict[str, Any]) -> None:
        """Handle a message of the session's topic. Raises BadPayloadError."""
        request_id = content.get("id")
        match content.get("method"):
            case None:
                self.conversation.answered(str(request_id), content)
            case "wc_sessionPing":
                self.confirm(request_id, "wc_sessionPing")
            case "wc_sessionExtend":
                self.extend()
                self.confirm(request_id, "wc_sessionExtend")
            case "wc_sessionDelete":
                self._deleted()
            case _:
                self._requested(content)

    def confirm(self, request_id: Any, method: str) -> None:
        """Answer a request with `true`, in the background."""
        self.in_background(self.respond(request_id, True, method))

    def in_background(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a publication as a task. An error is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.warning("a message could not be published: %s", error)

    def open_key(self) -> TopicKey:
        """The key of the open session. Raises the error that ended it."""
        self.conversation.require_open()
        if self.key is None:
            raise SessionEndedError("There is no session yet: the wallet has approved none.")
        if self.expires_s is not None and self.expires_s < time.time():
            raise SessionEndedError("The session has expired. Pair again.")
        return self.key

    def _deleted(self) -> None:
        self.conversation.fail(SessionEndedError("The other side ended the session."))
        if self.key is not None:
            self.in_background(self.relay.unsubscribe(self.key))


def failed(request_id: Any, code: int, message: str) -> dict[str, Any]:
    """A JSON-RPC error response."""
    return {"id": request_id, "jsonrpc": "2.0", "error": {"code": code, "message": message}}


def parameters(content: dict[str, Any]) -> dict[str, Any]:
    """The object in a request's `params`. Raises BadPayloadError."""
    found = content.get("params")
    if not isinstance(found, dict):
        raise BadPayloadError(f"The parameters of {content.get('method')} must be an object.")
    return found


def introduction(name: str, url: str) -> dict[str, Any]:
    """The metadata of one side."""
    return {"name": name, "description": "", "url": url, "icons": []}
