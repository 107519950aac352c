"""Everything that happens to a wallet, for its watchers: the terminal, JSON lines, server-sent events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bridge_server.headless.calls import HeadlessCall
from bridge_server.headless.sessions import HeadlessSession


@dataclass(frozen=True, slots=True)
class SessionHappening:
    """Something that happens to a session."""

    session: HeadlessSession


class Paired(SessionHappening):
    """A dapp has been found behind a URI, or a web page has asked for accounts."""


class SessionDecided(SessionHappening):
    """A session was approved or rejected, or waits: see its state."""


class SessionChanged(SessionHappening):
    """A session has other accounts, or is on another chain."""


class SessionEnded(SessionHappening):
    """A session is over."""


@dataclass(frozen=True, slots=True)
class CallHappening:
    """Something that happens to a call."""

    call: HeadlessCall


class CallCame(CallHappening):
    """A call arrived that is not answered at once: see its state."""


class CallSettled(CallHappening):
    """A call was answered, refused or lost."""


@dataclass(frozen=True, slots=True)
class PairingFailed:
    """A URI led to no session."""

    reason: str


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """An event of the provider in a web page (EIP-1193): accountsChanged, chainChanged, disconnect."""

    name: str
    value: Any
    session: HeadlessSession


Happening = (
    Paired
    | SessionDecided
    | SessionChanged
    | SessionEnded
    | CallCame
    | CallSettled
    | PairingFailed
    | ProviderEvent
)
Watch = Callable[[Happening], None]


class Feed:
    """Calls the watchers, in the order of subscription."""

    def __init__(self) -> None:
        self._watching: list[Watch] = []

    @contextmanager
    def watched_by(self, watch: Watch) -> Iterator[None]:
        """Have the function called with everything that happens inside the block."""
        self._watching.append(watch)
        try:
            yield
        finally:
            self._watching.remove(watch)

    def tell(self, happening: Happening) -> None:
        """Call every watcher."""
        for watch in list(self._watching):
            watch(happening)
