"""personal_sign and eth_sign: signatures that verifiers accept, and refused parameters."""

from pathlib import Path
from typing import Any

from tests.ethereum.vectors import vectors
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import running_server

MESSAGE = "0x68656c6c6f"
CHECKSUMMED = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
UNKNOWN = "0x00000000000000000000000000000000000000aa"


async def test_signatures_equal_an_independent_implementations(tmp_path: Path) -> None:
    messages = vectors("messages.json")
    keys = ",".join(sorted({vector["key"] for vector in messages}))

    async with running_server(tmp_path / "data", private_keys=keys) as server:
        rpc = RpcClient(server)
        signers = {await signer_of(rpc, vector): vector for vector in messages}
        signed = {
            signer: await rpc.call("personal_sign", vector["message"], signer)
            for signer, vector in signers.items()
        }

    assert signed == {signer: vector["signature"] for signer, vector in signers.items()}


async def signer_of(rpc: RpcClient, vector: dict[str, Any]) -> str:
    """Whose key the vector was made with."""
    signer: str = await rpc.call("personal_ecRecover", vector["message"], vector["signature"])
    return signer


@each_row("message", ["0x", "0x00", "0x" + "ff" * 100_000, "0xABCDEF", "0x" + "00" * 32])
async def test_any_bytes_are_signed(rpc: RpcClient, message: str) -> None:
    signature = await rpc.call("personal_sign", message, DEVELOPMENT_ADDRESS)

    assert await rpc.call("personal_ecRecover", message, signature) == DEVELOPMENT_ADDRESS
    assert await rpc.call("eth_sign", DEVELOPMENT_ADDRESS, message) == signature


@each_row("spelled", [CHECKSUMMED, DEVELOPMENT_ADDRESS, "0x" + CHECKSUMMED[2:].upper()])
async def test_an_account_may_have_capitals(rpc: RpcClient, spelled: str) -> None:
    signature = await rpc.call("personal_sign", MESSAGE, spelled)

    assert signature == await rpc.call("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS)


@each_row(
    ("message", "account", "place"),
    [
        ("hello", DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        ("68656c6c6f", DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        ("0x123", DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        ("0x6 8", DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        ("0xgg", DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        (1, DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        (None, DEVELOPMENT_ADDRESS, "params[0] must be DATA"),
        (MESSAGE, "0x12", "params[1] must be an address"),
        (MESSAGE, DEVELOPMENT_ADDRESS[2:], "params[1] must be an address"),
        (MESSAGE, f"{DEVELOPMENT_ADDRESS}00", "params[1] must be an address"),
        (MESSAGE, None, "params[1] must be an address"),
        (MESSAGE, CHECKSUMMED.replace("F", "f", 1), "params[1] has a wrong checksum"),
    ],
)
async def test_an_error_names_the_place_of_the_wrong_parameter(
    rpc: RpcClient, message: Any, account: Any, place: str
) -> None:
    error = await rpc.error("personal_sign", message, account)

    assert error.code == -32602
    assert error.message.startswith(place)


@each_row(
    ("method", "params"),
    [
        ("personal_sign", (DEVELOPMENT_ADDRESS, "hello")),
        ("personal_sign", (DEVELOPMENT_ADDRESS, MESSAGE)),
        ("eth_sign", (MESSAGE, DEVELOPMENT_ADDRESS)),
        ("eth_signTypedData", ({"types": {}}, DEVELOPMENT_ADDRESS)),
    ],
)
async def test_swapped_parameters_get_an_error_with_their_order(
    rpc: RpcClient, method: str, params: tuple[Any, ...]
) -> None:
    error = await rpc.error(method, *params)

    assert error.code == -32602
    assert "personal_sign takes [message, account]" in error.message


async def test_a_message_of_twenty_bytes_is_no_account(rpc: RpcClient) -> None:
    signature = await rpc.call("personal_sign", UNKNOWN, DEVELOPMENT_ADDRESS)

    assert await rpc.call("personal_ecRecover", UNKNOWN, signature) == DEVELOPMENT_ADDRESS


@each_row("params", [(), (MESSAGE,), (MESSAGE, DEVELOPMENT_ADDRESS, None, None)])
async def test_a_wrong_number_of_parameters_gets_an_error_that_lists_them(
    rpc: RpcClient, params: tuple[Any, ...]
) -> None:
    error = await rpc.error("personal_sign", *params)

    assert error.code == -32602
    assert "[message, account, passphrase?]" in error.message


async def test_parameters_by_name_are_refused(rpc: RpcClient) -> None:
    named = {"message": MESSAGE, "account": DEVELOPMENT_ADDRESS}
    answer = await rpc.send({**rpc.request("personal_sign"), "params": named})

    assert answer["error"]["code"] == -32602
    assert "must be an array" in answer["error"]["message"]


async def test_an_unknown_account_signs_nothing(rpc: RpcClient) -> None:
    error = await rpc.error("personal_sign", MESSAGE, UNKNOWN)

    assert error.code == 4100
    assert UNKNOWN in error.message


@each_row("signature", ["0x", "0x" + "00" * 64, "0x" + "00" * 65, "0x" + "11" * 64 + "25", 7])
async def test_a_malformed_signature_has_no_signer(rpc: RpcClient, signature: Any) -> None:
    error = await rpc.error("personal_ecRecover", MESSAGE, signature)

    assert error.code == -32602
    assert error.message.startswith("params[1]")
