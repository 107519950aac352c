"""The private attributes of aiohttp that are read, all in one place.

A server that stops, or has too many connections, must know of each whether a request has come, whether its
body is still on its way, and whether the next is waited for; aiohttp has no public way to ask. An aiohttp
without these attributes is used all the same: then silent connections end only with aiohttp's keep-alive,
idle ones make no room, and a body that arrives while the server stops is lost.
"""

from aiohttp import web

_PRIVATE = ("_current_request", "_messages", "_request_count", "_waiter")


def is_as_known(kind: type) -> bool:
    """Whether connections of this kind have the attributes that are read here."""
    return all(hasattr(kind, name) for name in _PRIVATE)


_IS_AS_KNOWN = is_as_known(web.RequestHandler)


class ObservedHandler(web.RequestHandler):
    """A connection of aiohttp that reports its state."""

    __slots__ = ()

    @property
    def has_asked(self) -> bool:
        """Whether the head of a request has come."""
        return not _IS_AS_KNOWN or self._request_count > 0

    @property
    def is_idle(self) -> bool:
        """Whether everything that it asked for was answered."""
        return _IS_AS_KNOWN and self._request_count > 0 and self._waiter is not None and not self._messages

    @property
    def is_receiving(self) -> bool:
        """Whether the body of a request is on its way."""
        if not _IS_AS_KNOWN:
            return False
        request = self._current_request
        if request is not None and not request.content.is_eof():
            return True
        return any(not payload.is_eof() for _, payload in self._messages)

    def fail_receiving(self, error: Exception) -> None:
        """Raise the error where the body of the request that is under way is waited for."""
        if _IS_AS_KNOWN and self._current_request is not None:
            self._current_request.content.set_exception(error)
