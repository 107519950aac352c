"""How long a client is ready to wait: `Prefer: wait=N` (RFC 7240) or `?wait=N`, in whole seconds."""

import re
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.answers import ready_made
from bridge_server.web.whole_answer import WholeAnswer

_WAIT = re.compile(r"""\s*wait\s*=\s*(?:(\d{1,4000})|"(\d{1,4000})")\s*""", re.ASCII | re.IGNORECASE)
_PREFERENCE = re.compile(r"""(?:[^",;]|"(?:[^"\\]|\\.)*+(?:"|$))++""", re.DOTALL)
"""What stands between commas and semicolons, of which those in quotation marks are none."""
_SECONDS = re.compile(r"\d{1,4000}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait that is granted, in seconds; `preferred` when the Prefer header asked for it."""

    seconds: int = 0
    preferred: bool = False


_AT_ONCE = Wait()
_NOTHING_YET = ready_made({"Vary": "Prefer", "Cache-Control": "no-store"})
_SOMETHING = ready_made({"Vary": "Prefer", "Cache-Control": "no-store", "Content-Type": "application/json"})


def wanted_wait(request: web.Request, longest_seconds: int) -> Wait:
    """The wait that a request asks for, capped. Raises InvalidInputError for a malformed `?wait=`.

    A malformed Prefer header is ignored, as the RFC has it.
    """
    if "Prefer" in request.headers:
        preferred = preferred_seconds(",".join(request.headers.getall("Prefer")))
        if preferred is not None:
            return Wait(min(preferred, longest_seconds), preferred=True)
    if "?" in request.raw_path and (wait := request.query.get("wait")) is not None:
        if not _SECONDS.fullmatch(wait):
            raise InvalidInputError("The query parameter wait takes whole seconds, such as ?wait=25.")
        return Wait(min(int(wait), longest_seconds))
    return _AT_ONCE


@lru_cache(maxsize=64)
def preferred_seconds(preferences: str) -> int | None:
    """The wait that is named first in the fields of Prefer."""
    for preference in _PREFERENCE.findall(preferences):
        found = _WAIT.fullmatch(preference)
        if found is not None:
            return int(found[1] or found[2])
    return None


def polled(body: bytes | None, wait: Wait) -> web.Response:
    """The answer to a poll: JSON, or 204 when there is nothing yet; with the wait that was applied."""
    if body is None:
        response = WholeAnswer(status=204, headers=_NOTHING_YET)
    else:
        response = WholeAnswer(body=body, headers=_SOMETHING)
    if wait.preferred:
        response.headers["Preference-Applied"] = f"wait={wait.seconds}"
    return response
