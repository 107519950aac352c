"""The lines about requests in the log: failures always, slow requests, refusals at level DEBUG."""

import logging
from dataclasses import dataclass

import structlog
from aiohttp import web

from bridge_server.kernel.errors import BridgeError, InvalidInputError
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.observing import REFUSED_BY
from bridge_server.web.refusal_report import Refusals
from bridge_server.web.request_id import REQUEST_ID
from bridge_server.web.routes import Route

_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500

log = structlog.get_logger()


@dataclass(slots=True)
class Reporting:
    """Rules for request lines: always for failed and slow requests, on demand for others."""

    slow_seconds: float
    longest_wait_seconds: float
    """The longest long poll. It may be changed at any time."""
    every_request: bool

    def patience(self, row: Route) -> float:
        """The seconds from which a request counts as slow."""
        if self.every_request:
            return 0.0
        return self.slow_seconds + (self.longest_wait_seconds if row.waits else 0.0)


class RequestLines:
    """Writes the lines of answered requests, and counts requests over a rate limit."""

    def __init__(self, reporting: Reporting, addresses: ClientAddresses, refusals: Refusals) -> None:
        self._reporting = reporting
        self._addresses = addresses
        self._refusals = refusals

    @property
    def noteworthy_seconds(self) -> float:
        """No quicker request has a line for the time that it took."""
        return 0.0 if self._reporting.every_request else self._reporting.slow_seconds

    def note(self, request: web.Request, row: Route, status: int, seconds: float) -> None:
        """Write a line if the request failed, or took longer than its route is given."""
        if status == _TOO_MANY_REQUESTS:
            address = self._addresses.bucket_key(request) or self._addresses.client(request)
            self._refusals.count(address, request.get(REFUSED_BY, row.name))
        if status >= _SERVER_ERROR or seconds > self._reporting.patience(row):
            self._write(request, row, status, seconds)

    def _write(self, request: web.Request, row: Route, status: int, seconds: float) -> None:
        log.log(
            logging.ERROR if status >= _SERVER_ERROR else logging.INFO,
            "request",
            method=request.method,
            route=row.name,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            client=self._addresses.client(request),
            request_id=request[REQUEST_ID],
        )


def note_failure(request: web.Request, error: Exception, request_id: str) -> None:
    """One line with the traceback of an unexpected error."""
    log.error("request_failed", exc_info=error, method=request.method, request_id=request_id)


def note_refusal(
    request: web.BaseRequest, route: str, status: int, why: BridgeError | str, request_id: str
) -> None:
    """One line at level DEBUG about a request that was refused: its code, and the faults of its body."""
    if status >= _SERVER_ERROR or not logging.getLogger().isEnabledFor(logging.DEBUG):
        return
    faults = why.faults if isinstance(why, InvalidInputError) else ()
    log.debug(
        "request_refused",
        method=request.method,
        route=route,
        status=status,
        code=why.code if isinstance(why, BridgeError) else why,
        pointers=[fault.pointer for fault in faults],
        request_id=request_id,
    )
