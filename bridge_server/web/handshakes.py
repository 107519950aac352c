"""Requests that ask for a WebSocket (RFC 6455, 4.1)."""

from aiohttp import hdrs, web

from bridge_server.kernel.errors import InvalidInputError


def wants_socket(request: web.Request) -> bool:
    """Whether the request asks for a WebSocket."""
    return (
        request.method == hdrs.METH_GET
        and request.headers.get(hdrs.UPGRADE, "").strip().lower() == "websocket"
    )


def no_handshake() -> InvalidInputError:
    """The failure of a request that asks for a WebSocket in a wrong way."""
    return InvalidInputError(
        "This is no WebSocket handshake (RFC 6455): it takes no body, Connection: Upgrade, "
        "Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key of 16 bytes in Base64."
    )
