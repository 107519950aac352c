"""Failures as problems (RFC 9457): behind this layer a handler always answers, or its client has left."""

import asyncio

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.kernel.errors import BridgeError, LimitError
from bridge_server.web.charges import QuotaError, declare
from bridge_server.web.observing import REFUSED_BY
from bridge_server.web.problems import code_of_http, problem_of_bug, problem_of_error, problem_of_http
from bridge_server.web.request_id import REQUEST_ID
from bridge_server.web.request_lines import note_failure, note_refusal


def errors(route: str) -> Middleware:
    """Answer every error of the route with a problem; only a client's departure is raised again."""

    @web.middleware
    async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Exception as error:
            return answer_to(error, request, route)

    return errors


def answer_to(error: Exception, request: web.Request, route: str) -> web.StreamResponse:
    """The problem that answers an error. Raises CancelledError when the client has left."""
    request_id = request[REQUEST_ID]
    if isinstance(error, BridgeError):
        response = problem_of_error(error, request)
        if isinstance(error, QuotaError):
            declare(error.charges, response.headers)
        if isinstance(error, LimitError):
            request[REFUSED_BY] = error.code if not isinstance(error, QuotaError) else error.limit_name
        note_refusal(request, route, response.status, error, request_id)
        return response
    if isinstance(error, web.HTTPException):
        note_refusal(request, route, error.status, code_of_http(error), request_id)
        return problem_of_http(error, request)
    if isinstance(error, ConnectionError):  # the client left while its request was read
        raise asyncio.CancelledError from error
    note_failure(request, error, request_id)
    return problem_of_bug(request)
