"""The fixture `bridge_project`: its backend, its subscribers, and an account's inbox."""

from dataclasses import dataclass

import pytest
from coincurve import PrivateKey

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kit.fixtures import (
    Bridge,
    BridgeProcess,
    BridgeProject,
    NothingReceivedError,
    NothingSentError,
    RequestFailedError,
)

pytestmark = pytest.mark.usefixtures("forked_processes")


@dataclass(frozen=True, slots=True)
class LocalAccount:
    """An account as eth-account has it."""

    key: bytes

    @property
    def address(self) -> str:
        return SigningKey(self.key).address


def test_a_notification_comes_to_the_inbox(bridge_project: BridgeProject) -> None:
    inbox = bridge_project.inbox(0)
    inbox.subscribe()

    notified = bridge_project.notify(0, title="Hello")

    found = inbox.next(wait=5)
    assert notified.sent == [inbox.account]
    assert (found.title, found.body, found.url) == ("Hello", "Body", None)
    inbox.read(found)
    with pytest.raises(NothingReceivedError):
        inbox.next()
    assert [each.id for each in inbox.notifications()] == [found.id]


def test_the_operator_subscribes_any_account(bridge_project: BridgeProject) -> None:
    address = "0x0000000000000000000000000000000000000001"
    bridge_project.subscribe(address)

    assert bridge_project.subscribers() == [f"eip155:1:{address}"]
    assert bridge_project.notify(address, 1).not_found != []
    bridge_project.unsubscribe(address)
    assert bridge_project.notify(address).sent == []


def test_an_account_of_another_library_signs_in(bridge_project: BridgeProject) -> None:
    account = LocalAccount(PrivateKey.from_int(7).secret)
    bridge_project.subscribe(account)

    inbox = bridge_project.inbox(account)

    assert inbox.account == f"eip155:1:{account.address}"
    assert bridge_project.notify(account).sent == [inbox.account]


def test_an_account_whose_key_is_not_known_cannot_sign_in(bridge_project: BridgeProject) -> None:
    with pytest.raises(ValueError, match="name a development account"):
        bridge_project.inbox("0x0000000000000000000000000000000000000001")


def test_a_refusal_of_the_server_is_raised_with_its_reason(bridge_project: BridgeProject) -> None:
    with pytest.raises(RequestFailedError, match="was answered 400") as refused:
        bridge_project.notify(0, title="x" * 65)

    assert refused.value.status == 400
    assert "#/notification/title" in str(refused.value)


def test_a_push_that_fails_is_tried_again(bridge: Bridge, bridge_project: BridgeProject) -> None:
    inbox = bridge_project.inbox(0)
    inbox.subscribe()
    inbox.add_device("fcm", "a-token")
    bridge.faults.fcm("UNAVAILABLE", times=1)
    bridge_project.notify(0, title="First")
    bridge.clock.advance(minutes=5)

    assert bridge.sent.fcm(wait=5).title == "First"
    assert [each.outcome for each in bridge.sent.list("fcm")] == ["failed", "delivered"]
    bridge_project.notify(0, title="Second")
    assert bridge.sent.fcm(wait=5, account=inbox.account).title == "Second"
    with pytest.raises(NothingSentError):
        bridge.sent.fcm()


def test_an_inbox_is_signed_in_at_the_servers_time(bridge: Bridge, bridge_project: BridgeProject) -> None:
    bridge.clock.advance(days=400)

    assert bridge_project.inbox(0).notifications() == []


def test_a_project_belongs_to_the_server_of_the_test(
    bridge_process: BridgeProcess, bridge_project: BridgeProject
) -> None:
    bridge_project.subscribe(3)

    bridge_process.kill()
    bridge_process.restart()

    assert len(bridge_project.subscribers()) == 1
