"""How long a client is ready to wait: `Prefer: wait=N` (RFC 7240) or `?wait=N`, in whole seconds."""

import re
from dataclasses import dataclass

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError

_WAIT = re.compile(r"""(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=$|[,;])""", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait that is granted, in seconds; `preferred` when the Prefer header asked for it."""

    seconds: int = 0
    preferred: bool = False

    def declare(self, response: web.Response) -> web.Response:
        """Say in the response that it depends on Prefer, and which wait was applied."""
        response.headers["Vary"] = "Prefer"
        if self.preferred:
            response.headers["Preference-Applied"] = f"wait={self.seconds}"
        return response


_AT_ONCE = Wait()


def wanted_wait(request: web.Request, longest_seconds: int) -> Wait:
    """The wait that a request asks for, capped. Raises InvalidInputError for a malformed `?wait=`.

    A malformed Prefer header is ignored, as the RFC has it.
    """
    prefer = request.headers.getall("Prefer", None)
    if prefer is not None and (found := _WAIT.search(",".join(prefer))):
        return Wait(min(int(found[1]), longest_seconds), preferred=True)
    if "?" in request.raw_path and (wait := request.query.get("wait")) is not None:
        if not _SECONDS.fullmatch(wait):
            raise InvalidInputError("The query parameter wait takes whole seconds, such as ?wait=25.")
        return Wait(min(int(wait), longest_seconds))
    return _AT_ONCE
