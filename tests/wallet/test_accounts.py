"""Accounts: where their keys come from, for how long they are unlocked, and how passphrases are tried.

White-box: what takes time or memory, and files that go, are tried on the object: no client can order them.
"""

import asyncio
import gc
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import CapturingLogger

from bridge_server.ethereum.keystore import Scrypt, ScryptCost, make_keystore
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.errors import LimitError, UnavailableError
from bridge_server.kernel.secrets import IdMaker
from bridge_server.wallet import accounts, models
from bridge_server.wallet.accounts import (
    Accounts,
    Derivations,
    PrivateKeyError,
    read_private_key,
    read_private_keys,
)
from bridge_server.wallet.keystore_files import KeystoreFiles
from tests.ethereum.typed_data_examples import mail
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.waiting import eventually

FAST = ScryptCost(n=2, r=8, p=1)
PASSPHRASE = "pässwörd"
WRONG = "not the passphrase"
KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
ADDRESS = "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23"
PHRASE = "correct horse battery staple"
MESSAGE = "0x68656c6c6f"
FILLED = {"from": ADDRESS, "to": ADDRESS, "gas": "0x5208", "gasPrice": "0x1", "nonce": "0x0"}
KEY_1, KEY_2 = f"{1:064x}", f"{2:064X}"


def secret(number: int) -> bytes:
    return number.to_bytes(32)


def address(number: int) -> models.Address:
    return models.Address(SigningKey(secret(number)).address.lower())


def key_file(number: int) -> bytes:
    passphrase, salt, iv = PASSPHRASE.encode(), bytes(32), bytes(16)
    return make_keystore(secret(number), passphrase, cost=FAST, salt=salt, iv=iv, uuid="an-id")


class Files(KeystoreFiles):
    """Key files in memory."""

    def __init__(self) -> None:
        self.contents: dict[models.Address, bytes] = {}
        self.is_broken = False

    def addresses(self) -> Sequence[models.Address]:
        if self.is_broken:
            raise UnavailableError("the disk is gone")
        return list(self.contents)

    def read(self, address: models.Address) -> bytes:
        return self.contents[address]

    def write(self, address: models.Address, content: bytes) -> None:
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
        first, second, third = (SigningKey(secret(number)) for number in (1, 2, 3))
        keys = {models.AccountSource.DEVELOPMENT: [first, second], models.AccountSource.RAW_KEY: [third]}
        derivations = Derivations(FAST, self.pause)
        return Accounts(keys, self.files, derivations, self.clock, IdMaker(), lambda size: bytes([7]) * size)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def is_open(self, number: int) -> bool:
        try:
            self.accounts.key(address(number))
        except models.LockedError:
            return False
        return True


@pytest.fixture
def wallet() -> Wallet:
    return Wallet()


class SlowFunction:
    """A key derivation that waits until the test releases it, and counts how many run at once."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.calls = self.most_at_once = self._running = 0
        self._lock = Lock()
        self._key = Scrypt.key

    def has_begun(self) -> bool:
        return self.calls > 0

    def run(self, kdf: Scrypt, passphrase: bytes) -> bytes:
        with self._lock:
            self.calls += 1
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        self.go_on.wait(30)
        with self._lock:
            self._running -= 1
        return self._key(kdf, passphrase)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowFunction]:
    function = SlowFunction()

    def key(kdf: Scrypt, passphrase: bytes) -> bytes:
        return function.run(kdf, passphrase)

    monkeypatch.setattr(Scrypt, "key", key)
    yield function
    function.go_on.set()


def test_accounts_are_listed_by_where_their_keys_come_from(wallet: Wallet) -> None:
    listed = wallet.accounts.accounts()

    numbered = [(account.address, account.source, account.is_unlocked) for account in listed]
    assert numbered == [
        (address(1), models.AccountSource.DEVELOPMENT, True),
        (address(2), models.AccountSource.DEVELOPMENT, True),
        (address(3), models.AccountSource.RAW_KEY, True),
        (address(4), models.AccountSource.KEYSTORE, False),
        (address(5), models.AccountSource.KEYSTORE, False),
    ]
    assert wallet.accounts.addresses() == [account.address for account in listed]
    wallet.files.write(address(2), key_file(2))  # which does not make the key another account
    assert wallet.accounts.accounts() == listed
    assert wallet.accounts.lock(address(2)) is False
    assert wallet.is_open(2)


async def test_keys_of_the_settings_are_always_open_and_need_no_passphrase(wallet: Wallet) -> None:
    await wallet.accounts.unlock(address(3), WRONG, 1)
    wallet.clock.advance(10)
    assert wallet.accounts.lock(address(1)) is False
    assert (wallet.is_open(1), wallet.is_open(3)) == (True, True)
    assert (await wallet.accounts.key_with(address(1), WRONG)).address.lower() == address(1)


@each_row("seconds", [-86_400, 86_400])
async def test_setting_the_clock_changes_no_unlock(wallet: Wallet, seconds: int) -> None:
    await wallet.accounts.unlock(address(4), PASSPHRASE, 60)
    with pytest.raises(models.WrongPassphraseError):
        await wallet.accounts.key_with(address(4), WRONG)
    wallet.clock.set_by(seconds)
    assert wallet.is_open(4)
    assert wallet.accounts.accounts()[3].unlocked_until_ms == wallet.clock.now_ms() + 60_000
    wallet.clock.advance(60)
    assert not wallet.is_open(4)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    captured = CapturingLogger()
    monkeypatch.setattr(accounts, "log", captured)
    return captured


async def test_a_wrong_passphrase_is_slow_and_none_is_logged(wallet: Wallet, log: CapturingLogger) -> None:
    with pytest.raises(models.WrongPassphraseError):
        await wallet.accounts.unlock(address(4), WRONG)
    assert (wallet.is_open(4), wallet.pauses) == (False, [1.0])
    await wallet.accounts.unlock(address(4), PASSPHRASE)
    assert (wallet.is_open(4), wallet.pauses) == (True, [1.0])
    assert [call.args for call in log.calls] == [("wrong_passphrase",), ("account_unlocked",)]
    assert [each for each in (WRONG, PASSPHRASE) if each in str(log.calls)] == []


async def test_a_key_file_that_cannot_be_opened_and_too_little_memory_have_their_own_errors(
    wallet: Wallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = wallet.files.contents[address(4)]
    for wrong in (b"{}", key_file(5)):
        wallet.files.contents[address(4)] = wrong
        with pytest.raises(models.KeyFileError, match=f"The key file of {address(4)} cannot be opened"):
            await wallet.accounts.unlock(address(4), PASSPHRASE)

    wallet.files.contents[address(4)] = content
    failure = ValueError("[digital envelope routines] malloc failure")
    monkeypatch.setattr(hashlib, "scrypt", Mock(side_effect=failure))
    with pytest.raises(UnavailableError, match="cannot be tried: there are not 0 MiB of memory"):
        await wallet.accounts.unlock(address(4), PASSPHRASE)
    assert (wallet.is_open(4), wallet.pauses) == (False, [])


async def test_keys_are_derived_one_at_a_time(wallet: Wallet, slow: SlowFunction) -> None:
    unlocking = [
        asyncio.create_task(wallet.accounts.unlock(address(number), PASSPHRASE)) for number in (4, 5, 4, 5)
    ]
    await eventually(slow.has_begun)
    assert wallet.is_open(1)  # the event loop goes on
    assert not wallet.is_open(5)

    slow.go_on.set()
    await asyncio.gather(*unlocking)

    assert (slow.calls, slow.most_at_once) == (4, 1)
    assert (wallet.is_open(4), wallet.is_open(5)) == (True, True)


async def test_derivations_have_places_and_no_account_takes_all(wallet: Wallet, slow: SlowFunction) -> None:
    waiting = [asyncio.create_task(wallet.accounts.unlock(address(4), PASSPHRASE)) for _ in range(8)]
    await eventually(slow.has_begun)
    with pytest.raises(LimitError, match="try again"):
        await wallet.accounts.unlock(address(4), PASSPHRASE)

    imports = (wallet.accounts.import_key(secret(number), PASSPHRASE) for number in range(10, 66))
    others = [asyncio.create_task(each) for each in imports]
    await asyncio.sleep(0)
    with pytest.raises(LimitError, match="try again"):
        await wallet.accounts.unlock(address(5), PASSPHRASE)

    slow.go_on.set()
    await asyncio.gather(*waiting, *others)
    await wallet.accounts.unlock(address(5), PASSPHRASE)


async def test_a_wrong_passphrase_delays_no_other(wallet: Wallet, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(models.WrongPassphraseError):
        await guess
    await next_try
    assert accounts.key(address(4))


async def test_a_wrong_passphrase_of_a_caller_that_left_is_logged_has_its_pause_and_is_no_defect(
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
    with pytest.raises(models.WrongPassphraseError):  # it has its turn after the first
        await wallet.accounts.unlock(address(4), WRONG)
    gc.collect()

    assert unhandled == []
    assert [call.args for call in log.calls] == [("wrong_passphrase",)] * 2
    assert (slow.calls, slow.most_at_once, wallet.pauses) == (2, 1, [1.0, 1.0])


async def test_the_sweep_forgets_keys_whose_time_is_over_or_whose_files_are_gone(wallet: Wallet) -> None:
    async def swept_after(seconds: float) -> int:
        wallet.clock.advance(seconds)
        return await wallet.accounts.sweep(wallet.clock.now_ms())

    await wallet.accounts.unlock(address(4), PASSPHRASE, 10)
    await wallet.accounts.unlock(address(5), PASSPHRASE, 20)
    assert await swept_after(9.999) == 0

    wallet.files.is_broken = True
    with pytest.raises(UnavailableError):
        wallet.accounts.addresses()
    assert await swept_after(0.001) == 1
    assert wallet.is_open(5), "a file that cannot be read is not gone"
    wallet.files.is_broken = False
    assert await swept_after(0) == 0
    del wallet.files.contents[address(5)]
    assert await swept_after(0) == 1
    assert (wallet.is_open(1), wallet.is_open(4)) == (True, False)


async def test_a_key_whose_file_is_gone_is_forgotten_and_can_be_locked(wallet: Wallet) -> None:
    for lock in (True, False):
        await wallet.accounts.unlock(address(4), PASSPHRASE, 0)
        content = wallet.files.contents.pop(address(4))
        if lock:
            assert wallet.accounts.lock(address(4)) is True
        else:
            with pytest.raises(models.UnknownAccountError):
                wallet.accounts.key(address(4))

        wallet.files.write(address(4), content)
        assert not wallet.is_open(4)


@pytest.fixture
async def locked(rpc: RpcClient) -> RpcClient:
    """A wallet with a locked account."""
    assert await rpc.call("personal_importRawKey", KEY, PHRASE) == ADDRESS
    return rpc


@pytest.mark.own_server
@each_row(("method", "params", "named"), [
    ("eth_sign", (ADDRESS, MESSAGE), "personal_unlockAccount"),
    ("eth_signTypedData_v4", (ADDRESS, mail()), "personal_unlockAccount"),
    ("eth_signTransaction", (FILLED,), "personal_unlockAccount"),
    ("eth_sendTransaction", (FILLED,), "personal_unlockAccount"),
    ("personal_sign", (MESSAGE, ADDRESS, "wrong"), "passphrase"),
    ("personal_unlockAccount", (ADDRESS, "wrong"), "passphrase"),
])  # fmt: skip
async def test_locked_accounts_sign_nothing_also_with_a_wrong_passphrase(
    locked: RpcClient, method: str, params: tuple[Any, ...], named: str
) -> None:
    error = await locked.error(method, *params)
    assert error.code == 4100
    assert named in error.message
    assert "wrong" not in error.message
    assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100


@each_row(("unlocked_for", "lasts"), [
    ([()], 300), ([(1,)], 1), ([(3_600,)], 3_600), ([(100,), (10,)], 10), ([(0,), (10,)], None),
    # the later time counts, and an unlock without an end stays
])  # fmt: skip
@pytest.mark.own_server
async def test_an_account_is_unlocked_for_a_time(
    locked: RpcClient, unlocked_for: list[tuple[int, ...]], lasts: int | None
) -> None:
    for seconds in unlocked_for:
        assert await locked.call("personal_unlockAccount", ADDRESS, PHRASE, *seconds) is True

    locked.server.clock.advance((lasts or 10 * 365 * 86_400) - 0.001)
    signature = await locked.call("eth_sign", ADDRESS, MESSAGE)
    assert await locked.call("personal_ecRecover", MESSAGE, signature) == ADDRESS
    if lasts is not None:
        locked.server.clock.advance(0.001)
        assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100

    assert await locked.call("personal_lockAccount", ADDRESS) is True
    assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100


@pytest.mark.own_server
async def test_a_new_account_is_listed_and_locked_and_signs_with_its_passphrase(rpc: RpcClient) -> None:
    address = await rpc.call("personal_newAccount", PHRASE)
    signature = await rpc.call("personal_sign", MESSAGE, address, PHRASE)
    assert (await rpc.call("eth_accounts"))[-1] == address
    assert await rpc.call("personal_ecRecover", MESSAGE, signature) == address
    assert (await rpc.error("personal_sign", MESSAGE, address)).code == 4100


@pytest.mark.own_server
async def test_malformed_keys_and_seconds_are_refused_and_no_key_is_in_the_error(locked: RpcClient) -> None:
    count = len(await locked.call("eth_accounts"))
    for key in ("", f"{KEY}00", "ff" * 32, 1):
        error = await locked.error("personal_importRawKey", key, PHRASE)
        assert error.code == -32602, key
        assert "ff" * 8 not in error.message
        assert KEY[2:] not in error.message
    for seconds in ("60", 1.5, -1, True, 10**18):
        error = await locked.error("personal_unlockAccount", ADDRESS, PHRASE, seconds)
        assert error.code == -32602, seconds

    assert len(await locked.call("eth_accounts")) == count
    assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100


def test_a_key_is_64_digits_with_a_prefix_or_without() -> None:
    for text in (KEY_1, f"0x{KEY_1}", f"0X{KEY_1}", f" {KEY_1}\n"):
        assert read_private_key(text) == secret(1), text


@each_row(("text", "count"), [
    *((text, 0) for text in ("", "\n", "# none yet", ",")),
    *((text, 2) for text in (f"{KEY_1},{KEY_2}", f"0x{KEY_1} , 0x{KEY_2},", f"{KEY_1}\n\n{KEY_2}\n")),
    (f"# mine\n{KEY_1} # the first, {KEY_2}\r\n{KEY_2}", 2),
])  # fmt: skip
def test_keys_are_separated_by_commas_spaces_or_lines(text: str, count: int) -> None:
    expected = [SigningKey(secret(number)).address for number in range(1, count + 1)]
    assert [key.address for key in read_private_keys(text)] == expected


@each_row("bad", [f"{KEY_1}0", "\u0661" * 64, "g" * 64, f"0x0x{KEY_1[4:]}", "0" * 64, "f" * 64])
def test_a_malformed_key_is_named_by_its_place_alone(bad: str) -> None:
    with pytest.raises(PrivateKeyError, match=r"^key 2 of 3: a private key (has|lies)") as raised:
        read_private_keys(f"{KEY_1},{bad},{KEY_2}")
    assert bad not in str(raised.value)
