"""Proposals and approvals: one call that publishes and subscribes, wholly or not at all."""

from pathlib import Path

import pytest

from tests.pubsub.irn.conftest import Join
from tests.support.irn_client import Identity, RelayError, irn_connected, topic_of
from tests.support.server import running_server

PAIRING, SESSION = topic_of("pairing"), topic_of("session")
PROPOSE = {"pairingTopic": PAIRING, "sessionProposal": "proposal", "attestation": "signed"}
APPROVE = {
    "pairingTopic": PAIRING,
    "sessionTopic": SESSION,
    "sessionProposalResponse": "response",
    "sessionSettlementRequest": "settlement",
}


async def test_a_session_is_proposed_approved_and_used(join: Join) -> None:
    dapp, wallet = await join(), await join()

    assert await dapp.ask("wc_proposeSession", PROPOSE) is True
    await wallet.subscribe(PAIRING)
    proposal = await wallet.request()
    await wallet.acknowledge(proposal)
    assert await wallet.ask("wc_approveSession", APPROVE) is True
    response = await dapp.request()
    await dapp.acknowledge(response)
    await dapp.subscribe(SESSION)
    settlement = await dapp.request()
    await dapp.acknowledge(settlement)
    await dapp.publish(SESSION, "call")

    data = [request["params"]["data"] for request in (proposal, response, settlement)]
    assert [(each["topic"], each["message"], each["tag"]) for each in data] == [
        (PAIRING, "proposal", 1100),
        (PAIRING, "response", 1101),
        (SESSION, "settlement", 1102),
    ]
    assert [each.get("attestation") for each in data] == ["signed", None, None]
    assert await wallet.messages(1) == ["call"]
    await dapp.nothing()


async def test_the_subscriptions_outlive_the_socket(join: Join) -> None:
    dapp_identity, wallet_identity = Identity(), Identity()
    dapp, wallet = await join(dapp_identity), await join(wallet_identity)
    await dapp.ask("wc_proposeSession", PROPOSE)
    await wallet.ask("wc_approveSession", APPROVE)
    await dapp.socket.close()
    await wallet.socket.close()
    other = await join()
    await other.publish(PAIRING, "to the dapp")
    await other.publish(SESSION, "to the wallet")

    dapp, wallet = await join(dapp_identity), await join(wallet_identity)

    assert await dapp.messages(2) == ["response", "to the dapp"]
    assert await wallet.message() == "to the wallet"


@pytest.mark.parametrize(("ttl", "waits"), [({}, 300), ({"ttl": 600}, 600)])
async def test_a_proposal_waits_as_long_as_it_says(tmp_path: Path, ttl: dict[str, int], waits: int) -> None:
    async with running_server(tmp_path) as server:
        dapp_identity = Identity()
        async with irn_connected(server.client, server.url, dapp_identity) as dapp:
            await dapp.ask("wc_proposeSession", PROPOSE | ttl)
        wallet_identity = Identity()
        for later, expected in ((waits - 1, 1), (1, 0)):
            server.clock.advance(later)
            async with irn_connected(server.client, server.url, wallet_identity) as wallet:
                await wallet.subscribe(PAIRING)
                assert await wallet.messages(expected, acknowledge=False) == ["proposal"] * expected


async def test_an_approval_happens_wholly_or_not_at_all(tmp_path: Path) -> None:
    async with running_server(tmp_path, max_client_topics=1) as server:
        dapp_identity, wallet_identity = Identity(), Identity()
        async with (
            irn_connected(server.client, server.url, dapp_identity) as dapp,
            irn_connected(server.client, server.url, wallet_identity) as wallet,
        ):
            await dapp.ask("wc_proposeSession", PROPOSE)
            await wallet.subscribe(PAIRING)
            assert await wallet.messages(1) == ["proposal"]

            with pytest.raises(RelayError) as refused:
                await wallet.ask("wc_approveSession", APPROVE, request_id=77)

            assert refused.value.tag == "SubscriberLimitExceeded"
            await dapp.nothing()
            await wallet.ask("irn_unsubscribe", {"topic": PAIRING})
            assert await wallet.ask("wc_approveSession", APPROVE, request_id=77) is True
            assert await dapp.messages(1) == ["response"]


async def test_a_repeated_approval_is_one(join: Join) -> None:
    wallet_identity = Identity()
    dapp, wallet = await join(), await join(wallet_identity)
    await dapp.ask("wc_proposeSession", PROPOSE)
    await wallet.ask("wc_approveSession", APPROVE, request_id="1700000000000000001")
    await wallet.socket.close()
    again = await join(wallet_identity)

    assert await again.ask("wc_approveSession", APPROVE, request_id="1700000000000000001") is True

    assert await dapp.messages(1) == ["response"]
    await dapp.publish(SESSION, "call")
    assert await again.messages(1) == ["call"]


async def test_a_topic_is_created_and_its_creator_is_subscribed(join: Join) -> None:
    dapp, wallet = await join(), await join()

    assert await dapp.ask("wc_createTopic", {"topic": PAIRING}) is True
    await wallet.publish(PAIRING, "for the creator")

    assert await dapp.messages(1) == ["for the creator"]
