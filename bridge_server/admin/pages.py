"""Lists of the admin API come page by page: `after` names the last entry of the page before."""

import re

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError

_USUAL_PAGE = 100
_LONGEST_PAGE = 1000
_PAGE_SIZE = re.compile(r"[0-9]{1,9}", re.ASCII)


def wanted_page(request: web.Request) -> tuple[str, int]:
    """The query parameters `after` (empty for the first page) and `limit`. Raises InvalidInputError."""
    limit = request.query.get("limit", str(_USUAL_PAGE))
    if not _PAGE_SIZE.fullmatch(limit) or not 1 <= int(limit) <= _LONGEST_PAGE:
        raise InvalidInputError(f"The query parameter limit takes 1 to {_LONGEST_PAGE}.")
    return request.query.get("after", ""), int(limit)
