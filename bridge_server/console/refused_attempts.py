"""Log lines for requests that the console's door refused, at a limited rate."""

import structlog
from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.web.client_address import ClientAddresses

_WINDOW_US = 60_000_000
_MOST_LINES = 20
"""The most lines in a window. Without a limit, a stranger's requests would fill the log."""

log = structlog.get_logger()


class RefusedAttempts:
    """Writes a line for each reason and client at most once a minute, with the number of lines left out."""

    def __init__(self, addresses: ClientAddresses, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock
        self._until_us = 0
        self._written: set[tuple[str, str]] = set()
        self._left_out = 0

    def note(self, request: web.Request, error: BridgeError) -> None:
        """Note a request that was refused with this error."""
        key = error.code, self._addresses.client(request)
        if self._clock.elapsed_us() >= self._until_us:
            self._until_us = self._clock.elapsed_us() + _WINDOW_US
            self._written.clear()
        if key in self._written or len(self._written) >= _MOST_LINES:
            self._left_out += 1
            return
        self._written.add(key)
        left_out, self._left_out = self._left_out, 0
        log.warning(
            "console_refused",
            reason=error.title,
            client=key[1],
            **({"left_out": left_out} if left_out else {}),
        )
