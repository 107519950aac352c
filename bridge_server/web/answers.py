"""Responses with ready-made headers."""

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

_JSON = CIMultiDictProxy(CIMultiDict({"Content-Type": "application/json"}))


def json_answer(body: bytes, status: int = 200) -> web.Response:
    """A JSON response of bytes that are encoded already."""
    return web.Response(body=body, status=status, headers=_JSON)


def no_content() -> web.Response:
    """204: there is nothing yet, or nothing to say."""
    return web.Response(status=204)


def text_answer(text: str) -> web.Response:
    """A plain text response."""
    return web.Response(text=text)
