"""What stands between a route and its handler: authenticate, then charge, then receive the body."""

import asyncio

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError, TooLargeError, TooSlowError
from bridge_server.web.bearer import require_bearer
from bridge_server.web.quotas import AddressQuotas
from bridge_server.web.routes import Handler, Route

_BODY_TIMEOUT_SECONDS = 20.0


def endpoint(row: Route, quotas: AddressQuotas) -> Handler:
    """The row's handler behind the row's access rules."""
    limits, bearer, body_limit_bytes, handler = row.limits, row.bearer, row.body_limit_bytes, row.handler

    async def answer(request: web.Request) -> web.StreamResponse:
        if bearer is not None:
            require_bearer(request, bearer)
        if limits:
            quotas.charge(request, limits)
        if body_limit_bytes:
            await _receive_body(request, body_limit_bytes)
        return await handler(request)

    return answer


async def _receive_body(request: web.Request, limit_bytes: int) -> None:
    """Read the whole body, which aiohttp keeps; refuse one that is too large or does not arrive."""
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
