"""Errors as `application/problem+json` (RFC 9457): the one table from kinds of failure to HTTP statuses; and
the id of a request, which is in its answer, in every problem and in every line of the log.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from itertools import count
from typing import Any, NoReturn

import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDictProxy

from bridge_server.kernel import errors
from bridge_server.web.answers import REQUEST_ID_HEADER, ready_made
from bridge_server.web.connection import HAS_PAGES, TYPE_PREFIX, help_link
from bridge_server.web.routes import Handler

REQUEST_ID = web.RequestKey("request_id", str)

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)

_MOST_CODES = 256

STATUS_OF_KIND: dict[type[errors.BridgeError], int] = {
    errors.InvalidInputError: 400,
    errors.NotAuthenticatedError: 401,
    errors.ForbiddenError: 403,
    errors.NotFoundError: 404,
    errors.TooSlowError: 408,
    errors.ConflictError: 409,
    errors.GoneError: 410,
    errors.TooLargeError: 413,
    errors.UnsupportedMediaError: 415,
    errors.LimitError: 429,
    errors.UpstreamError: 502,
    errors.UnavailableError: 503,
}

REFUSALS = {
    400: ("bad-request", "The request cannot be read"),
    414: ("target-too-long", "The request's target is too long"),
    431: ("header-field-too-long", "A header field is too long"),
}
"""Code and title of a request that cannot be read, by status."""

BUG = ("server-error", "Internal server error")
"""Code and title of a fault of the server itself."""
ORDERED_FAULT = "ordered-fault"
"""The code of an answer that a test has ordered (`serve --test`)."""

_DETAIL_OF_STATUS = {
    404: "There is no such route.",
    405: "The route exists, but not for this method: see the Allow header.",
    500: "The server failed. The request id finds the reason in its log.",
}

_STATUSES = frozenset(HTTPStatus)


class RequestIds:
    """Takes over a client's sane request id, or makes one: a random prefix of this run, and a counter."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._prefix = random_bytes(5).hex()
        self._counter = count(1)

    def name(self, request: web.BaseRequest) -> str:
        """The id of this request."""
        sent = request.headers.get(REQUEST_ID_HEADER)
        if sent is not None and _SANE_ID.fullmatch(sent):
            return sent
        return f"{self._prefix}-{next(self._counter):x}"


def status_of(error: errors.BridgeError) -> int:
    """The HTTP status of a failure, by the nearest kind that the table knows."""
    return status_of_kind(type(error))


def status_of_kind(failure: type[errors.BridgeError]) -> int:
    """The HTTP status of all failures of a class."""
    return next(STATUS_OF_KIND[kind] for kind in failure.__mro__ if kind in STATUS_OF_KIND)


def problem_of_error(error: errors.BridgeError, request: web.Request) -> web.Response:
    """The answer to a failure that the caller can understand."""
    extras: dict[str, Any] = {}
    if isinstance(error, errors.InvalidInputError) and error.faults:
        extras["errors"] = [{"pointer": fault.pointer, "detail": fault.detail} for fault in error.faults]
    response = _problem(error.code, error.title, status_of(error), error.detail, request, **extras)
    if isinstance(error, errors.LimitError | errors.UnavailableError):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, errors.NotAuthenticatedError):
        response.headers["WWW-Authenticate"] = "Bearer"
    if request.headers.get(hdrs.SEC_WEBSOCKET_VERSION, "13") != "13":
        response.headers[hdrs.SEC_WEBSOCKET_VERSION] = "13"  # the one that is supported (RFC 6455, 4.4)
    return response


def problem_of_http(error: web.HTTPException, request: web.Request) -> web.Response:
    """The answer to an error that aiohttp raised: an unknown route, a wrong method, a bad header."""
    detail = _DETAIL_OF_STATUS.get(error.status, f"{error.reason}.")
    if error.status == HTTPStatus.NOT_FOUND and request.app.get(HAS_PAGES, False):
        detail += " GET /info names this server."
    response = _problem(code_of_http(error), error.reason, error.status, detail, request)
    if isinstance(error, web.HTTPMethodNotAllowed):
        response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
    return response


def code_of_http(error: web.HTTPException) -> str:
    """The code of an error that aiohttp raised."""
    return error.reason.lower().replace(" ", "-")


def code_of_refusal(status: int) -> str:
    """The code of a request that cannot be read."""
    return REFUSALS.get(status, BUG)[0]


def problem_of_refusal(status: int, detail: str, request_id: str, has_help: bool) -> web.Response:
    """The answer to a request that cannot be read, in an application that has a page about it, or has not."""
    code, title = REFUSALS.get(status, BUG)
    return _written(code, title, status, detail, request_id, has_help)


def problem_of_ordered_fault(
    status: int, retry_after_seconds: int | None, request: web.Request
) -> web.Response:
    """The answer that a test has ordered (`serve --test`)."""
    title = HTTPStatus(status).phrase if status in _STATUSES else "An ordered fault"
    response = _problem(ORDERED_FAULT, title, status, "The test has ordered this answer.", request)
    if retry_after_seconds is not None:
        response.headers["Retry-After"] = str(retry_after_seconds)
    return response


def problem_of_bug(request: web.Request) -> web.Response:
    """The answer when the server itself is at fault, without details."""
    return _problem(*BUG, 500, _DETAIL_OF_STATUS[500], request)


def _problem(
    code: str, title: str, status: int, detail: str, request: web.Request, **extras: Any
) -> web.Response:
    has_help = request.app.get(HAS_PAGES, False)
    return _written(code, title, status, detail, request[REQUEST_ID], has_help, **extras)


def _written(
    code: str, title: str, status: int, detail: str, request_id: str, has_help: bool, **extras: Any
) -> web.Response:
    body = {
        "type": f"{TYPE_PREFIX}{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request_id,
        **extras,
    }
    return web.Response(body=orjson.dumps(body), status=status, headers=_headers(code, has_help))


@lru_cache(maxsize=_MOST_CODES)
def _headers(code: str, has_help: bool) -> CIMultiDictProxy[str]:
    link = {"Link": help_link(code)} if has_help else {}
    return ready_made({"Content-Type": "application/problem+json", **link})


class AnswersElsewhereError(errors.NotFoundError, code="answers-elsewhere", title="Not at this address"):
    """The path is answered at another address of the server only."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"This address is for phones and answers for the bridge only. Everything else answers on the "
            f"server's own machine, at {url}."
        )


def elsewhere(url: str) -> Handler:
    """Answers every path that the listener does not have. `url` is the address of the others."""

    async def not_here(_: web.Request) -> NoReturn:
        raise AnswersElsewhereError(url)

    return not_here
