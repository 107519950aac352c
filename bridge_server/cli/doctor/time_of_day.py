"""The clock: whether the machine synchronises it, and its difference to the time of push services."""

import ctypes
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn
from bridge_server.version import USER_AGENT

_SUBJECT = "clock"
_CURE = "synchronise it (timedatectl set-ntp true): pushes, sign-ins and lifetimes go by it"
_GOOGLE = "https://fcm.googleapis.com"
_NOT_SYNCHRONISED = 5
_TIMEX_BYTES = 512
"""More than the structure that the kernel fills has in any of its versions."""
_SOME_SECONDS, _MANY_SECONDS = 5, 60
_ANSWER_SECONDS = 5.0


def is_synchronised() -> bool | None:
    """Whether the kernel says that a time service keeps the clock; None where it does not say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else bool(state != _NOT_SYNCHRONISED)


async def check_clock(seen: Examination) -> list[Finding]:
    """The kernel's synchronisation, and the difference to a push service's clock if one is configured."""
    found = list(_kernel(is_synchronised()))
    if seen.settings.fcm_credentials is None:
        return found
    endpoint = seen.settings.fcm_token_endpoint or seen.settings.fcm_endpoint or _GOOGLE
    seconds = await _seconds_ahead(endpoint)
    return found if seconds is None else [_difference(seconds)]


def _kernel(synchronised: bool | None) -> Iterator[Finding]:
    if synchronised is None:
        yield ok(_SUBJECT, "this system does not say whether it is synchronised")
    elif synchronised:
        yield ok(_SUBJECT, "synchronised, as the kernel says")
    else:
        yield warn(_SUBJECT, "no time service synchronises it", _CURE)


def _difference(seconds: float) -> Finding:
    text = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the push service's"
    if abs(seconds) >= _MANY_SECONDS:
        return fail(_SUBJECT, text, _CURE)
    return warn(_SUBJECT, text, _CURE) if abs(seconds) >= _SOME_SECONDS else ok(_SUBJECT, text)


async def _seconds_ahead(url: str) -> float | None:
    """The seconds by which this clock is ahead of a server's; None if the server does not say its time."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": USER_AGENT}) as session,
            session.head(url, allow_redirects=False) as response,
        ):
            theirs = parsedate_to_datetime(response.headers["Date"])
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
        return None
    return (datetime.now(UTC) - theirs).total_seconds()
