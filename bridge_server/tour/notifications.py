"""An app's backend notifies an account that signs in, subscribes, and reads."""

import aiohttp
from coincurve import PrivateKey

from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.tour.player import Player
from bridge_server.tour.sign_in import log_in, sign_in_message
from bridge_server.tour.transcript import say, show

_NOTIFICATION = {
    "type": "price-alert",
    "title": "ETH is above your limit",
    "body": "1 ETH costs 4,000.00 USD now.",
    "url": "https://app.example.org/eth",
}


class ExampleKey:
    """A wallet with one published key, the example of EIP-155."""

    def __init__(self) -> None:
        self._key = PrivateKey(b"\x46" * 32)
        self.address = checksummed("0x" + keccak256(self._key.public_key.format(False)[1:])[-20:].hex())

    def sign(self, text: str) -> str:
        """The signature of a message for people (EIP-191): r, s and v of 27 or 28."""
        signature = self._key.sign_recoverable(personal_message_hash(text.encode()), hasher=None)
        return "0x" + signature[:64].hex() + bytes([27 + signature[64]]).hex()


async def notifications_scene(url: str, admin_token: str) -> None:
    """Project, sign-in, subscription, notification, reading, read rate."""
    async with aiohttp.ClientSession() as client:
        operator = Player("admin", url, client, admin_token)
        backend, account = Player("backend", url, client), Player("account", url, client)
        project = await _make_project(operator, backend)
        await _sign_in(account, ExampleKey())
        await _notify(project, backend, account)
        say("The operator reads the analytics and deletes the project.")
        await operator.send("GET", f"/admin/projects/{project}/analytics")
        await operator.send("DELETE", f"/admin/projects/{project}")


async def _make_project(operator: Player, backend: Player) -> str:
    say("The operator creates a project for an app, whose backend gets the secret.")
    made = await operator.send("POST", "/admin/projects", {"name": "Example App"})
    project: str = made["project_id"]
    backend.token = made["secret"]["secret"]
    kind = {"type_id": "price-alert", "name": "Price alerts"}
    await operator.send("POST", f"/admin/projects/{project}/types", kind)
    return project


async def _sign_in(account: Player, signer: ExampleKey) -> None:
    say("A wallet signs in to its account's inbox with Ethereum (EIP-4361).")
    message = await sign_in_message(account, signer.address)
    await log_in(account, message, signer.sign(message))


async def _notify(project: str, backend: Player, account: Player) -> None:
    say("The account subscribes, and waits for notifications.")
    subscription = await account.send("PUT", f"/inbox/subscriptions/{project}")
    async with account.polling("/inbox/notifications") as waiting:
        say("The backend looks the account up and notifies it. The waiting account gets it at once.")
        accounts = {"accounts": [subscription["account"]]}
        await backend.send("POST", f"/v1/{project}/subscribers", accounts)
        wanted = {"notification_id": "alert-1", "notification": _NOTIFICATION, **accounts}
        await backend.send("POST", f"/{project}/notify", wanted)
        inbox = show(await waiting)
    await account.send("POST", "/inbox/notifications/read", {"ids": [inbox["notifications"][0]["id"]]})
