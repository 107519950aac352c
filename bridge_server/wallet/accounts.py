"""The wallet's accounts: where their keys come from, and whether they are unlocked."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import structlog

from bridge_server.ethereum import keystore
from bridge_server.ethereum.mnemonic import ACCOUNTS_PATH, master_key, mnemonic_seed
from bridge_server.ethereum.signing_key import SECRET_BYTES, SigningKey, SigningKeyError
from bridge_server.kernel import background, secrets
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError, LimitError, UnavailableError
from bridge_server.wallet import keystore_files, models
from bridge_server.wallet.models import Address

DEFAULT_UNLOCK_SECONDS = 300
LONGEST_UNLOCK_SECONDS = 10**9

_SECOND_US = 1_000_000

_MOST_WAITING = 64
_MOST_WAITING_OF_ONE = 8
_RETRY_SECONDS = 5
_PAUSE_SECONDS = 1.0

_HEXADECIMAL = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
_COMMENT = re.compile(r"#.*")

Pause: TypeAlias = Callable[[float], Awaitable[None]]
Result = TypeVar("Result")

log = structlog.get_logger()


class _OpenKey(NamedTuple):
    """`until_us`, of time elapsed, is None for a key that stays open as long as the server runs."""

    key: SigningKey
    until_us: int | None


class Derivations:
    """Derives keys from passphrases one after the other, each in a thread: it is slow and hungry for memory.
    After a wrong passphrase the account's next one waits a second, so that guessing is slow with files that
    are quick to open. Other accounts do not wait for it, and no account takes all the places in the queue.
    """

    def __init__(self, cost: keystore.ScryptCost, pause: Pause = asyncio.sleep) -> None:
        self.cost = cost
        """The cost of the key of a new file."""
        self._pause = pause
        self._accounts = background.KeyedLock()
        self._memory = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    async def run(self, account: str, work: Callable[[], Result]) -> Result:
        """Do the work for an account in its turn, and raise what the work raises. Raises LimitError when too
        many wait, UnavailableError when there is too little memory. The work is done to its end, and its
        pause kept, even if the caller is cancelled.
        """
        if self._waiting[account] >= _MOST_WAITING_OF_ONE or self._waiting.total() >= _MOST_WAITING:
            raise LimitError(
                "Too many passphrases wait to be tried: try again in a few seconds.", _RETRY_SECONDS
            )
        self._waiting[account] += 1
        task = asyncio.create_task(self._run(account, work))
        # asyncio logs an exception that nobody retrieves as a defect, and the caller may have left.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _run(self, account: str, work: Callable[[], Result]) -> Result:
        try:
            async with self._accounts.taken(account):
                try:
                    async with self._memory:
                        return await asyncio.to_thread(work)
                except keystore.PassphraseError:
                    await self._pause(_PAUSE_SECONDS)
                    raise
        except keystore.CostError as error:
            raise UnavailableError(f"The passphrase cannot be tried: {error}.") from error
        finally:
            self._waiting -= Counter((account,))


def _open_key_file(address: Address, content: bytes, passphrase: str) -> bytes:
    """The secret in a key file. A wrong passphrase is logged here, because the caller may be gone by then."""
    try:
        return keystore.read_keystore(content).open(_encoded(passphrase))
    except keystore.PassphraseError:
        log.warning("wrong_passphrase", account=address)
        raise


def _encoded(passphrase: str) -> bytes:
    """The passphrase's bytes. Bytes of the command line that are no UTF-8 stay as they were."""
    return passphrase.encode(errors="surrogateescape")


class Accounts:
    """Development accounts and raw keys, which are always open, and key files, which a passphrase opens.
    `lasting` are keys that are always open, by their source. A key that is known from several places is one
    account, of the first of them.
    """

    def __init__(
        self,
        lasting: Mapping[models.AccountSource, Sequence[SigningKey]],
        files: keystore_files.KeystoreFiles,
        derivations: Derivations,
        clock: Clock,
        ids: secrets.IdMaker,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._files = files
        self._derivations = derivations
        self._ids = ids
        self._random_bytes = random_bytes
        self._clock = clock
        self._sources: dict[Address, models.AccountSource] = {}
        self._lasting: dict[Address, _OpenKey] = {}
        self._unlock_listeners: list[Callable[[], None]] = []
        self._lock_listeners: list[Callable[[], None]] = []
        for source, keys in lasting.items():
            for key in keys:
                self._sources.setdefault(_address(key), source)
                self._lasting.setdefault(_address(key), _OpenKey(key, None))
        self._open = dict(self._lasting)

    def on_unlocked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each unlock."""
        self._unlock_listeners.append(listener)

    def on_locked(self, listener: Callable[[], None]) -> None:
        """Call `listener` after keys were forgotten, on demand or because their time was over."""
        self._lock_listeners.append(listener)

    def addresses(self) -> list[Address]:
        """The accounts: of development, then raw keys, then files by their names. Raises UnavailableError."""
        return [account.address for account in self.accounts()]

    def accounts(self) -> list[models.WalletAccount]:
        """The accounts in the order of `addresses`. Raises UnavailableError."""
        sources = dict(self._sources)
        for address in self._files.addresses():
            sources.setdefault(address, models.AccountSource.KEYSTORE)
        self._forget_ended()
        return [
            models.WalletAccount(address, source, address in self._open, self._until_ms(address))
            for address, source in sources.items()
        ]

    def are_for_development_only(self) -> bool:
        """Whether all accounts are for development; False without accounts, or with unreadable files."""
        try:
            is_any_else = any(address not in self._lasting for address in self._files.addresses())
        except UnavailableError:
            return False
        return not is_any_else and set(self._sources.values()) == {models.AccountSource.DEVELOPMENT}

    def key(self, address: Address) -> SigningKey:
        """The account's key. Raises UnknownAccountError, LockedError."""
        opened = self._open.get(address)
        if opened is not None and self._is_good(address, opened):
            return opened.key
        self._open.pop(address, None)
        self._check_known(address)
        raise models.LockedError(address)

    async def key_with(self, address: Address, passphrase: str) -> SigningKey:
        """The account's key. It stays locked if it was. A key that is always open needs no passphrase. Raises
        UnknownAccountError, WrongPassphraseError, KeyFileError; LimitError when too many wait for it.
        """
        if address in self._lasting:
            return self.key(address)
        file = self._files.read(address)
        try:
            secret = await self._derivations.run(address, lambda: _open_key_file(address, file, passphrase))
        except keystore.PassphraseError as error:
            raise models.WrongPassphraseError(address) from error
        except keystore.KeystoreError as error:
            raise models.KeyFileError(address, str(error)) from error
        key = SigningKey(secret)
        if _address(key) != address:
            raise models.KeyFileError(address, f"its key belongs to {_address(key)}")
        return key

    async def unlock(self, address: Address, passphrase: str, seconds: int | None = None) -> None:
        """Open the account's key for some seconds; None means 300, and 0 until the server stops. An account
        that is open gets a new end, unless it was opened without one. Raises what `key_with` raises, and
        InvalidInputError for any other number of seconds.
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
        for listener in self._unlock_listeners:
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
        self._open = dict(self._lasting)
        self._announce_lock()

    async def create(self, passphrase: str) -> Address:
        """Make an account with a new key, locked, and store its file. Raises UnavailableError, LimitError."""
        return await self.import_key(self._random_bytes(SECRET_BYTES), passphrase)

    async def import_key(self, secret: bytes, passphrase: str) -> Address:
        """Store a key of 32 bytes under a passphrase; it is locked. Raises what `import_file` raises."""
        try:
            address = _address(SigningKey(secret))
        except SigningKeyError as error:
            raise InvalidInputError(f"This is no private key: {error}.") from error
        if address in self._files.addresses():
            raise models.AccountExistsError(address)
        opening, cost = _encoded(passphrase), self._derivations.cost
        salt, iv = self._random_bytes(keystore.SALT_BYTES), self._random_bytes(keystore.IV_BYTES)
        uuid = self._ids.random_uuid()
        make_file = partial(keystore.make_keystore, secret, opening, cost=cost, salt=salt, iv=iv, uuid=uuid)
        await self._derivations.run(address, lambda: self._files.write(address, make_file()))
        return address

    async def import_file(self, content: bytes, passphrase: str) -> Address:
        """Store a key file as it is, once the passphrase has opened it; the account is locked. Raises
        InvalidInputError when it is no key file or the passphrase is wrong; AccountExistsError,
        UnavailableError, LimitError.
        """
        try:
            file = keystore.read_keystore(content)
            secret = await self._derivations.run(file.address or "", lambda: file.open(_encoded(passphrase)))
        except keystore.KeystoreError as error:
            raise InvalidInputError(f"The key file cannot be opened: {error}.") from error
        address = _address(SigningKey(secret))
        await self._derivations.run(address, lambda: self._files.write(address, content))
        return address

    async def sweep(self, _: int) -> int:
        """Forget keys whose time is over or whose files are gone; returns how many."""
        return self._forget_ended()

    def _forget_ended(self) -> int:
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

    def _until_ms(self, address: Address) -> int | None:
        """The end of an unlock in milliseconds since the Unix epoch; None without an end."""
        opened = self._open.get(address)
        if opened is None or opened.until_us is None:
            return None
        return self._clock.now_ms() + (opened.until_us - self._clock.elapsed_us()) // 1_000

    def _check_known(self, address: Address) -> None:
        if address not in self._lasting and address not in self._files.addresses():
            raise models.UnknownAccountError(address)


def _address(key: SigningKey) -> Address:
    return Address(key.address.lower())


# Private keys without a key file: of the settings, and of development accounts.


class PrivateKeyError(ValueError):
    """The text is not a valid private key; the message names the fault and does not repeat the key."""


def read_private_key(text: str) -> bytes:
    """The 32 bytes of a key in 64 hexadecimal digits, with `0x` or without. Raises PrivateKeyError."""
    spelled = _HEXADECIMAL.fullmatch(text.strip())
    if spelled is None:
        raise PrivateKeyError("a private key has 64 hexadecimal digits, with 0x in front or without")
    secret = bytes.fromhex(spelled[1])
    try:
        SigningKey(secret)
    except SigningKeyError as error:
        raise PrivateKeyError(str(error)) from error
    return secret


def read_private_keys(text: str) -> list[SigningKey]:
    """The keys in a text, parted by commas, spaces or lines; `#` begins a comment. Raises PrivateKeyError."""
    words = _COMMENT.sub("", text).replace(",", " ").split()
    keys = []
    for place, word in enumerate(words, start=1):
        try:
            keys.append(SigningKey(read_private_key(word)))
        except PrivateKeyError as error:
            raise PrivateKeyError(f"key {place} of {len(words)}: {error}") from error
    return keys


def development_keys(mnemonic: str, count: int) -> list[SigningKey]:
    """The first `count` keys of a mnemonic, where other wallets look for them. Raises MnemonicError."""
    return [SigningKey(secret) for secret in development_secrets(mnemonic, count)]


def development_secrets(mnemonic: str, count: int) -> list[bytes]:
    """The first `count` keys of a mnemonic as 32 bytes each. Raises MnemonicError."""
    parent = master_key(mnemonic_seed(mnemonic)).descendant(ACCOUNTS_PATH)
    return [parent.child(index).secret for index in range(count)]
