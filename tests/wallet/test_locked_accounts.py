"""Accounts that are locked sign nothing until they are unlocked; personal_sign may bring the passphrase."""

from typing import Any

import pytest

from tests.ethereum.typed_data_examples import mail
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient

pytestmark = pytest.mark.own_server

KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
ADDRESS = "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23"
PASSPHRASE = "correct horse battery staple"
MESSAGE = "0x68656c6c6f"
FILLED = {"from": ADDRESS, "to": ADDRESS, "gas": "0x5208", "gasPrice": "0x1", "nonce": "0x0"}


@pytest.fixture
async def locked(rpc: RpcClient) -> RpcClient:
    """A wallet with a locked account."""
    assert await rpc.call("personal_importRawKey", KEY, PASSPHRASE) == ADDRESS
    return rpc


@each_row(
    ("method", "params"),
    [
        ("personal_sign", (MESSAGE, ADDRESS)),
        ("eth_sign", (ADDRESS, MESSAGE)),
        ("eth_signTypedData", (ADDRESS, mail())),
        ("eth_signTypedData_v4", (ADDRESS, mail())),
        ("eth_signTransaction", (FILLED,)),
        ("eth_sendTransaction", (FILLED,)),
    ],
)
async def test_a_locked_account_signs_nothing(
    locked: RpcClient, method: str, params: tuple[Any, ...]
) -> None:
    error = await locked.error(method, *params)

    assert error.code == 4100
    assert "personal_unlockAccount" in error.message


async def test_unlocking_opens_an_account_for_a_time(locked: RpcClient) -> None:
    assert await locked.call("personal_unlockAccount", ADDRESS, PASSPHRASE, 60) is True
    signature = await locked.call("eth_sign", ADDRESS, MESSAGE)
    locked.server.clock.advance(60)
    error = await locked.error("eth_sign", ADDRESS, MESSAGE)

    assert await locked.call("personal_ecRecover", MESSAGE, signature) == ADDRESS
    assert error.code == 4100


async def test_locking_closes_an_account_at_once(locked: RpcClient) -> None:
    await locked.call("personal_unlockAccount", ADDRESS, PASSPHRASE)

    assert await locked.call("personal_lockAccount", ADDRESS) is True
    assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100


async def test_personal_sign_takes_the_passphrase_as_its_third_parameter(locked: RpcClient) -> None:
    signature = await locked.call("personal_sign", MESSAGE, ADDRESS, PASSPHRASE)

    assert await locked.call("personal_ecRecover", MESSAGE, signature) == ADDRESS
    assert (await locked.error("personal_sign", MESSAGE, ADDRESS)).code == 4100


@each_row(
    ("method", "params"),
    [
        ("personal_sign", (MESSAGE, ADDRESS, "wrong")),
        ("personal_unlockAccount", (ADDRESS, "wrong")),
    ],
)
async def test_a_wrong_passphrase_opens_nothing(
    locked: RpcClient, method: str, params: tuple[Any, ...]
) -> None:
    error = await locked.error(method, *params)

    assert error.code == 4100
    assert "passphrase" in error.message
    assert "wrong" not in error.message
    assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100


@each_row("passphrase", [None, ""])
async def test_an_account_that_is_never_locked_needs_no_passphrase(
    rpc: RpcClient, passphrase: str | None
) -> None:
    signature = await rpc.call("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS, passphrase)

    assert signature == await rpc.call("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS)


async def test_a_new_account_is_listed_and_locked(rpc: RpcClient) -> None:
    address = await rpc.call("personal_newAccount", PASSPHRASE)

    assert (await rpc.call("eth_accounts"))[-1] == address
    assert (await rpc.error("eth_sign", address, MESSAGE)).code == 4100


@pytest.mark.parametrize("spelled", [KEY, KEY[2:], KEY.upper().replace("X", "x")])
async def test_a_key_is_imported_with_or_without_its_prefix(rpc: RpcClient, spelled: str) -> None:
    assert await rpc.call("personal_importRawKey", spelled, PASSPHRASE) == ADDRESS


@each_row("key", ["", "0x", "0x12", f"{KEY}00", "zz" * 32, "00" * 32, "ff" * 32, 1, None])
async def test_a_malformed_key_is_not_imported_and_not_repeated_in_the_error(
    rpc: RpcClient, key: Any
) -> None:
    error = await rpc.error("personal_importRawKey", key, PASSPHRASE)

    assert error.code == -32602
    assert "ff" * 8 not in error.message
    assert KEY[2:] not in error.message
    assert len(await rpc.call("eth_accounts")) == 10


@each_row("seconds", ["60", "0x3c", 1.5, -1, True, 10**18, [], {}])
async def test_seconds_are_a_whole_number(locked: RpcClient, seconds: Any) -> None:
    error = await locked.error("personal_unlockAccount", ADDRESS, PASSPHRASE, seconds)

    assert error.code == -32602
    assert (await locked.error("eth_sign", ADDRESS, MESSAGE)).code == 4100
