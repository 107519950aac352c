"""What is around every handler: the request's id, the route's access rules, errors as problems, the log.

A wrapper per route and no aiohttp middleware: those cost every request more than the rest of this does.
"""

import asyncio
import logging
from dataclasses import dataclass
from time import perf_counter

import structlog
from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.web.bearer import require_bearer
from bridge_server.web.body import receive_body
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.cors import open_to_any_origin
from bridge_server.web.problems import problem_of_bug, problem_of_error, problem_of_http
from bridge_server.web.quotas import AddressLimitError, AddressQuotas, declare
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.request_id import HEADER, RequestIds
from bridge_server.web.routes import Handler, Route

_CLIENT_LEFT = 499

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Reporting:
    """What is written to the log: errors always, slow requests from so many seconds, others if wanted."""

    slow_seconds: float
    longest_wait_seconds: float
    every_request: bool


class Gateway:
    """Every request enters and leaves here."""

    def __init__(
        self,
        request_ids: RequestIds,
        addresses: ClientAddresses,
        quotas: AddressQuotas,
        figures: RequestFigures,
        reporting: Reporting,
    ) -> None:
        self._request_ids = request_ids
        self._addresses = addresses
        self._quotas = quotas
        self._figures = figures
        self._reporting = reporting

    def around(self, row: Route) -> Handler:
        """The row's handler behind the row's rules: authenticate, then charge, then receive the body.

        It always answers; only a client's departure is raised.
        """
        handler, bearer, limits, body_limit_bytes = row.handler, row.bearer, row.limits, row.body_limit_bytes
        any_origin, patience = row.any_origin, self._patience(row)
        name, charge = self._request_ids.name, self._quotas.charge
        count = self._figures.of_route(row.name).count

        async def pass_through(request: web.Request) -> web.StreamResponse:
            started = perf_counter()
            request_id = name(request)
            charges = None
            try:
                if bearer is not None:
                    require_bearer(request, bearer)
                if limits:
                    charges = charge(request, limits)
                if body_limit_bytes:
                    await receive_body(request, body_limit_bytes)
                response = await handler(request)
            except asyncio.CancelledError:
                count(_CLIENT_LEFT, perf_counter() - started)
                raise
            except Exception as error:
                response = _answer_to(error, request, request_id)
            headers = response.headers
            headers[HEADER] = request_id
            if charges:
                declare(charges, headers)
            if any_origin and "Origin" in request.headers:
                open_to_any_origin(headers)
            seconds = perf_counter() - started
            count(response.status, seconds)
            if seconds > patience or response.status >= 500:
                self._write_line(request, row, response.status, seconds, request_id)
            return response

        return pass_through

    def _patience(self, row: Route) -> float:
        if self._reporting.every_request:
            return 0.0
        return self._reporting.slow_seconds + (self._reporting.longest_wait_seconds if row.waits else 0.0)

    def _write_line(
        self, request: web.Request, row: Route, status: int, seconds: float, request_id: str
    ) -> None:
        log.log(
            logging.ERROR if status >= 500 else logging.INFO,
            "request",
            method=request.method,
            route=row.name,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            client=self._addresses.client(request),
            request_id=request_id,
        )


def _answer_to(error: Exception, request: web.Request, request_id: str) -> web.StreamResponse:
    if isinstance(error, BridgeError):
        response = problem_of_error(error, request_id)
        if isinstance(error, AddressLimitError):
            declare(error.charges, response.headers)
        return response
    if isinstance(error, web.HTTPException):
        return problem_of_http(error, request_id)
    if isinstance(error, ConnectionError):  # the client left while it was read from
        raise asyncio.CancelledError from error
    log.error("request_failed", exc_info=error, method=request.method, request_id=request_id)
    return problem_of_bug(request_id)
