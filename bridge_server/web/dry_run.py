"""The query parameter `dry_run`: the request is to be answered as if it were done, and to change nothing.

A value or a spelling that might be meant as one is refused: the request would be done in earnest.
"""

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError

_NAME = "dry_run"
_VALUES = {"1": True, "true": True, "0": False, "false": False}


def asks_for_dry_run(request: web.Request) -> bool:
    """Whether the request is certainly a dry run."""
    return bool(request.query_string) and request.query.getall(_NAME, []) in (["1"], ["true"])


def wanted_dry_run(request: web.Request) -> bool:
    """Whether the request is a dry run. Raises InvalidInputError."""
    if not request.query_string:
        return False
    for name in request.query:
        if name != _NAME and "".join(filter(str.isalnum, name)).casefold() == "dryrun":
            raise InvalidInputError(f"The query parameter {name} is not known: write {_NAME}=1.")
    values = request.query.getall(_NAME, ["0"])
    if len(values) != 1 or values[0] not in _VALUES:
        raise InvalidInputError(f"The query parameter {_NAME} takes 1 for a dry run, or 0, once.")
    return _VALUES[values[0]]
