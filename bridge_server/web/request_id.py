"""The name of a request, in its answer, in every problem and in every line of the log."""

import re
from collections.abc import Callable
from itertools import count

from aiohttp import web
from multidict import istr

HEADER = istr("X-Request-ID")
REQUEST_ID = web.RequestKey("request_id", str)

_SANE = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)


class RequestIds:
    """Takes over the id that a client sent if it is sane, and makes one otherwise.

    Made ids are a random prefix, so that two runs of the server differ, and a counter.
    """

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._prefix = random_bytes(5).hex()
        self._counter = count(1)

    def name(self, request: web.BaseRequest) -> str:
        """The id of this request."""
        sent = request.headers.get(HEADER)
        if sent is not None and _SANE.fullmatch(sent):
            return sent
        return f"{self._prefix}-{next(self._counter):x}"
