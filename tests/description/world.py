"""A server that has one of everything that the examples of the description name."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import METRICS_TOKEN, Answer, ask
from tests.support.inbox_client import InboxClient, get_nonce, sign_in, sound_fields
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer
from tests.support.waiting import eventually

PASSPHRASE = "correct horse"
WORLD_SETTINGS: dict[str, Any] = {
    "test": True,
    "admin_token": ADMIN_TOKEN,
    "admin_wallet": True,
    "metrics_token": METRICS_TOKEN,
    "dev_accounts": True,
    "light_kdf": True,
    "approve": "queue",
    "allow_private_webhooks": True,
}
"""A server in test mode with all that its settings can turn on."""

_UNREACHABLE = "http://127.0.0.1:1"


@dataclass(frozen=True, slots=True)
class World:
    """The server, its tokens by security scheme, and what stands for each value of an example."""

    server: RunningServer
    tokens: Mapping[str, str]
    inbox: InboxClient
    values: Mapping[str, str]
    numbers: Mapping[str, str]
    """What stands for `number` in the path of these operations."""
    asking: "asyncio.Task[Any]"
    """A client of the wallet that waits for an approval."""


async def made_world(server: RunningServer) -> World:
    """Fill a server: a project with a subscriber and a notification, a session with a call, and the rest."""
    admin, inbox = AdminClient(server), await sign_in(server)
    secret = await admin.create("example-app", "price-alert", "other-type")
    assert (await inbox.subscribe("example-app")).status == 200
    await admin.notify("example-app", secret, "price-alert", inbox.account)
    await admin.put("/admin/projects/example-app/webhook", {"url": f"{_UNREACHABLE}/subscriptions"})
    await inbox.subscribe("example-app", ["price-alert"])
    device = (await inbox.add_device("log")).json["id"]
    session_id, call_id = await _called(server)
    rpc = RpcClient(server)
    account = await rpc.call("personal_newAccount", PASSPHRASE)
    asking = asyncio.create_task(
        rpc.call("personal_sign", "0x68656c6c6f", (await rpc.call("eth_accounts"))[0])
    )
    asking.add_done_callback(_forget)
    values = {
        "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f": session_id,
        "0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8": call_id,
        "0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d": device,
        "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb": inbox.account,
        "0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb": account,
        "https://bridge.example.org": server.url,
        "https://app.example.org/hook": f"{_UNREACHABLE}/hook",
        "0192f7c8": await _first(admin, "/admin/approvals", "approvals", "id"),
        "7-msg_0192f7c8": await _first(admin, "/admin/outbox?state=waiting", "messages", "id"),
        "s4Jd0cRk": await _first(admin, "/admin/sessions", "sessions", "handle"),
        "c9Xw2LmQ": (await _first(admin, f"/admin/traffic?filter=call:{call_id}", "requests", "call"))[
            "handle"
        ],
    }
    numbers = {
        "notification": str(
            await _first(admin, "/admin/projects/example-app/notifications", "notifications", "number")
        ),
        "traffic-request": str(await _first(admin, "/admin/traffic", "requests", "number")),
        "outbox-attempt": str(await _first(admin, "/admin/outbox/attempts", "attempts", "number")),
    }
    tokens = {
        "adminToken": ADMIN_TOKEN,
        "metricsToken": METRICS_TOKEN,
        "projectSecret": secret,
        "inboxToken": inbox.token,
        "testToken": str(server.test_token),
    }
    return World(server, tokens, inbox, values, numbers, asking)


async def signed_message(world: World) -> dict[str, str]:
    """The body of a sign-in: no example can have a nonce that is good."""
    wallet = world.inbox.wallet
    message = wallet.message(**sound_fields(world.server, await get_nonce(world.server)))
    return {"message": message, "signature": wallet.sign(message)}


def _forget(asking: "asyncio.Task[Any]") -> None:
    """The client of the wallet ends with its server, or as the example of a decision has it."""
    if not asking.cancelled():
        asking.exception()


async def _called(server: RunningServer) -> tuple[str, str]:
    """A session that was approved, and a call of it that was answered."""
    session_id = await server.open_session()
    await _send(server, "PUT", f"/session/{session_id}")
    call_id = await server.request_call(session_id)
    await _send(server, "POST", f"/call-status/{call_id}/new")
    topic = {"topic": session_id, "type": "log", "token": "d7Zt3k", "peerName": "Shop", "language": "en"}
    answer = await ask(server, "POST", "/new", orjson.dumps({**topic, "bridge": server.url}))
    assert answer.status == 200, answer
    return session_id, call_id


async def _send(server: RunningServer, method: str, path: str) -> Answer:
    answer = await ask(server, method, path, orjson.dumps({"encryptionPayload": "payload"}))
    assert answer.status == 200, answer
    return answer


async def _first(admin: AdminClient, path: str, name: str, member: str) -> Any:
    """A member of the first entry of a list, once there is one."""
    found: list[Any] = []

    async def is_there() -> bool:
        found[:] = (await admin.get(path)).json[name]
        return bool(found)

    await eventually(is_there)
    return found[0][member]
