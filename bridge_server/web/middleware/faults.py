"""Faults that a test has ordered for requests; composed only in test mode."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.web.problems import problem_of_ordered_fault
from bridge_server.web.routes import Route


@dataclass(frozen=True, slots=True)
class RequestFault:
    """A fault of one request: it is delayed, and then its connection is closed or a status answered.

    Without a status and a drop it is only delayed.
    """

    delay_ms: int = 0
    drop: bool = False
    status: int | None = None
    retry_after_seconds: int | None = None


Strike: TypeAlias = Callable[[str], RequestFault | None]
"""The fault that strikes the next request of the route with this name."""


def faults(row: Route, strike: Strike | None) -> Middleware | None:
    """Have ordered faults strike the route; None outside of test mode, and for routes that only
    observe."""
    if strike is None or row.only_observes:
        return None
    route = row.name

    @web.middleware
    async def faults(request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = strike(route)
        if fault is None:
            return await handler(request)
        if fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        if fault.drop:
            _drop(request)
        return await handler(request) if fault.status is None else _refusal(request, fault, fault.status)

    return faults


def _drop(request: web.Request) -> None:
    """Close the connection without an answer. Raises ConnectionResetError, as if the client had left."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError


def _refusal(request: web.Request, fault: RequestFault, status: int) -> web.Response:
    response = problem_of_ordered_fault(status, request)
    if fault.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(fault.retry_after_seconds)
    return response
