"""Rate limits of a route: token buckets per client address, or per authenticated caller."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.charges import NOTHING_CHARGED, Charged, declare
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.dry_run import asks_for_dry_run
from bridge_server.web.event_stream import EventStream
from bridge_server.web.middleware.bearer import CALLER_KEY
from bridge_server.web.middleware.errors import answer_to
from bridge_server.web.routes import Route
from bridge_server.web.socket import Socket
from bridge_server.web.token_buckets import TokenBuckets


def rate_limits(
    row: Route, addresses: ClientAddresses, quotas: TokenBuckets, save: Callable[[], Awaitable[None]]
) -> Middleware | None:
    """Charge each request, and declare the remaining tokens on its answer; None for a route without limits.

    Errors of a charged request are answered here, since their answers declare the remaining tokens, too.
    """
    if not row.limits and not row.caller_limits:
        return None
    charge, is_kept, route = _charging(row, addresses, quotas), quotas.is_kept, row.name

    @web.middleware
    async def rate_limits(request: web.Request, handler: Handler) -> web.StreamResponse:
        charged = charge(request)
        if charged.later is not None:
            charged = await charged.later
        try:
            response = await handler(request)
        except Exception as error:
            response = answer_to(error, request, route)
        if not is_kept(charged):
            await _keep(save, response)
        declare(charged.charges, response.headers)
        return response

    return rate_limits


def _charging(
    row: Route, addresses: ClientAddresses, quotas: TokenBuckets
) -> Callable[[web.Request], Charged]:
    """Charges a request to its address's buckets or to its caller's, whichever the row limits."""
    limits, caller_limits, dry_run_limits = row.limits, row.caller_limits, row.dry_run_limits
    charge, standing, bucket_key = quotas.charge, quotas.standings, addresses.bucket_key

    def charge_address(request: web.Request) -> Charged:
        address = bucket_key(request)
        if address is None:
            return NOTHING_CHARGED
        charged = charge(address, limits)
        return Charged(charged.charges, later=charged.later)

    def charge_caller(request: web.Request) -> Charged:
        caller = request[CALLER_KEY]
        if request.method == hdrs.METH_HEAD:  # nothing is looked up, and nothing charged
            return standing(caller, caller_limits)
        if dry_run_limits and asks_for_dry_run(request):
            return charge(caller, dry_run_limits)
        return charge(caller, caller_limits)

    assert not (limits and caller_limits), f"{row.name} has limits of both kinds"
    assert row.identify or not caller_limits, f"{row.name} limits callers that it does not identify"
    return charge_caller if caller_limits else charge_address


async def _keep(save: Callable[[], Awaitable[None]], response: web.StreamResponse) -> None:
    """Wait until the charges are on disk: a restart must not give them back. The answer stands."""
    try:
        with suppress(UnavailableError):
            await save()
    except BaseException:  # the client has left
        if isinstance(response, Socket | EventStream):
            response.abandon()
        raise
