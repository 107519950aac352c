"""The lines about requests in the log: failures always, slow requests, refusals at level DEBUG."""

import asyncio
import logging
from collections import Counter

import structlog
from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, InvalidInputError, NotAuthenticatedError
from bridge_server.kernel.values import dataclass
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.problems import REQUEST_ID
from bridge_server.web.recorder import REFUSED_BY
from bridge_server.web.routes import Route

_REPORT_SECONDS = 60.0
_MOST_ADDRESSES = 1_000
_NAMED_ADDRESSES = 10

log = structlog.get_logger()

_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_FAILURE_SECONDS = 1.0
_MOST_FAILURE_LINES = 10

_WINDOW_US = 60_000_000
_MOST_LINES = 20
"""The most lines in a window. Without a limit, requests with ever new Origins would fill the log."""

_OTHER_CLIENTS = ("", "")


class Refusals:
    """Counts requests answered 429, by a limited number of addresses, and logs them once a minute."""

    def __init__(self, most_addresses: int = _MOST_ADDRESSES) -> None:
        self._most_addresses = most_addresses
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self.by_limit: Counter[str] = Counter()
        """The number of refused requests since the start, by limit. The program names the limits."""

    def count(self, address: str, limit: str) -> None:
        """Count a refusal of this address by a limit; with too many addresses, only in the total."""
        self._total += 1
        self.by_limit[limit] += 1
        if address in self._by_address or len(self._by_address) < self._most_addresses:
            self._by_address[address] += 1

    def take(self) -> tuple[int, dict[str, int]]:
        """The number of refused requests since the last time, and the addresses with the most."""
        total, addresses = self._total, dict(self._by_address.most_common(_NAMED_ADDRESSES))
        self._total = 0
        self._by_address.clear()
        return total, addresses

    async def report_forever(self) -> None:
        """Write one line a minute to the log, if there was anything, and one at the end."""
        try:
            while True:
                await asyncio.sleep(_REPORT_SECONDS)
                self._report()
        finally:
            self._report()

    def _report(self) -> None:
        total, addresses = self.take()
        if total:
            log.warning(
                "requests_refused",
                status=429,
                requests=total,
                addresses=addresses,
                other_addresses=total - sum(addresses.values()),
                within_seconds=_REPORT_SECONDS,
            )


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


class _FailureLines:
    """Lets ten lines a second be written, and then writes one with the number of the others."""

    def __init__(self) -> None:
        self._written = 0
        self._others: Counter[int] = Counter()
        self._is_open = False

    def may_write(self, status: int) -> bool:
        """Whether the request has a line of its own; otherwise it counts among the others."""
        if not self._is_open:
            self._is_open, self._written = True, 0
            asyncio.get_running_loop().call_later(_FAILURE_SECONDS, self._close)
        if self._written < _MOST_FAILURE_LINES:
            self._written += 1
            return True
        self._others[status] += 1
        return False

    def _close(self) -> None:
        others, self._others, self._is_open = self._others, Counter(), False
        for status, requests in others.items():
            log.error(
                "more_requests_failed", status=status, requests=requests, within_seconds=_FAILURE_SECONDS
            )


class RequestLines:
    """Writes the lines of answered requests, and counts requests over a rate limit."""

    def __init__(self, reporting: Reporting, addresses: ClientAddresses, refusals: Refusals) -> None:
        self._reporting = reporting
        self._addresses = addresses
        self._refusals = refusals
        self._failures = _FailureLines()

    @property
    def noteworthy_seconds(self) -> float:
        """No quicker request has a line for the time that it took."""
        return 0.0 if self._reporting.every_request else self._reporting.slow_seconds

    def note(self, request: web.Request, row: Route, status: int, seconds: float) -> None:
        """Write a line if the request failed, or took longer than its route is given."""
        if status == _TOO_MANY_REQUESTS:
            address = self._addresses.bucket_key(request) or self._addresses.client(request)
            self._refusals.count(address, request.get(REFUSED_BY, row.name))
        if status >= _SERVER_ERROR:
            if self._failures.may_write(status):
                self._write(request, row, status, seconds)
        elif seconds > self._reporting.patience(row):
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


class TurnedAway:
    """Logs requests that a guard or a token kept out: a line for each reason and client, at most once a
    minute, with the remedy and the number of such refusals since the line before. `event` names the line, and
    `token_setting` the setting with the bearer token.
    """

    def __init__(self, addresses: ClientAddresses, clock: Clock, event: str, token_setting: str) -> None:
        self._event = event
        self._not_authenticated = (
            f"The bearer token is missing or wrong: send the value of {token_setting} from the settings of "
            "this server."
        )
        self._addresses = addresses
        self._clock = clock
        self._until_us = 0
        self._logged: set[tuple[str, str]] = set()
        self._unlogged: Counter[tuple[str, str]] = Counter()
        self._unlogged_before: Counter[tuple[str, str]] = Counter()

    def note(self, request: web.Request, error: BridgeError) -> None:
        """Note a request that was refused with this error, whose text names the remedy."""
        reason = self._not_authenticated if isinstance(error, NotAuthenticatedError) else error.detail
        key = (reason, self._addresses.client(request))
        elapsed_us = self._clock.elapsed_us()
        if elapsed_us >= self._until_us:
            self._until_us = elapsed_us + _WINDOW_US
            self._unlogged, self._unlogged_before = Counter(), self._unlogged
            self._logged.clear()
        if key in self._logged:
            self._unlogged[key] += 1
        elif len(self._logged) >= _MOST_LINES:
            self._unlogged[_OTHER_CLIENTS] += 1
        else:
            self._logged.add(key)
            self._write(key)

    def _write(self, key: tuple[str, str]) -> None:
        reason, client = key
        others = self._unlogged_before.pop(_OTHER_CLIENTS, 0)
        log.warning(
            self._event,
            reason=reason,
            client=client,
            times=1 + self._unlogged_before.pop(key, 0),
            **({"others": others} if others else {}),
        )
