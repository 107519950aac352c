"""The wallet's accounts and their keys, which are in memory while they are open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from bridge_server.ethereum.keystore import (
    IV_BYTES,
    SALT_BYTES,
    KeystoreError,
    PassphraseError,
    make_keystore,
    read_keystore,
)
from bridge_server.ethereum.keystore_kdf import ScryptCost
from bridge_server.ethereum.signing_key import SECRET_BYTES, SigningKey, SigningKeyError
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError, UnavailableError
from bridge_server.kernel.ids import IdMaker
from bridge_server.wallet.derivations import Derivations, encoded, open_key_file
from bridge_server.wallet.errors import (
    AccountExistsError,
    KeyFileError,
    LockedError,
    UnknownAccountError,
    WrongPassphraseError,
)
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.models import AccountSource, Address, WalletAccount

DEFAULT_UNLOCK_SECONDS = 300
LONGEST_UNLOCK_SECONDS = 10**9

_SECOND_US = 1_000_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _OpenKey:
    """`until_us`, of time elapsed, is None for a key that stays open as long as the server runs."""

    key: SigningKey
    until_us: int | None


class Accounts:
    """Development accounts and raw keys, which are always open, and key files, which a passphrase opens.

    A key that is known from several places is one account, of the first of them.
    """

    def __init__(
        self,
        development: Sequence[SigningKey],
        raw: Sequence[SigningKey],
        files: KeystoreFiles,
        derivations: Derivations,
        clock: Clock,
        ids: IdMaker,
        random_bytes: Callable[[int], bytes],
        cost: ScryptCost,
    ) -> None:
        self._files = files
        self._derivations = derivations
        self._clock = clock
        self._ids = ids
        self._random_bytes = random_bytes
        self._cost = cost
        self._lasting: dict[Address, AccountSource] = {}
        self._open: dict[Address, _OpenKey] = {}
        self._listeners: list[Callable[[], None]] = []
        self._lock_listeners: list[Callable[[], None]] = []
        for source, keys in ((AccountSource.DEVELOPMENT, development), (AccountSource.RAW_KEY, raw)):
            for key in keys:
                self._lasting.setdefault(_address(key), source)
                self._open[_address(key)] = _OpenKey(key, None)

    def on_unlocked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each unlock."""
        self._listeners.append(listener)

    def on_locked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after keys were forgotten, on demand or because their time was over."""
        self._lock_listeners.append(listener)

    def addresses(self) -> list[Address]:
        """The accounts: of development, then raw keys, then files by their names. Raises UnavailableError."""
        return [account.address for account in self.accounts()]

    def accounts(self) -> list[WalletAccount]:
        """The accounts in the order of `addresses`. Raises UnavailableError."""
        sources = dict(self._lasting)
        for address in self._files.addresses():
            sources.setdefault(address, AccountSource.KEYSTORE)
        self._forget()
        return [self._account(address, source) for address, source in sources.items()]

    def are_for_development_only(self) -> bool:
        """Whether all accounts are for development; False without accounts, or with unreadable files."""
        try:
            is_any_else = any(address not in self._lasting for address in self._files.addresses())
        except UnavailableError:
            return False
        return not is_any_else and set(self._lasting.values()) == {AccountSource.DEVELOPMENT}

    def key(self, address: Address) -> SigningKey:
        """The account's key. Raises UnknownAccountError, LockedError."""
        opened = self._open.get(address)
        if opened is not None and self._is_good(address, opened):
            return opened.key
        self._open.pop(address, None)
        self._check_known(address)
        raise LockedError(address)

    async def key_with(self, address: Address, passphrase: str) -> SigningKey:
        """The account's key. It stays locked if it was. A key that is always open needs no passphrase.

        Raises UnknownAccountError, WrongPassphraseError, KeyFileError; LimitError when too many wait for it.
        """
        if address in self._lasting:
            return self._open[address].key
        content = self._files.read(address)
        try:
            secret = await self._derivations.run(address, lambda: open_key_file(address, content, passphrase))
        except PassphraseError as error:
            raise WrongPassphraseError(address) from error
        except KeystoreError as error:
            raise KeyFileError(address, str(error)) from error
        key = SigningKey(secret)
        if _address(key) != address:
            raise KeyFileError(address, f"its key belongs to {_address(key)}")
        return key

    async def unlock(self, address: Address, passphrase: str, seconds: int | None = None) -> None:
        """Open the account's key for some seconds; None means 300, and 0 until the server stops.

        An account that is open gets a new end, unless it was opened without one. Raises what `key_with`
        raises, and InvalidInputError for any other number of seconds.
        """
        if seconds is None:
            seconds = DEFAULT_UNLOCK_SECONDS
        if not 0 <= seconds <= LONGEST_UNLOCK_SECONDS:
            raise InvalidInputError(
                f"An account is unlocked for 1 to {LONGEST_UNLOCK_SECONDS} seconds, "
                "or for 0: until the server stops."
            )
        key = await self.key_with(address, passphrase)
        opened = self._open.get(address)
        if opened is not None and opened.until_us is None:
            return
        until_us = self._clock.elapsed_us() + seconds * _SECOND_US if seconds else None
        self._open[address] = _OpenKey(key, until_us)
        log.info("account_unlocked", account=address, seconds=seconds)
        for listener in self._listeners:
            listener()

    def lock(self, address: Address) -> bool:
        """Forget the account's key. False if the key is always open. Raises UnknownAccountError."""
        if address in self._lasting:
            return False
        if self._open.pop(address, None) is None:
            self._check_known(address)
        else:
            self._announce_lock()
        return True

    def lock_all(self) -> None:
        """Forget every key that a passphrase has opened."""
        self._open = {address: opened for address, opened in self._open.items() if address in self._lasting}
        self._announce_lock()

    async def create(self, passphrase: str) -> Address:
        """Make an account with a new key, locked, and store its file. Raises UnavailableError, LimitError."""
        return await self.import_key(self._random_bytes(SECRET_BYTES), passphrase)

    async def import_key(self, secret: bytes, passphrase: str) -> Address:
        """Store a key of 32 bytes under a passphrase; the account is locked.

        Raises InvalidInputError, AccountExistsError, UnavailableError, LimitError.
        """
        try:
            address = _address(SigningKey(secret))
        except SigningKeyError as error:
            raise InvalidInputError(f"This is no private key: {error}.") from error
        if address in self._files.addresses():
            raise AccountExistsError(address)
        make_file = partial(
            make_keystore,
            secret,
            encoded(passphrase),
            cost=self._cost,
            salt=self._random_bytes(SALT_BYTES),
            iv=self._random_bytes(IV_BYTES),
            uuid=self._ids.random_uuid(),
        )
        await self._derivations.run(address, lambda: self._files.write(address, make_file()))
        return address

    async def import_file(self, content: bytes, passphrase: str) -> Address:
        """Store a key file as it is, once the passphrase has opened it; the account is locked.

        Raises InvalidInputError when it is no key file or the passphrase is wrong; AccountExistsError,
        UnavailableError, LimitError.
        """
        try:
            keystore = read_keystore(content)
            secret = await self._derivations.run(
                keystore.address or "", lambda: keystore.open(encoded(passphrase))
            )
        except KeystoreError as error:
            raise InvalidInputError(f"The key file cannot be opened: {error}.") from error
        address = _address(SigningKey(secret))
        await self._derivations.run(address, lambda: self._files.write(address, content))
        return address

    async def sweep(self, _: int) -> int:
        """Forget keys whose time is over or whose files are gone; returns how many."""
        before = len(self._open)
        self._forget()
        return before - len(self._open)

    def _account(self, address: Address, source: AccountSource) -> WalletAccount:
        opened = self._open.get(address)
        return WalletAccount(address, source, opened is not None, self._until_ms(opened))

    def _until_ms(self, opened: _OpenKey | None) -> int | None:
        """The end of an unlock in milliseconds since the Unix epoch."""
        if opened is None or opened.until_us is None:
            return None
        return self._clock.now_ms() + (opened.until_us - self._clock.elapsed_us()) // 1_000

    def _forget(self) -> None:
        ended = [address for address, opened in self._open.items() if not self._is_good(address, opened)]
        for address in ended:
            del self._open[address]
        if ended:
            self._announce_lock()

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

    def _check_known(self, address: Address) -> None:
        if address not in self._lasting and address not in self._files.addresses():
            raise UnknownAccountError(address)


def _address(key: SigningKey) -> Address:
    return Address(key.address.lower())
