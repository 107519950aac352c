"""The keys behind a headless wallet: of a mnemonic, of a file, of another wallet; with a node and without."""

from pathlib import Path
from typing import Any

import pytest

from bridge_server.ethereum.address import data_of
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import read_raw_transaction
from bridge_server.kernel.errors import InvalidInputError, UpstreamError
from bridge_server.kit.headless import Failure, HeadlessWallet, Result
from bridge_server.kit.testing.fake_node import body, open_fake_node, says
from bridge_server.wallet.models import NoNodeError
from tests.headless.dapps import BRISK, FIRST, SECOND, SIGN, paired
from tests.support.server import RunningServer, running_server

PAYMENT = {"from": FIRST, "to": SECOND, "value": "0x1"}
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


async def of_page(wallet: HeadlessWallet, method: str, params: Any) -> Any:
    """The result of a call of a connected page."""
    await wallet.request("eth_requestAccounts")
    outcome = await wallet.request(method, params)
    return outcome.value if isinstance(outcome, Result) else outcome


async def test_without_a_node_a_transaction_is_answered_by_its_hash_and_kept() -> None:
    async with HeadlessWallet(chain_id=5) as wallet:
        hashes = [await of_page(wallet, "eth_sendTransaction", [PAYMENT]) for _number in range(2)]
        signed = await of_page(wallet, "eth_signTransaction", [{**PAYMENT, "maxFeePerGas": "0x77359400"}])
        raw = [read_raw_transaction(data_of(text)) for text in (*wallet.sent, signed)]
    assert [f"0x{each.hash.hex()}" for each in raw[:2]] == hashes
    found = [(each.nonce, each.chain_id, each.sender) for each in raw]
    assert found == [(nonce, 5, FIRST.lower()) for nonce in range(3)]


async def test_with_a_node_a_transaction_is_filled_in_and_sent_on_its_chain() -> None:
    async with open_fake_node() as node:
        node.results |= {"eth_chainId": "0x64", "eth_getTransactionCount": "0x7"}
        async with HeadlessWallet(node_url=node.url) as wallet:
            assert await wallet.request("eth_chainId") == Result("0x64")
            sent_hash = await of_page(wallet, "eth_sendTransaction", [PAYMENT])
            sent_again = await of_page(wallet, "eth_sendRawTransaction", node.sent()[:1])
        (first, second) = node.sent()

    assert read_raw_transaction(data_of(first)).nonce == 7
    assert (sent_hash, first) == (sent_again, second)
    assert wallet.sent == []


async def test_errors_of_a_node_are_passed_on_and_it_must_answer_at_the_start() -> None:
    async with open_fake_node() as node, HeadlessWallet(node_url=node.url) as wallet:
        node.at("eth_sendRawTransaction", says(-32000, "insufficient funds"))
        failure = await of_page(wallet, "eth_sendTransaction", [PAYMENT])
        other_chain = await of_page(wallet, "eth_sendTransaction", [{**PAYMENT, "chainId": "0x1"}])
    assert failure == Failure(-32000, "insufficient funds")
    assert other_chain.code == -32602
    assert "switch the chain first" in other_chain.message

    with pytest.raises(NoNodeError):
        async with HeadlessWallet(node_url="http://127.0.0.1:1"):
            pass


async def test_a_wallet_may_have_other_words_or_keys_and_no_account_that_they_do_not_give() -> None:
    async with HeadlessWallet([3, 11], mnemonic=WORDS) as wallet:
        derived = wallet.accounts
    key = SigningKey(bytes([1] * 32))
    async with HeadlessWallet(private_keys=[key]) as wallet:
        assert wallet.accounts == [key.address]
    assert (len(derived), key.address in derived) == (2, False)

    with pytest.raises(InvalidInputError, match="The wallet has no account 1"):
        async with HeadlessWallet([1], private_keys=[key]):
            pass
    with pytest.raises(ValueError, match="name one of them"):
        HeadlessWallet(mnemonic=WORDS, rpc="http://127.0.0.1:1/rpc")
    with pytest.raises(ValueError, match="leave out the node"):
        HeadlessWallet(node_url="http://127.0.0.1:1", rpc="http://127.0.0.1:1/rpc")


async def test_another_wallets_rpc_signs(relay: RunningServer, tmp_path: Path) -> None:
    async with (
        running_server(tmp_path / "signer", dev_accounts=True, rpc_token="t" * 32) as signer,
        HeadlessWallet(rpc=f"{signer.url}/rpc", rpc_token="t" * 32, pace=BRISK) as wallet,
        paired(wallet, relay.url, "plain") as (dapp, _),
    ):
        assert len(wallet.accounts) == 10
        assert (await dapp.call(*SIGN)).startswith("0xf16e")


async def test_errors_of_another_wallets_rpc_are_passed_on(relay: RunningServer) -> None:
    async def refused(rpc: str, said: str, **options: Any) -> None:
        with pytest.raises(UpstreamError, match=said):
            async with HeadlessWallet(rpc=rpc, **options):
                pass

    await refused(f"{relay.url}/rpc", "has no accounts", chain_id=1)
    await refused(f"{relay.url}/hello", "answered 405")
    await refused("http://127.0.0.1:1/rpc", "cannot be used")
    async with open_fake_node() as node:
        node.script.append(body("no JSON"))
        await refused(node.url, "is no wallet's JSON-RPC")


async def test_another_wallet_gets_the_sessions_chain() -> None:
    async with open_fake_node() as node:
        node.results |= {"eth_accounts": [FIRST.lower()], "eth_sendTransaction": "0x" + "1" * 64}
        async with HeadlessWallet(rpc=node.url) as wallet:
            await of_page(wallet, "eth_sendTransaction", [PAYMENT])
    calls = [call for request in node.requests for call in request.calls]
    (sent,) = [call["params"] for call in calls if call["method"] == "eth_sendTransaction"]
    assert sent == [{**PAYMENT, "chainId": "0x7a69"}]
