"""Bodies that are mostly stored as they are. However many values they have, no other request is delayed."""

import asyncio

from aiohttp import web

from bridge_server.web.json_body import MAX_VALUES, JsonObject, parse_object, require_json


class OpaqueBodies:
    """Reads opaque bodies; large ones one after the other, beside the event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def json_object(self, request: web.Request) -> JsonObject:
        """The body of a request as a JSON object. Raises UnsupportedMediaError, InvalidInputError."""
        require_json(request)
        body = await request.read()
        if not _is_long_work(body):
            return parse_object(body, is_opaque=True)
        async with self._turn:
            return await asyncio.to_thread(parse_object, body, is_opaque=True)


def _is_long_work(body: bytes) -> bool:
    """Whether the body may have so many values that checking them would delay other requests."""
    return len(body) > MAX_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES
