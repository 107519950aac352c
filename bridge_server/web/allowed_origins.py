"""The origins whose web pages may call an endpoint: named ones, and others by a rule."""

import re
from collections.abc import Callable, Iterable

from bridge_server.kernel.ip_addresses import is_loopback

_ORIGIN = re.compile(r"https?://([^/:@\[\]]+|\[[^\[\]]+\])(?::[0-9]{1,5})?", re.ASCII)


class AllowedOrigins:
    """Holds an origin if it is named, or if the rule admits it at that moment."""

    def __init__(self, named: Iterable[str] = (), admits: Callable[[str], bool] | None = None) -> None:
        self._named = frozenset(named)
        self._admits = admits

    def __contains__(self, origin: object) -> bool:
        if origin in self._named:
            return True
        return self._admits is not None and isinstance(origin, str) and self._admits(origin)

    def __bool__(self) -> bool:
        """Whether any origin may be allowed."""
        return bool(self._named) or self._admits is not None


NONE = AllowedOrigins()


def any_of(many: Iterable[AllowedOrigins]) -> AllowedOrigins:
    """The union of many: an origin is allowed if one of them allows it."""
    each = [origins for origins in many if origins]
    return AllowedOrigins(admits=lambda origin: any(origin in origins for origins in each)) if each else NONE


def is_loopback_origin(origin: str) -> bool:
    """Whether a page of this origin comes from the machine that its browser runs on, at whatever port."""
    found = _ORIGIN.fullmatch(origin)
    return found is not None and is_loopback(found[1])
