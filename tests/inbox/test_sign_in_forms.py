"""Signing in with Ethereum: what is a message, and what its signature."""

from typing import Any

from tests.support.asking import ask
from tests.support.inbox_client import (
    get_nonce,
    post_login,
    sound_fields,
)
from tests.support.problems import pointers
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.wallet import Wallet

WALLET = Wallet(1)
CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


async def test_a_signature_of_another_account_is_refused(server: RunningServer) -> None:
    message = WALLET.message(**sound_fields(server, await get_nonce(server)))

    problem = (await post_login(server, message, Wallet(2).sign(message))).problem(401)

    assert Wallet(2).address in problem["detail"]


async def test_a_signature_of_another_text_is_refused(server: RunningServer) -> None:
    message = WALLET.message(**sound_fields(server, await get_nonce(server)))
    other = message.replace("Chain ID: 1", "Chain ID: 2")

    (await post_login(server, message, WALLET.sign(other))).problem(401)


@each_row(
    "signature",
    [
        "", "0x", "0x" + "0" * 130, "0x" + "f" * 130, "0x" + "0" * 129, "0x" + "0" * 131, "0" * 132,
        "0x" + "g" * 130, "0x" + "１" * 130, "0x" + "0" * 130 + "\n", None, 7, [], {},
    ],
)  # fmt: skip
async def test_malformed_signature_is_refused(server: RunningServer, signature: Any) -> None:
    message = WALLET.message(**sound_fields(server, await get_nonce(server)))

    assert pointers((await post_login(server, message, signature)).problem(400)) == ["#/signature"]


async def test_the_twin_with_a_high_s_is_refused(server: RunningServer) -> None:
    message = WALLET.message(**sound_fields(server, await get_nonce(server)))
    signature = bytes.fromhex(WALLET.sign(message)[2:])
    high_s = CURVE_ORDER - int.from_bytes(signature[32:64])
    twin = signature[:32] + high_s.to_bytes(32) + bytes([55 - signature[64]])

    problem = (await post_login(server, message, f"0x{twin.hex()}")).problem(400)

    assert pointers(problem) == ["#/signature"]
    assert (await post_login(server, message, f"0x{signature.hex()}")).status == 200


@each_row("spell", [str.upper, str.lower], ids=["capitals", "small letters"])
async def test_v_may_be_0_or_1_and_digits_may_be_capitals(server: RunningServer, spell: Any) -> None:
    message = WALLET.message(**sound_fields(server, await get_nonce(server)))
    signature = WALLET.sign(message)
    parity = int(signature[-2:], 16) - 27

    answer = await post_login(server, message, f"0x{spell(signature[2:-2])}0{parity}")

    assert answer.status == 200


@each_row(
    "message",
    ["", "hello", "\x00", "é" * 4_096, "𝔘" * 9, "x" * 8_193, "\n" * 8_192, None, 7, [], {}, True],
)
async def test_malformed_message_and_signature_are_refused_together(
    server: RunningServer, message: Any
) -> None:
    problem = (await post_login(server, message, "none")).problem(400)

    assert sorted(pointers(problem)) == ["#/message", "#/signature"]


async def test_a_message_with_windows_line_ends_is_refused(server: RunningServer) -> None:
    message = WALLET.message(**sound_fields(server, await get_nonce(server))).replace("\n", "\r\n")

    assert pointers((await post_login(server, message, WALLET.sign(message))).problem(400)) == ["#/message"]


@each_row("length", [8_192, 8_193])
async def test_a_message_has_at_most_eight_kibibytes(server: RunningServer, length: int) -> None:
    fields = sound_fields(server, await get_nonce(server))
    room = length - len(WALLET.message(**fields, statement="")) - 1
    message = WALLET.message(**fields, statement="a" * (room + 1))
    assert len(message) == length

    answer = await post_login(server, message, WALLET.sign(message))

    assert answer.status == (200 if length == 8_192 else 400)


@each_row(
    "body",
    [
        b"", b"null", b"[]", b"{", b'{"message":"\\ud800","signature":""}', b'{"message":"\xff"}',
        b'{"message":NaN}', b'{"message":"a","message":"b","signature":""}',
    ],
)  # fmt: skip
async def test_body_other_than_a_json_object_is_refused(server: RunningServer, body: bytes) -> None:
    (await ask(server, "POST", "/inbox/login", body)).problem(400)
