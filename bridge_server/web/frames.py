"""Frames of WebSockets as bytes (RFC 6455, section 5), and the codes with which failures close a socket."""

from struct import Struct

from aiohttp import WSCloseCode

from bridge_server.kernel.errors import (
    BridgeError,
    InvalidInputError,
    LimitError,
    TooLargeError,
    UnavailableError,
    UnsupportedMediaError,
)

CLOSE_CODE_OF_KIND: dict[type[BridgeError], WSCloseCode] = {
    UnsupportedMediaError: WSCloseCode.INVALID_TEXT,
    InvalidInputError: WSCloseCode.POLICY_VIOLATION,
    TooLargeError: WSCloseCode.MESSAGE_TOO_BIG,
    LimitError: WSCloseCode.TRY_AGAIN_LATER,
    UnavailableError: WSCloseCode.TRY_AGAIN_LATER,
}

_LONGEST_REASON_BYTES = 123
_TEXT, _PING = 0x81, 0x89
_SHORT, _MEDIUM, _LONG = Struct("!BB").pack, Struct("!BBH").pack, Struct("!BBQ").pack


def text_frame(text: bytes) -> bytes:
    """A message as the frame that any number of clients is sent."""
    length = len(text)
    if length < 126:
        return _SHORT(_TEXT, length) + text
    if length < 65_536:
        return _MEDIUM(_TEXT, 126, length) + text
    return _LONG(_TEXT, 127, length) + text


def ping_frame(payload: bytes) -> bytes:
    """A ping with at most 125 bytes, which the pong repeats."""
    return _SHORT(_PING, len(payload)) + payload


def close_code(error: BridgeError) -> WSCloseCode:
    """The code for the error's kind."""
    kinds = (kind for kind in type(error).__mro__ if kind in CLOSE_CODE_OF_KIND)
    return CLOSE_CODE_OF_KIND[next(kinds)]


def close_reason(detail: str) -> bytes:
    """The detail as the reason of a close frame, which holds at most 123 bytes."""
    return detail.encode()[:_LONGEST_REASON_BYTES].decode(errors="ignore").encode()
