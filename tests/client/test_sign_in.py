"""Dapps of generation 2.x that ask wallets to sign in, along with a session or by one signature."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from bridge_server.ethereum.sign_in_message import parse_sign_in_message
from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.kit import client
from bridge_server.kit.client import Approval, Authentication, BadPayloadError, Dapp, Wallet
from bridge_server.kit.client.authentication import message_of, read_authentication, verified
from bridge_server.kit.client.authentication import write_authentication as written
from bridge_server.kit.client.v2 import PairingRequests
from bridge_server.kit.client.v2_protocol import RelayPairing
from bridge_server.kit.client.websocket import Conversation
from tests.client.pairs import BRISK, dapp_at, wallet_for
from tests.support.rows import each_row
from tests.support.server import RunningServer

KEY = SigningKey(bytes(31) + b"\x07")
ACCOUNT = f"eip155:1:{KEY.address}"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
both_ways = each_row("one_click", [False, True], ids=["proposal", "one click"])


def asked(**changes: Any) -> Authentication:
    given = {"domain": "dapp.example", "uri": "https://dapp.example/login", "statement": "Sign in."}
    return Authentication(**{**given, "methods": ("personal_sign", "eth_sign"), **changes})


def signature_of(message: str, key: SigningKey = KEY) -> str:
    return "0x" + key.sign(personal_message_hash(message.encode())).hex()


def signed(request: Authentication, account: str = ACCOUNT, key: SigningKey = KEY) -> dict[str, Any]:
    return request.cacao(account, signature_of(request.message(account), key))


@asynccontextmanager
async def asking(
    relay: RunningServer, one_click: bool, authentication: Authentication | None = None
) -> AsyncIterator[tuple[Dapp, Wallet]]:
    """A dapp that asks to sign in, and the wallet that has its URI."""
    asked_for = authentication or asked()
    async with (
        dapp_at(relay.url, "2.x", authentication=asked_for, one_click=one_click) as dapp,
        wallet_for(dapp, relay.url) as wallet,
    ):
        yield dapp, wallet


async def answered(relay: RunningServer, one_click: bool, *, signs: bool) -> Approval:
    """The approval as the dapp sees it, whose call the wallet then answers."""
    async with asking(relay, one_click) as (dapp, wallet):
        (request,) = (await wallet.proposal()).authentications
        await wallet.approve([KEY.address], cacaos=[signed(request)] if signs else [])
        approval = await dapp.approval()
        call_id = await dapp.request("personal_sign", ["0x00"])
        call = await anext(wallet.calls())
        assert call.method == "personal_sign"
        await wallet.answer(call, "0x01")
        assert await dapp.result(call_id) == "0x01"
        await dapp.end()
    return approval


@both_ways
async def test_a_wallet_signs_in_or_approves_a_session_alone(relay: RunningServer, one_click: bool) -> None:
    approval = await answered(relay, one_click, signs=True)
    alone = await answered(relay, one_click, signs=False)
    assert (approval.signed_in, alone.signed_in) == ((ACCOUNT,), ())
    assert approval.accounts == alone.accounts == (KEY.address,)
    (cacao,) = approval.cacaos
    assert parse_sign_in_message(message_of(cacao["p"])).domain == "dapp.example"


@both_ways
async def test_a_rejection_or_another_account_is_no_sign_in(relay: RunningServer, one_click: bool) -> None:
    async with asking(relay, one_click) as (dapp, wallet):
        await wallet.reject()
        with pytest.raises(client.RejectedError, match="User rejected"):
            await dapp.approval()
    async with asking(relay, one_click) as (dapp, wallet):
        (request,) = (await wallet.proposal()).authentications
        other = SigningKey(bytes(31) + b"\x08")
        await wallet.approve([KEY.address], cacaos=[signed(request, key=other)])
        with pytest.raises(BadPayloadError, match="another account"):
            await dapp.approval()
        if not one_click:
            assert [call async for call in wallet.calls()] == []


async def test_a_sign_in_without_methods_makes_no_session(relay: RunningServer) -> None:
    async with asking(relay, True, asked(methods=())) as (dapp, wallet):
        (request,) = (await wallet.proposal()).authentications
        assert await wallet.approve([KEY.address], cacaos=[signed(request)]) is None
        assert (await dapp.approval()).signed_in == (ACCOUNT,)
        assert [call async for call in wallet.calls()] == []
        with pytest.raises(client.SessionEndedError):
            await dapp.call("personal_sign", [])


@each_row("generation", ["plain", "1.x"])
async def test_other_generations_have_no_sign_ins(server: RunningServer, generation: Any) -> None:
    with pytest.raises(ValueError, match=r"2\.x"):
        Dapp(server.url, name="Dapp", generation=generation, authentication=asked())
    async with (
        Dapp(server.url, name="Dapp", generation=generation, pace=BRISK) as dapp,
        Wallet.from_uri(dapp.uri, generation=generation, pace=BRISK) as wallet,
    ):
        with pytest.raises(client.UnsupportedError):
            await wallet.approve([KEY.address], cacaos=[{}])


def test_a_dapp_asks_for_nothing_that_wallets_cannot_sign() -> None:
    new = partial(Dapp, "http://127.0.0.1:9", name="Dapp", generation="2.x")
    wrong: list[dict[str, Any]] = [
        {"chains": ("solana:1",)}, {"nonce": "has spaces"}, {"domain": ""}, {"statement": "two\nlines"},
        {"statement": "Grüezi"}, {"expires_at": "tomorrow"}, {"not_before": "2026-01-01T00:00:00"},
    ]  # fmt: skip
    for changes in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own text
            new(authentication=asked(**changes))
    with pytest.raises(ValueError, match="needs an authentication"):
        new(one_click=True)
    with pytest.raises(ValueError, match="eip155:1"):
        asked().message(f"eip155:5:{KEY.address}")


def test_the_message_says_which_methods_the_signature_allows() -> None:
    lines = asked(nonce="n" * 8, issued_at="2026-01-01T00:00:00Z").message(ACCOUNT).splitlines()
    assert lines[3] == (
        "Sign in. I further authorize the stated URI to perform the following actions on my behalf: "
        "(1) 'request': 'eth_sign', 'personal_sign' for 'eip155'."
    )
    assert lines[-2:] == ["Resources:", "- urn:recap:" + lines[-1].rpartition(":")[2]]


TIMED = asked(
    issued_at="2026-01-01T00:00:00Z", expires_at="2026-01-03T00:00:00Z", not_before="2026-01-01T00:00:00Z"
)


def test_a_request_is_read_as_it_was_written_unless_it_would_forge_lines() -> None:
    read = read_authentication(written(TIMED))
    assert read.message(ACCOUNT) == TIMED.message(ACCOUNT)
    assert verified(signed(read), written(TIMED), NOW) == ACCOUNT
    wrong: list[Any] = [None, {}, {"chains": []}, {**written(TIMED), "nonce": "two\nlines"}, {"resources": 7}]
    for content in wrong:
        with pytest.raises(BadPayloadError):
            read_authentication(content)


@each_row(
    ("member", "value", "reason"),
    [
        ("domain", "evil.example", "domain"), ("nonce", "otherotherother", "nonce"),
        ("aud", "https://evil.example", "aud"), ("iss", f"did:pkh:eip155:5:{KEY.address}", "eip155:5"),
        ("iss", 7, "iss"), ("iss", f"did:pkh:solana:1:{KEY.address}", "iss"), ("version", "2", "version"),
        ("iat", "2026-01-03T00:00:00Z", "future"), ("iat", "yesterday", "iat must be a time"),
        ("exp", "2026-01-02T00:00:00Z", "expired"), ("exp", "never", "exp must be a time"),
        ("nbf", "2026-01-02T00:00:01Z", "not valid yet"), ("statement", "two\nlines", "line break"),
        ("resources", [7], "resources"), ("resources", ["urn:recap:=?"], "recap"),
    ],
)  # fmt: skip
def test_an_answer_to_another_request_is_refused(member: str, value: Any, reason: str) -> None:
    cacao = signed(TIMED)
    cacao["p"][member] = value
    with suppress(BadPayloadError):  # no message can be made of some
        cacao["s"]["s"] = signature_of(message_of(cacao["p"]))
    with pytest.raises(BadPayloadError, match=reason):
        verified(cacao, written(TIMED), NOW)


@each_row(
    ("change", "reason"),
    [
        (lambda cacao: cacao["s"].update(t="eip1271"), "EIP-191"),
        (lambda cacao: cacao["h"].update(t="other"), "EIP-191"),
        (lambda cacao: cacao["s"].update(s="0x12"), "no signature"),
        (lambda cacao: cacao["s"].update(s="0xzz"), "no signature"),
        (lambda cacao: cacao["p"].pop("aud"), "aud"),
        (lambda cacao: cacao.pop("s"), "CAIP-74"),
        (lambda cacao: cacao["p"].update(requestId="1"), "another account"),
    ],
)
def test_a_changed_answer_is_refused(change: Callable[[Any], object], reason: str) -> None:
    cacao = signed(TIMED)
    change(cacao)
    with pytest.raises(BadPayloadError, match=reason):
        verified(cacao, written(TIMED), NOW)


def test_a_sign_in_that_cannot_be_read_leaves_the_proposal() -> None:
    unreadable = {"chains": ["two\nlines"], "domain": "dapp.example"}
    proposer = {"publicKey": "09".rjust(64, "0"), "metadata": {"name": "Dapp"}}
    alone, with_sign_in = (
        {"id": 2, "method": "wc_sessionPropose", "params": {"proposer": proposer, "requests": along}}
        for along in ({}, {"authentication": [unreadable]})
    )
    params = {"requester": proposer, "authPayload": unreadable}
    one_click = {"id": 1, "method": "wc_sessionAuthenticate", "params": params}
    asking = ("wc_sessionAuthenticate",)
    rows: list[tuple[tuple[str, ...], list[Any]]] = [
        ((), [with_sign_in]), (asking, [one_click, alone]), (asking, [alone, one_click])
    ]  # fmt: skip
    for methods, contents in rows:
        conversation = Conversation()
        requests = PairingRequests(RelayPairing(bytes(32), methods=methods), conversation)
        for content in contents:
            with suppress(BadPayloadError):
                requests.heard(content)
        assert requests.one_click is None
        assert conversation.proposal is not None
        assert (conversation.proposal.name, conversation.proposal.authentications) == ("Dapp", ())
