"""The filter of a list of requests: words that a person types, such as `route:call -status:204 who:dapp`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bridge_server.admin.handles import Handles
from bridge_server.admin.traffic.subjects import subject_of
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.exchanges import Recorded, with_short_ids

_MOST_CHARACTERS = 400
_MOST_TERMS = 16
_LEAST_OF_AN_ID = 4
_STATUS = re.compile(r"[0-9]xx|[0-9]{1,3}", re.ASCII)
_RPC_ROUTE = "rpc"

Test: TypeAlias = Callable[[Recorded], bool]

_KINDS: dict[str, Test] = {
    "errors": lambda each: not each.is_waiting and each.exchange.is_error,
    "waits": lambda each: each.is_waiting or each.exchange.waited_seconds > 0,
    "rpc": lambda each: each.exchange.route == _RPC_ROUTE,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Every wanted test holds, and no unwanted one."""

    wanted: Sequence[Test] = ()
    unwanted: Sequence[Test] = ()

    def passes(self, recorded: Recorded) -> bool:
        """Whether the request is to be shown."""
        return all(test(recorded) for test in self.wanted) and not any(
            test(recorded) for test in self.unwanted
        )


EVERYTHING = Filter()


def read_filter(text: str, handles: Handles) -> Filter:
    """The filter in this text. Raises InvalidInputError, which names what it does not know."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidInputError(f"The query parameter filter takes {_MOST_CHARACTERS} characters at most.")
    terms = text.split()
    if len(terms) > _MOST_TERMS:
        raise InvalidInputError(f"The query parameter filter takes {_MOST_TERMS} words at most.")
    wanted: list[Test] = []
    unwanted: list[Test] = []
    for term in terms:
        is_unwanted = term.startswith("-") and len(term) > 1
        (unwanted if is_unwanted else wanted).append(
            _test(term.removeprefix("-") if is_unwanted else term, handles)
        )
    return Filter(wanted, unwanted)


def _test(term: str, handles: Handles) -> Test:
    name, colon, value = term.partition(":")
    if not colon:
        return _says(term.lower())
    if not value:
        raise InvalidInputError(f"In the filter, {name}: wants a value behind it.")
    match name:
        case "session" | "call":
            return _is_about(name, value, handles)
        case "status":
            return _has_status(value)
        case "is":
            return _kind(value)
        case "who" | "route" | "method":
            return _has(name, value.lower())
    raise InvalidInputError(
        f"The filter does not know {name}: but session:, call:, route:, status:, who:, method:, is:, "
        "a minus before any of them, and plain words."
    )


def _says(word: str) -> Test:
    def says(recorded: Recorded) -> bool:
        exchange = recorded.exchange
        texts = (exchange.who, exchange.method, with_short_ids(exchange.path), exchange.route, exchange.gist)
        return word in " ".join(texts).lower()

    return says


def _is_about(name: str, value: str, handles: Handles) -> Test:
    """Find a session or call by its handle, its id, or the beginning of its id, also with an ellipsis."""
    known, beginning = handles.id_of(value), value.removesuffix("…")

    def is_about(recorded: Recorded) -> bool:
        subject = subject_of(recorded.exchange)
        any_id = subject.session_id if name == "session" else subject.call_id
        is_begun = len(beginning) >= _LEAST_OF_AN_ID and any_id is not None and any_id.startswith(beginning)
        return is_begun or any_id == known is not None

    return is_about


def _has_status(value: str) -> Test:
    if not _STATUS.fullmatch(value):
        raise InvalidInputError(
            "In the filter, status: takes a status such as 404, or 4xx for all that begin so."
        )
    if value.endswith("xx"):
        hundreds = int(value[0])
        return lambda each: not each.is_waiting and each.exchange.status // 100 == hundreds
    status = int(value)
    return lambda each: not each.is_waiting and each.exchange.status == status


def _kind(value: str) -> Test:
    if value not in _KINDS:
        raise InvalidInputError(f"In the filter, is: takes {', '.join(_KINDS)}.")
    return _KINDS[value]


def _has(name: str, value: str) -> Test:
    if name == "route":  # also the routes of generation 0.7, which have a prefix
        return lambda each: each.exchange.route.lower().removeprefix("v0.7-") == value.removeprefix("v0.7-")
    if name == "who":
        return lambda each: each.exchange.who == value
    return lambda each: each.exchange.method.lower() == value
