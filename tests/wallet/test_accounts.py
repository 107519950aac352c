"""Accounts: where their keys come from, for how long they are open, and how passphrases are tried."""

import asyncio
import gc
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from threading import Event, Lock

import pytest
from structlog.testing import CapturingLogger

from bridge_server.ethereum.keystore import Scrypt, ScryptCost, make_keystore, read_keystore
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.errors import InvalidInputError, LimitError, UnavailableError
from bridge_server.kernel.secrets import IdMaker
from bridge_server.wallet import accounts
from bridge_server.wallet.accounts import LONGEST_UNLOCK_SECONDS, Accounts, Derivations
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.models import (
    AccountExistsError,
    AccountSource,
    Address,
    KeyFileError,
    LockedError,
    UnknownAccountError,
    WalletAccount,
    WrongPassphraseError,
)
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.rows import each_row

FAST = ScryptCost(n=2, r=8, p=1)
PASSPHRASE = "pässwörd"
WRONG = "not the passphrase"


def secret(number: int) -> bytes:
    return number.to_bytes(32)


def address(number: int) -> Address:
    return Address(SigningKey(secret(number)).address.lower())


def key_file(number: int) -> bytes:
    return make_keystore(
        secret(number), PASSPHRASE.encode(), cost=FAST, salt=bytes(32), iv=bytes(16), uuid="an-id"
    )


class Files(KeystoreFiles):
    """Key files in memory."""

    def __init__(self) -> None:
        self.contents: dict[Address, bytes] = {}
        self.is_broken = False

    def addresses(self) -> Sequence[Address]:
        if self.is_broken:
            raise UnavailableError("the disk is gone")
        return list(self.contents)

    def read(self, address: Address) -> bytes:
        if address not in self.contents:
            raise UnknownAccountError(address)
        return self.contents[address]

    def write(self, address: Address, content: bytes) -> None:
        if address in self.contents:
            raise AccountExistsError(address)
        self.contents[address] = content


class Wallet:
    """Accounts 1 and 2 for development, 3 as a raw key, 4 and 5 in files."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = Files()
        self.pauses: list[float] = []
        for number in (4, 5):
            self.files.write(address(number), key_file(number))
        self.accounts = self.restarted()

    def restarted(self) -> Accounts:
        return Accounts(
            {
                AccountSource.DEVELOPMENT: [SigningKey(secret(1)), SigningKey(secret(2))],
                AccountSource.RAW_KEY: [SigningKey(secret(3))],
            },
            self.files,
            Derivations(FAST, self.pause),
            self.clock,
            IdMaker(),
            lambda size: bytes([7]) * size,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def is_open(self, number: int) -> bool:
        try:
            self.accounts.key(address(number))
        except LockedError:
            return False
        return True


@pytest.fixture
def wallet() -> Wallet:
    return Wallet()


class SlowFunction:
    """A key derivation that waits until the test releases it, and counts how many run at once."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.calls = 0
        self.most_at_once = 0
        self._running = 0
        self._lock = Lock()

    async def has_begun(self) -> bool:
        return self.calls > 0

    def run(self, kdf: Scrypt, passphrase: bytes) -> bytes:
        with self._lock:
            self.calls += 1
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        self.go_on.wait(30)
        with self._lock:
            self._running -= 1
        return ORIGINAL(kdf, passphrase)


ORIGINAL = Scrypt.key


@pytest.fixture
async def slow(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlowFunction]:
    function = SlowFunction()

    def key(kdf: Scrypt, passphrase: bytes) -> bytes:
        return function.run(kdf, passphrase)

    monkeypatch.setattr(Scrypt, "key", key)
    yield function
    function.go_on.set()


def test_accounts_are_listed_by_where_their_keys_come_from(wallet: Wallet) -> None:
    listed = wallet.accounts.accounts()

    assert [account.address for account in listed] == [address(number) for number in range(1, 6)]
    assert wallet.accounts.addresses() == [account.address for account in listed]
    assert [account.source for account in listed] == [
        AccountSource.DEVELOPMENT,
        AccountSource.DEVELOPMENT,
        AccountSource.RAW_KEY,
        AccountSource.KEYSTORE,
        AccountSource.KEYSTORE,
    ]
    assert [account.is_unlocked for account in listed] == [True, True, True, False, False]


async def test_a_key_that_is_known_from_two_places_is_one_account(wallet: Wallet) -> None:
    wallet.files.write(address(2), key_file(2))

    listed = wallet.accounts.accounts()

    assert listed[1] == WalletAccount(address(2), AccountSource.DEVELOPMENT, is_unlocked=True)
    assert len(listed) == 5
    assert wallet.accounts.lock(address(2)) is False
    assert wallet.is_open(2)


def test_keys_of_the_settings_are_always_open(wallet: Wallet) -> None:
    assert [wallet.accounts.key(address(number)).address.lower() for number in (1, 3)] == [
        address(1),
        address(3),
    ]
    assert wallet.accounts.lock(address(1)) is False
    assert wallet.is_open(1)


async def test_a_key_of_the_settings_needs_no_passphrase(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(3), WRONG, 1)

    wallet.clock.advance(10)
    assert wallet.is_open(3)
    assert (await wallet.accounts.key_with(address(1), WRONG)).address.lower() == address(1)


def test_a_key_file_begins_locked(wallet: Wallet) -> None:
    with pytest.raises(LockedError, match=f"{address(4)} is locked"):
        wallet.accounts.key(address(4))


async def test_an_address_without_a_key_is_an_unknown_account(wallet: Wallet) -> None:
    with pytest.raises(UnknownAccountError, match=address(9)):
        wallet.accounts.key(address(9))
    with pytest.raises(UnknownAccountError):
        wallet.accounts.lock(address(9))
    with pytest.raises(UnknownAccountError):
        await wallet.accounts.unlock(address(9), PASSPHRASE)


@each_row(("seconds", "lasts"), [(None, 300), (1, 1), (3600, 3600)])
async def test_an_account_is_unlocked_for_a_time(wallet: Wallet, seconds: int | None, lasts: int) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, seconds)

    until_ms = wallet.clock.now_ms() + lasts * 1000
    assert wallet.accounts.key(address(4)).address.lower() == address(4)
    assert wallet.accounts.accounts()[3] == WalletAccount(address(4), AccountSource.KEYSTORE, True, until_ms)
    wallet.clock.advance(lasts - 0.001)
    assert wallet.is_open(4)
    wallet.clock.advance(0.001)
    assert not wallet.is_open(4)
    assert not wallet.accounts.accounts()[3].is_unlocked


@each_row("seconds", [-86_400, 86_400])
async def test_setting_the_clock_changes_no_unlock(wallet: Wallet, seconds: int) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 60)

    wallet.clock.set_by(seconds)

    assert wallet.is_open(4)
    assert wallet.accounts.accounts()[3].unlocked_until_ms == wallet.clock.now_ms() + 60_000
    wallet.clock.advance(60)
    assert not wallet.is_open(4)


async def test_zero_seconds_last_until_the_server_stops(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 0)

    wallet.clock.advance(10 * 365 * 86_400)
    assert wallet.is_open(4)
    wallet.accounts = wallet.restarted()
    assert not wallet.is_open(4)


@each_row("seconds", [-1, LONGEST_UNLOCK_SECONDS + 1, 10**30])
async def test_a_wrong_number_of_seconds_is_refused_before_the_passphrase_is_tried(
    wallet: Wallet, seconds: int
) -> None:
    with pytest.raises(InvalidInputError, match="for 1 to 1000000000 seconds, or for 0"):
        await wallet.accounts.unlock(address(4), WRONG, seconds)

    assert wallet.pauses == []


async def test_unlocking_again_sets_a_new_time(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 100)
    await wallet.accounts.unlock(address(4), PASSPHRASE, 10)

    wallet.clock.advance(10)
    assert not wallet.is_open(4)


async def test_an_unlock_without_an_end_stays_without_one(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 0)
    await wallet.accounts.unlock(address(4), PASSPHRASE, 10)

    wallet.clock.advance(10)
    assert wallet.is_open(4)


async def test_locking_takes_effect_at_once(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 0)

    assert wallet.accounts.lock(address(4)) is True
    assert not wallet.is_open(4)
    assert wallet.accounts.lock(address(4)) is True


async def test_a_passphrase_for_one_signature_leaves_the_account_locked(wallet: Wallet) -> None:
    key = await wallet.accounts.key_with(address(4), PASSPHRASE)

    assert key.address.lower() == address(4)
    assert not wallet.is_open(4)


async def test_a_passphrase_is_checked_though_the_account_is_open(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE)

    with pytest.raises(WrongPassphraseError):
        await wallet.accounts.key_with(address(4), WRONG)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    captured = CapturingLogger()
    monkeypatch.setattr(accounts, "log", captured)
    monkeypatch.setattr(accounts, "log", captured)
    return captured


async def test_a_wrong_passphrase_opens_nothing_and_is_slow_and_not_logged(
    wallet: Wallet, log: CapturingLogger
) -> None:
    with pytest.raises(WrongPassphraseError) as raised:
        await wallet.accounts.unlock(address(4), WRONG)

    assert not wallet.is_open(4)
    assert wallet.pauses == [1.0]
    assert [call.args for call in log.calls] == [("wrong_passphrase",)]
    assert WRONG not in f"{log.calls} {raised.value!r}"


async def test_a_right_passphrase_is_not_slowed_down_and_not_logged(
    wallet: Wallet, log: CapturingLogger
) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE)

    assert wallet.pauses == []
    assert [call.args for call in log.calls] == [("account_unlocked",)]
    assert PASSPHRASE not in str(log.calls)


@each_row("content", [b"", b"{}", key_file(5)])
async def test_a_key_file_that_cannot_be_opened_is_an_error_of_its_own(
    wallet: Wallet, content: bytes
) -> None:
    wallet.files.contents[address(4)] = content

    with pytest.raises(KeyFileError, match=f"The key file of {address(4)} cannot be opened"):
        await wallet.accounts.unlock(address(4), PASSPHRASE)

    assert not wallet.is_open(4)


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key derivation that gets no memory."""

    def scrypt(*arguments: object, **options: object) -> bytes:
        raise ValueError("[digital envelope routines] malloc failure")

    monkeypatch.setattr(hashlib, "scrypt", scrypt)


async def test_too_little_memory_makes_unlocking_unavailable(wallet: Wallet, no_memory: None) -> None:
    with pytest.raises(UnavailableError, match="cannot be tried: there are not 0 MiB of memory"):
        await wallet.accounts.unlock(address(4), PASSPHRASE)
    with pytest.raises(UnavailableError):
        await wallet.accounts.create(PASSPHRASE)

    assert wallet.pauses == []


async def test_the_event_loop_goes_on_while_a_key_is_derived(wallet: Wallet, slow: SlowFunction) -> None:
    unlocking = asyncio.create_task(wallet.accounts.unlock(address(4), PASSPHRASE))
    await eventually(slow.has_begun)

    assert wallet.is_open(1)
    slow.go_on.set()
    await unlocking
    assert wallet.is_open(4)


async def test_keys_are_derived_one_at_a_time(wallet: Wallet, slow: SlowFunction) -> None:
    unlocking = [
        asyncio.create_task(wallet.accounts.unlock(address(number), PASSPHRASE)) for number in (4, 5, 4, 5)
    ]
    await eventually(slow.has_begun)
    assert not wallet.is_open(5)

    slow.go_on.set()
    await asyncio.gather(*unlocking)

    assert (slow.calls, slow.most_at_once) == (4, 1)
    assert wallet.is_open(4)
    assert wallet.is_open(5)


async def test_derivations_of_one_account_do_not_take_all_places(wallet: Wallet, slow: SlowFunction) -> None:
    waiting = [asyncio.create_task(wallet.accounts.unlock(address(4), PASSPHRASE)) for _ in range(8)]
    await eventually(slow.has_begun)

    with pytest.raises(LimitError, match="try again"):
        await wallet.accounts.unlock(address(4), PASSPHRASE)
    other = asyncio.create_task(wallet.accounts.unlock(address(5), PASSPHRASE))

    slow.go_on.set()
    await asyncio.gather(other, *waiting)
    assert wallet.is_open(5)
    await wallet.accounts.unlock(address(4), PASSPHRASE)


async def test_derivations_have_a_limited_number_of_places(wallet: Wallet, slow: SlowFunction) -> None:
    waiting = [
        asyncio.create_task(wallet.accounts.import_key(secret(number), PASSPHRASE))
        for number in range(10, 74)
    ]
    await eventually(slow.has_begun)

    with pytest.raises(LimitError, match="try again"):
        await wallet.accounts.unlock(address(5), PASSPHRASE)

    slow.go_on.set()
    await asyncio.gather(*waiting)
    await wallet.accounts.unlock(address(5), PASSPHRASE)


async def test_a_wrong_passphrase_holds_back_its_own_account_alone(
    wallet: Wallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    pausing, go_on = asyncio.Event(), asyncio.Event()

    async def pause(_: float) -> None:
        pausing.set()
        await go_on.wait()

    monkeypatch.setattr(wallet, "pause", pause)
    accounts = wallet.restarted()
    guess = asyncio.create_task(accounts.unlock(address(4), WRONG))
    await pausing.wait()
    next_try = asyncio.create_task(accounts.unlock(address(4), PASSPHRASE))

    await accounts.unlock(address(5), PASSPHRASE)

    assert accounts.key(address(5))
    assert not next_try.done()
    go_on.set()
    with pytest.raises(WrongPassphraseError):
        await guess
    await next_try
    assert accounts.key(address(4))


async def test_a_wrong_passphrase_of_a_caller_that_left_is_logged_once_and_is_no_defect(
    wallet: Wallet, slow: SlowFunction, log: CapturingLogger
) -> None:
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    leaving = asyncio.create_task(wallet.accounts.unlock(address(4), WRONG))
    await eventually(slow.has_begun)
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving

    slow.go_on.set()
    with pytest.raises(WrongPassphraseError):  # it has its turn after the first
        await wallet.accounts.unlock(address(4), WRONG)
    gc.collect()

    assert unhandled == []
    assert [call.args for call in log.calls] == [("wrong_passphrase",)] * 2


async def test_a_caller_that_leaves_does_not_shorten_the_pause(wallet: Wallet, slow: SlowFunction) -> None:
    leaving = asyncio.create_task(wallet.accounts.unlock(address(4), WRONG))
    await eventually(slow.has_begun)
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving

    staying = asyncio.create_task(wallet.accounts.unlock(address(5), PASSPHRASE))
    slow.go_on.set()
    await staying

    assert (slow.calls, slow.most_at_once) == (2, 1)
    assert wallet.pauses == [1.0]
    assert not wallet.is_open(4)


async def test_a_new_account_is_stored_and_locked(wallet: Wallet) -> None:
    created = await wallet.accounts.create(PASSPHRASE)

    assert created == Address(SigningKey(bytes([7]) * 32).address.lower())
    assert wallet.accounts.accounts()[-1] == WalletAccount(created, AccountSource.KEYSTORE, is_unlocked=False)
    assert read_keystore(wallet.files.read(created)).open(PASSPHRASE.encode()) == bytes([7]) * 32
    assert (await wallet.restarted().key_with(created, PASSPHRASE)).address.lower() == created


async def test_a_key_is_imported_under_a_passphrase(wallet: Wallet) -> None:
    imported = await wallet.accounts.import_key(secret(8), PASSPHRASE)

    assert imported == address(8)
    assert not wallet.is_open(8)
    await wallet.accounts.unlock(address(8), PASSPHRASE)
    assert wallet.is_open(8)


@each_row("bad", [bytes(32), bytes(31), b"\xff" * 32])
async def test_bytes_that_are_no_key_are_not_imported(wallet: Wallet, bad: bytes) -> None:
    with pytest.raises(InvalidInputError, match="This is no private key"):
        await wallet.accounts.import_key(bad, PASSPHRASE)

    assert len(wallet.accounts.addresses()) == 5


async def test_an_account_that_has_a_file_is_not_imported_again(wallet: Wallet, slow: SlowFunction) -> None:
    before = wallet.files.read(address(4))

    with pytest.raises(AccountExistsError):
        await wallet.accounts.import_key(secret(4), "another passphrase")

    assert slow.calls == 0  # it is refused before anything slow
    assert wallet.files.read(address(4)) == before


async def test_a_key_file_is_imported_as_it_is(wallet: Wallet) -> None:
    imported = await wallet.accounts.import_file(key_file(8), PASSPHRASE)

    assert imported == address(8)
    assert wallet.files.read(address(8)) == key_file(8)


@each_row(("content", "passphrase"), [(key_file(8), WRONG), (b"{}", PASSPHRASE)])
async def test_a_key_file_that_does_not_open_is_not_imported(
    wallet: Wallet, content: bytes, passphrase: str
) -> None:
    with pytest.raises(InvalidInputError, match="The key file cannot be opened"):
        await wallet.accounts.import_file(content, passphrase)

    assert len(wallet.accounts.addresses()) == 5


async def test_a_file_that_is_added_while_the_server_runs_is_an_account(wallet: Wallet) -> None:
    wallet.files.write(address(6), key_file(6))

    assert wallet.accounts.addresses()[-1] == address(6)
    await wallet.accounts.unlock(address(6), PASSPHRASE)
    assert wallet.is_open(6)


async def test_the_sweep_forgets_keys_whose_time_is_over(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 10)
    await wallet.accounts.unlock(address(5), PASSPHRASE, 20)

    swept = []
    for seconds in (9.999, 0.001, 0):
        wallet.clock.advance(seconds)
        swept.append(await wallet.accounts.sweep(wallet.clock.now_ms()))

    assert swept == [0, 1, 0]
    assert (wallet.is_open(1), wallet.is_open(4), wallet.is_open(5)) == (True, False, True)


async def test_the_sweep_forgets_keys_whose_files_are_gone(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 0)
    del wallet.files.contents[address(4)]

    assert await wallet.accounts.sweep(wallet.clock.now_ms()) == 1

    with pytest.raises(UnknownAccountError):
        wallet.accounts.key(address(4))


async def test_a_key_whose_file_is_gone_signs_no_more(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 0)
    content = wallet.files.contents.pop(address(4))

    with pytest.raises(UnknownAccountError):
        wallet.accounts.key(address(4))

    wallet.files.write(address(4), content)
    assert not wallet.is_open(4)  # it is forgotten, and not only hidden


async def test_an_open_key_whose_file_is_gone_can_be_locked(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 0)
    content = wallet.files.contents.pop(address(4))

    assert wallet.accounts.lock(address(4)) is True

    wallet.files.write(address(4), content)
    assert not wallet.is_open(4)


async def test_the_sweep_keeps_open_keys_while_the_files_cannot_be_read(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 10)
    await wallet.accounts.unlock(address(5), PASSPHRASE, 20)
    wallet.files.is_broken = True
    wallet.clock.advance(10)

    assert await wallet.accounts.sweep(wallet.clock.now_ms()) == 1

    assert wallet.is_open(5)
    with pytest.raises(UnavailableError):
        wallet.accounts.addresses()
