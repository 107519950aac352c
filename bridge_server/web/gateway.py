"""What is around every handler: the request's id, the route's access rules, errors as problems, the log.

A wrapper per route and no aiohttp middleware: those cost every request more than the rest of this does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

import structlog
from aiohttp import hdrs, web

from bridge_server.kernel.errors import BridgeError, InvalidInputError, UnavailableError
from bridge_server.web.bearer import require_bearer, require_caller
from bridge_server.web.body import receive_body
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.cors import sharing
from bridge_server.web.event_stream import EventStream
from bridge_server.web.problems import (
    code_of_http,
    code_of_refusal,
    problem_of_bug,
    problem_of_error,
    problem_of_http,
    problem_of_refusal,
)
from bridge_server.web.quotas import NOTHING_CHARGED, Charged, QuotaError, Quotas, declare
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.request_id import HEADER, REQUEST_ID, RequestIds
from bridge_server.web.routes import Handler, Route
from bridge_server.web.socket import Socket

_SWITCHING_PROTOCOLS = 101
_CLIENT_LEFT = 499
_SERVER_ERROR = 500
_REFUSED = "refused"

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
        quotas: Quotas,
        save_quotas: Callable[[], Awaitable[None]],
        figures: RequestFigures,
        reporting: Reporting,
    ) -> None:
        self._request_ids = request_ids
        self._addresses = addresses
        self._quotas = quotas
        self._save_quotas = save_quotas
        self._figures = figures
        self._reporting = reporting

    def around(self, row: Route) -> Handler:
        """The row's handler behind the row's rules: authenticate, then charge, then receive the body.

        It always answers; only a client's departure is raised.
        """
        admit, charge = _admission(row), self._charging(row)
        handler, body_limit_bytes = row.handler, row.body_limit_bytes
        share, patience = sharing(row.any_origin, row.origins), self._patience(row)
        name, count = self._request_ids.name, self._figures.of_route(row.name).count

        async def pass_through(request: web.Request) -> web.StreamResponse:
            started = perf_counter()
            request_id = name(request)
            caller: str | None = None
            charged = NOTHING_CHARGED
            try:
                if admit is not None:
                    request[REQUEST_ID] = request_id
                    caller = await admit(request)
                if charge is not None:
                    charged = charge(request, caller)
                if body_limit_bytes:
                    await receive_body(request, body_limit_bytes)
                response = await handler(request)
            except asyncio.CancelledError:
                count(_CLIENT_LEFT, perf_counter() - started)
                raise
            except Exception as error:
                response = _answer_to(error, request, row.name, request_id)
            if not self._quotas.is_kept(charged):
                await self._keep_charges(response)
            headers = response.headers
            headers[HEADER] = request_id
            declare(charged.charges, headers)
            share(request, headers)
            if response.status == _SWITCHING_PROTOCOLS:
                await _switch(request, response)
            seconds = perf_counter() - started
            count(response.status, seconds)
            if seconds > patience or response.status >= 500:
                self._write_line(request, row, response.status, seconds, request_id)
            return response

        return pass_through

    def refuse(self, request: web.BaseRequest, status: int, detail: str) -> web.Response:
        """The answer to what is no request that a route could be looked for."""
        request_id = self._request_ids.name(request)
        response = problem_of_refusal(status, detail, request_id)
        response.headers[HEADER] = request_id
        self._figures.of_route(_REFUSED).count(status, 0.0)
        _note_refusal(request, _REFUSED, status, code_of_refusal(status), request_id)
        return response

    async def _keep_charges(self, response: web.StreamResponse) -> None:
        """Wait until what was charged is on disk: a restart must not give it back. The answer stands."""
        try:
            with suppress(UnavailableError):
                await self._save_quotas()
        except BaseException:  # the client has left
            if isinstance(response, Socket | EventStream):
                response.abandon()
            raise

    def _charging(self, row: Route) -> Callable[[web.Request, str | None], Charged] | None:
        """Charges a request to its address's buckets or to its caller's, whichever the row limits."""
        limits, caller_limits = row.limits, row.caller_limits
        charge, standing = self._quotas.charge, self._quotas.standing
        bucket_key = self._addresses.bucket_key

        def charge_address(request: web.Request, _: str | None) -> Charged:
            address = bucket_key(request)
            return NOTHING_CHARGED if address is None else Charged(charge(address, limits).charges)

        def charge_caller(request: web.Request, caller: str | None) -> Charged:
            if caller is None:
                return NOTHING_CHARGED
            if request.method == hdrs.METH_HEAD:  # it is told where it stands, and nothing is looked up
                return Charged(standing(caller, caller_limits))
            return charge(caller, caller_limits)

        assert not (limits and caller_limits), f"{row.name} has limits of both kinds"
        if caller_limits:
            return charge_caller
        return charge_address if limits else None

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


def _admission(row: Route) -> Callable[[web.Request], Awaitable[str | None]] | None:
    """Lets in who may call the row's endpoint, and says who it is as far as the row asks for that."""
    guard, bearer, identify = row.guard, row.bearer, row.identify

    async def admit(request: web.Request) -> str | None:
        if guard is not None:
            guard(request)
        if bearer is not None:
            require_bearer(request, bearer)
        return None if identify is None else await require_caller(request, identify)

    return admit if guard or bearer or identify else None


async def _switch(request: web.Request, response: web.StreamResponse) -> None:
    """Leave HTTP while the handler runs: afterwards aiohttp goes on as if the upgrade was declined."""
    try:
        await response.prepare(request)
    except ConnectionError as error:
        raise asyncio.CancelledError from error


def _answer_to(error: Exception, request: web.Request, route: str, request_id: str) -> web.StreamResponse:
    if isinstance(error, BridgeError):
        response = problem_of_error(error, request_id)
        if isinstance(error, QuotaError):
            declare(error.charges, response.headers)
        _note_refusal(request, route, response.status, error, request_id)
        return response
    if isinstance(error, web.HTTPException):
        _note_refusal(request, route, error.status, code_of_http(error), request_id)
        return problem_of_http(error, request_id)
    if isinstance(error, ConnectionError):  # the client left while it was read from
        raise asyncio.CancelledError from error
    log.error("request_failed", exc_info=error, method=request.method, request_id=request_id)
    return problem_of_bug(request_id)


def _note_refusal(
    request: web.BaseRequest, route: str, status: int, why: BridgeError | str, request_id: str
) -> None:
    """One line of the log about a request that was refused, for those who look for it."""
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
