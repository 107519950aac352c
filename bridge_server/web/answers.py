"""Responses with ready-made headers: copying them is cheaper than setting them one by one."""

from collections.abc import Mapping

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from bridge_server.version import NAME
from bridge_server.web.whole_answer import WholeAnswer


def ready_made(headers: Mapping[str, str]) -> CIMultiDictProxy[str]:
    """Headers to hand to `web.Response`, with the server's name among them."""
    return CIMultiDictProxy(CIMultiDict({"Server": NAME.replace(" ", "-"), **headers}))


_JSON = ready_made({"Content-Type": "application/json"})
_NOTHING = ready_made({})
_TEXT = ready_made({"Content-Type": "text/plain; charset=utf-8"})


def json_answer(body: bytes) -> web.Response:
    """200 with JSON that is encoded already."""
    return WholeAnswer(body=body, headers=_JSON)


def text_answer(text: str) -> web.Response:
    """200 with plain text."""
    return WholeAnswer(body=text.encode(), headers=_TEXT)


def no_content() -> web.Response:
    """204: there is nothing to say."""
    return WholeAnswer(status=204, headers=_NOTHING)
