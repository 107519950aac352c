"""Keys in memory: keys of the settings always, and keys that a passphrase has opened for a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.models import Address

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class _OpenKey:
    """`until_us`, of time elapsed, is None for a key that stays open as long as the server runs."""

    key: SigningKey
    until_us: int | None


class OpenKeys:
    """Keys by their accounts. The `lasting` keys cannot be forgotten; any other key has a file."""

    def __init__(self, lasting: Mapping[Address, SigningKey], files: KeystoreFiles, clock: Clock) -> None:
        self._lasting = {address: _OpenKey(key, None) for address, key in lasting.items()}
        self._files = files
        self._clock = clock
        self._open = dict(self._lasting)
        self._lock_listeners: list[Callable[[], None]] = []

    def on_locked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after keys were forgotten, on demand or because their time was over."""
        self._lock_listeners.append(listener)

    def key(self, address: Address) -> SigningKey | None:
        """The account's key, unless its time is over or its file is gone."""
        opened = self._open.get(address)
        if opened is not None and self._is_good(address, opened):
            return opened.key
        self._open.pop(address, None)
        return None

    def open(self, address: Address, key: SigningKey, seconds: int) -> bool:
        """Keep a key for some seconds, 0 for as long as the server runs, or give it a new end.

        False if the key is open without an end already.
        """
        opened = self._open.get(address)
        if opened is not None and opened.until_us is None:
            return False
        until_us = self._clock.elapsed_us() + seconds * _SECOND_US if seconds else None
        self._open[address] = _OpenKey(key, until_us)
        return True

    def is_open(self, address: Address) -> bool:
        """Whether the account's key is in memory."""
        return address in self._open

    def until_ms(self, address: Address) -> int | None:
        """The end of an unlock in milliseconds since the Unix epoch; None without an end."""
        opened = self._open.get(address)
        if opened is None or opened.until_us is None:
            return None
        return self._clock.now_ms() + (opened.until_us - self._clock.elapsed_us()) // 1_000

    def lock(self, address: Address) -> bool:
        """Forget the account's key; False if it is not open."""
        if self._open.pop(address, None) is None:
            return False
        self._announce_lock()
        return True

    def lock_all(self) -> None:
        """Forget every key that a passphrase has opened."""
        self._open = dict(self._lasting)
        self._announce_lock()

    def forget_ended(self) -> int:
        """Forget keys whose time is over or whose files are gone; returns how many."""
        ended = [address for address, opened in self._open.items() if not self._is_good(address, opened)]
        for address in ended:
            del self._open[address]
        if ended:
            self._announce_lock()
        return len(ended)

    def _announce_lock(self) -> None:
        for listener in self._lock_listeners:
            listener()

    def _is_good(self, address: Address, opened: _OpenKey) -> bool:
        """Whether an open key may still be used: its time is not over, and its file exists."""
        if address in self._lasting:
            return True
        if opened.until_us is not None and opened.until_us <= self._clock.elapsed_us():
            return False
        try:
            return address in self._files.addresses()
        except UnavailableError:  # the files cannot be listed, so none is known to be gone
            return True
