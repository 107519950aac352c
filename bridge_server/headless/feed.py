"""Everything that happens to a wallet, for those who watch: the terminal, JSON lines, server-sent events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bridge_server.headless.calls import HeadlessCall
from bridge_server.headless.sessions import HeadlessSession


@dataclass(frozen=True, slots=True)
class Paired:
    """A dapp has been found behind a URI, or a web page has asked for accounts."""

    session: HeadlessSession


@dataclass(frozen=True, slots=True)
class SessionDecided:
    """A session was approved or rejected, or waits: see its state."""

    session: HeadlessSession


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """A session has other accounts, or is on another chain."""

    session: HeadlessSession


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """A session is over."""

    session: HeadlessSession


@dataclass(frozen=True, slots=True)
class CallCame:
    """A call arrived that is not answered at once: see its state."""

    call: HeadlessCall


@dataclass(frozen=True, slots=True)
class CallSettled:
    """A call was answered, refused or lost."""

    call: HeadlessCall


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
    """Calls everybody who watches, in the order of subscription."""

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
        """Tell everybody who watches."""
        for watch in list(self._watching):
            watch(happening)
