"""Handlers of the notification service: read the request, call the service once, write the answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from bridge_server.notify import wire
from bridge_server.notify.service import Notifications
from bridge_server.projects.models import Publisher
from bridge_server.projects.projects import Projects
from bridge_server.web.answers import json_answer
from bridge_server.web.dry_run import wanted_dry_run
from bridge_server.web.json_body import json_object
from bridge_server.web.streamed_answer import StreamedAnswer

_PUBLISHER = web.RequestKey("publisher", Publisher)


class NotifyHandlers:
    """One method per endpoint (docs/protocol.md, A)."""

    def __init__(self, notifications: Notifications, projects: Projects) -> None:
        self._notifications = notifications
        self._projects = projects

    async def identify(self, request: web.Request, secret: str) -> str | None:
        """Authenticate a project by its secret; returns the key of its token buckets, None if it is wrong."""
        publisher = await self._projects.authenticate(request.match_info["project_id"], secret)
        if publisher is None:
            return None
        request[_PUBLISHER] = publisher
        return f"project:{publisher.project.number}"

    async def notify(self, request: web.Request) -> web.StreamResponse:
        wanted = wire.read_notify_request(await json_object(request, is_labelled=False))
        is_dry_run = wanted_dry_run(request)
        failures = await self._notifications.notify(request[_PUBLISHER], wanted, is_dry_run)
        return json_answer(wire.write_outcome(wanted.keys, failures))

    async def lookup(self, request: web.Request) -> web.StreamResponse:
        document = await json_object(request, is_labelled=False)
        keys = wire.read_lookup(document)
        found = await self._notifications.lookup(request[_PUBLISHER].project, keys)
        wire.check_spellings(document, found.spelled_otherwise)
        return json_answer(b"{%b}" % found.members)

    async def listing(self, request: web.Request) -> web.StreamResponse:
        return StreamedAnswer(_array(self._notifications.listing(request[_PUBLISHER].project)))

    async def mark_all_as_read(self, request: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_marked(await self._notifications.mark_all_as_read(request[_PUBLISHER])))


async def _array(pages: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Join pages into one JSON array. A page holds JSON strings without the outer quotation marks."""
    opening = b'["'
    async with aclosing(pages):
        async for page in pages:
            yield opening + page
            opening = b'","'
    yield b"[]" if opening == b'["' else b'"]'
