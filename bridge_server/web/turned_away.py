"""Log lines for refused requests, with the remedy, at a limited rate."""

from collections import Counter

import structlog
from aiohttp import web

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, NotAuthenticatedError
from bridge_server.web.client_address import ClientAddresses

_WINDOW_US = 60_000_000
_MOST_LINES = 20
"""The most lines in a window. Without a limit, requests with ever new Origins would fill the log."""

_OTHERS = ("", "")

log = structlog.get_logger()


class TurnedAway:
    """Writes a line for each reason and client, at most once a minute, with a count of the refusals since.

    `event` names the line, and `token_setting` the setting with the bearer token.
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
        self._told: set[tuple[str, str]] = set()
        self._untold: Counter[tuple[str, str]] = Counter()
        self._untold_before: Counter[tuple[str, str]] = Counter()

    def note(self, request: web.Request, error: BridgeError) -> None:
        """Note a request that was refused with this error, whose text names the remedy."""
        reason = self._not_authenticated if isinstance(error, NotAuthenticatedError) else error.detail
        key = (reason, self._addresses.client(request))
        self._begin_window()
        if key in self._told:
            self._untold[key] += 1
        elif len(self._told) >= _MOST_LINES:
            self._untold[_OTHERS] += 1
        else:
            self._told.add(key)
            self._write(key)

    def _begin_window(self) -> None:
        elapsed_us = self._clock.elapsed_us()
        if elapsed_us >= self._until_us:
            self._until_us = elapsed_us + _WINDOW_US
            self._untold, self._untold_before = Counter(), self._untold
            self._told.clear()

    def _write(self, key: tuple[str, str]) -> None:
        reason, client = key
        others = self._untold_before.pop(_OTHERS, 0)
        log.warning(
            self._event,
            reason=reason,
            client=client,
            times=1 + self._untold_before.pop(key, 0),
            **({"others": others} if others else {}),
        )
