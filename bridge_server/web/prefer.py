"""Two wishes of a request: to wait for an answer (`Prefer: wait=N`, RFC 7240, or `?wait=N`, in whole
seconds), and to be a dry run (`?dry_run=1`), answered as if it were done and changing nothing.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from aiohttp import web
from multidict import CIMultiDictProxy

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.aiohttp_internals import PREFER, is_plain
from bridge_server.web.answers import WholeAnswer, ready_made

_WAIT = re.compile(r"""\s*wait\s*=\s*(?:(\d{1,4000})|"(\d{1,4000})")\s*""", re.ASCII | re.IGNORECASE)
_PREFERENCE = re.compile(r"""(?:[^",;]|"(?:[^"\\]|\\.)*+(?:"|\\?\Z))++""", re.DOTALL)
"""The parts between commas and semicolons; commas and semicolons in quotation marks do not count."""
_LONGEST_PREFERENCES = 1_024
"""Characters of all fields together. Longer ones are ignored, as a server may (RFC 7240, section 2)."""
_WHOLE_SECONDS = re.compile(r"\d{1,4000}", re.ASCII)

_NOTHING_YET = ready_made({"Vary": "Prefer", "Cache-Control": "no-store"})
_SOMETHING = ready_made({"Vary": "Prefer", "Cache-Control": "no-store", "Content-Type": "application/json"})

# The usual query is read where it stands: what parsing makes of it is kept as long as the client waits.
_USUAL_QUERY = re.compile(r"wait=(\d{1,4})", re.ASCII)

_DRY_RUN = "dry_run"
_DRY_RUN_VALUES = {"1": True, "true": True, "0": False, "false": False}


class Wait(NamedTuple):
    """The wait that is granted, in seconds; `preferred` when the Prefer header asked for it."""

    seconds: int = 0
    preferred: bool = False


_AT_ONCE = Wait()
_granted = lru_cache(maxsize=1_024)(Wait)


def wanted_wait(request: web.Request, longest_seconds: int) -> Wait:
    """The wait that a request asks for, capped. Raises InvalidInputError for a malformed `?wait=` alone."""
    if is_plain(request):
        return _AT_ONCE
    if PREFER in request.headers:
        preferred = preferred_wait(request.headers)
        if preferred is not None:
            return _granted(min(preferred, longest_seconds), preferred=True)
    query = request.rel_url.raw_query_string
    if not query:
        return _AT_ONCE
    if usual := _USUAL_QUERY.fullmatch(query):
        return _granted(min(int(usual[1]), longest_seconds))
    if (wait := request.query.get("wait")) is not None:
        if not _WHOLE_SECONDS.fullmatch(wait):
            raise InvalidInputError("The query parameter wait takes whole seconds, such as ?wait=25.")
        return _granted(min(int(wait), longest_seconds))
    return _AT_ONCE


def preferred_wait(headers: CIMultiDictProxy[str]) -> int | None:
    """The wait, in seconds, that the header fields Prefer name first; None where they name none."""
    preferences = ",".join(headers.getall(PREFER, ()))
    return preferred_seconds(preferences) if len(preferences) <= _LONGEST_PREFERENCES else None


@lru_cache(maxsize=64)
def preferred_seconds(preferences: str) -> int | None:
    """The wait that is named first in the fields of Prefer."""
    for preference in _PREFERENCE.findall(preferences):
        found = _WAIT.fullmatch(preference)
        if found is not None:
            return int(found[1] or found[2])
    return None


def polled(body: bytes | None, wait: Wait) -> WholeAnswer:
    """The answer to a poll: JSON, or 204 when there is nothing yet; with the wait that was applied."""
    if body is None:
        response = WholeAnswer(status=204, headers=_NOTHING_YET)
    else:
        response = WholeAnswer(body=body, headers=_SOMETHING)
    if wait.preferred:
        response.headers["Preference-Applied"] = f"wait={wait.seconds}"
    return response


def asks_for_dry_run(request: web.Request) -> bool:
    """Whether the request is certainly a dry run."""
    return bool(request.query_string) and request.query.getall(_DRY_RUN, []) in (["1"], ["true"])


def wanted_dry_run(request: web.Request) -> bool:
    """Whether the request is a dry run. Raises InvalidInputError for another value, and for a name that
    resembles `dry_run`: the request would be done in earnest.
    """
    if not request.query_string:
        return False
    for name in request.query:
        if name != _DRY_RUN and "".join(filter(str.isalnum, name)).casefold() == "dryrun":
            raise InvalidInputError(f"The query parameter {name} is not known: write {_DRY_RUN}=1.")
    values = request.query.getall(_DRY_RUN, ["0"])
    if len(values) != 1 or values[0] not in _DRY_RUN_VALUES:
        raise InvalidInputError(f"The query parameter {_DRY_RUN} takes 1 for a dry run, or 0, once.")
    return _DRY_RUN_VALUES[values[0]]
