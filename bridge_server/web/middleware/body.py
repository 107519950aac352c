"""A request's body, received before the handler runs: whole, bounded in size and in time."""

import asyncio

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.kernel.errors import InvalidInputError, TooLargeError, TooSlowError

_BODY_TIMEOUT_SECONDS = 20.0


def body(limit_bytes: int) -> Middleware | None:
    """Receive a body of at most `limit_bytes`; None for a route that reads none."""
    if not limit_bytes:
        return None

    @web.middleware
    async def body(request: web.Request, handler: Handler) -> web.StreamResponse:
        await _receive(request, limit_bytes)
        return await handler(request)

    return body


async def _receive(request: web.Request, limit_bytes: int) -> None:
    """Read the whole body, which aiohttp keeps for `request.read()`.

    Raises TooLargeError, TooSlowError for a body that does not arrive whole in time, and InvalidInputError
    for a broken encoding.
    """
    length = request.content_length
    if length is not None and length > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        if request.content.is_eof():
            received = await request.read()
        else:
            async with asyncio.timeout(_BODY_TIMEOUT_SECONDS):
                received = await request.read()
    except TimeoutError as error:
        raise TooSlowError(f"The body did not arrive within {_BODY_TIMEOUT_SECONDS:.0f} s.") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limit_bytes) from error
    except web.RequestPayloadError as error:
        raise InvalidInputError("The body's transfer or content encoding is broken.") from error
    if len(received) > limit_bytes:
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> TooLargeError:
    return TooLargeError(f"This route accepts at most {limit_bytes} bytes.")
