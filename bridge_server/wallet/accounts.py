"""The wallet's accounts: their sources, and whether they are unlocked."""

from collections.abc import Callable, Sequence
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
from bridge_server.wallet.open_keys import OpenKeys

DEFAULT_UNLOCK_SECONDS = 300
LONGEST_UNLOCK_SECONDS = 10**9

log = structlog.get_logger()


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
        self._ids = ids
        self._random_bytes = random_bytes
        self._cost = cost
        self._lasting: dict[Address, AccountSource] = {}
        self._listeners: list[Callable[[], None]] = []
        lasting: dict[Address, SigningKey] = {}
        for source, keys in ((AccountSource.DEVELOPMENT, development), (AccountSource.RAW_KEY, raw)):
            for key in keys:
                self._lasting.setdefault(_address(key), source)
                lasting.setdefault(_address(key), key)
        self._keys = OpenKeys(lasting, files, clock)

    def on_unlocked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each unlock."""
        self._listeners.append(listener)

    def on_locked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after keys were forgotten, on demand or because their time was over."""
        self._keys.on_locked(listener)

    def addresses(self) -> list[Address]:
        """The accounts: of development, then raw keys, then files by their names. Raises UnavailableError."""
        return [account.address for account in self.accounts()]

    def accounts(self) -> list[WalletAccount]:
        """The accounts in the order of `addresses`. Raises UnavailableError."""
        sources = dict(self._lasting)
        for address in self._files.addresses():
            sources.setdefault(address, AccountSource.KEYSTORE)
        self._keys.forget_ended()
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
        key = self._keys.key(address)
        if key is not None:
            return key
        self._check_known(address)
        raise LockedError(address)

    async def key_with(self, address: Address, passphrase: str) -> SigningKey:
        """The account's key. It stays locked if it was. A key that is always open needs no passphrase.

        Raises UnknownAccountError, WrongPassphraseError, KeyFileError; LimitError when too many wait for it.
        """
        if address in self._lasting:
            return self.key(address)
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
        if not self._keys.open(address, key, seconds):
            return
        log.info("account_unlocked", account=address, seconds=seconds)
        for listener in self._listeners:
            listener()

    def lock(self, address: Address) -> bool:
        """Forget the account's key. False if the key is always open. Raises UnknownAccountError."""
        if address in self._lasting:
            return False
        if not self._keys.lock(address):
            self._check_known(address)
        return True

    def lock_all(self) -> None:
        """Forget every key that a passphrase has opened."""
        self._keys.lock_all()

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
        return self._keys.forget_ended()

    def _account(self, address: Address, source: AccountSource) -> WalletAccount:
        return WalletAccount(address, source, self._keys.is_open(address), self._keys.until_ms(address))

    def _check_known(self, address: Address) -> None:
        if address not in self._lasting and address not in self._files.addresses():
            raise UnknownAccountError(address)


def _address(key: SigningKey) -> Address:
    return Address(key.address.lower())
