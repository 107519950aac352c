"""The session and the call that a request of the bridge is about, by its path or by its answer."""

import re
from dataclasses import dataclass

import orjson

from bridge_server.web.exchanges import Exchange

_ID = r"[A-Za-z0-9_-]{1,128}"
_SESSION = re.compile(rf"/session/+({_ID})(?:/+call/+({_ID}))?", re.ASCII)
_CALL_STATUS = re.compile(rf"/call-status/+({_ID})", re.ASCII)
_NEW = "new"


@dataclass(frozen=True, slots=True)
class Subject:
    """The ids of a session and of a call, as far as the request shows them."""

    session_id: str | None = None
    call_id: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that the request shows."""
        return tuple(each for each in (self.session_id, self.call_id) if each is not None)


def subject_of(exchange: Exchange) -> Subject:
    """The session and the call that the request names, as far as it names any."""
    found = _SESSION.search(exchange.path)
    if found is not None:
        session_id, call_id = (None if each == _NEW else each for each in found.groups())
        made = _made(exchange)
        return Subject(session_id or made.session_id, call_id or made.call_id)
    found = _CALL_STATUS.search(exchange.path)
    if found is not None:
        return Subject(call_id=found[1])
    return _announced(exchange) if exchange.who == "bridge" else Subject()


def _made(exchange: Exchange) -> Subject:
    """The session or the call that an answer names."""
    if exchange.is_error or not exchange.about:
        return Subject()
    answer = orjson.loads(exchange.about)
    return Subject(answer.get("sessionId"), answer.get("callId"))


def _announced(exchange: Exchange) -> Subject:
    """The session and the call of a webhook."""
    session_id, _, call_id = exchange.about.decode().partition(" ")
    return Subject(session_id or None, call_id or None)
