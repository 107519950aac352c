"""Receiving a request's body: whole, bounded in size and in time."""

import asyncio

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError, TooLargeError, TooSlowError

_BODY_TIMEOUT_SECONDS = 20.0


async def receive_body(request: web.Request, limit_bytes: int) -> None:
    """Read the whole body, which aiohttp keeps for `request.read()`.

    Raises TooLargeError, InvalidInputError for a broken encoding, and TooSlowError for a body that does
    not arrive whole, as one whose encoding breaks off midway.
    """
    length = request.content_length
    if length is not None and length > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        if request.content.is_eof():
            body = await request.read()
        else:
            async with asyncio.timeout(_BODY_TIMEOUT_SECONDS):
                body = await request.read()
    except TimeoutError as error:
        raise TooSlowError(f"The body did not arrive within {_BODY_TIMEOUT_SECONDS:.0f} s.") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(limit_bytes) from error
    except web.RequestPayloadError as error:
        raise InvalidInputError("The body's transfer or content encoding is broken.") from error
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> TooLargeError:
    return TooLargeError(f"This route accepts at most {limit_bytes} bytes.")
