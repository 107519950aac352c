"""Loads beside those of sessions and calls: what their answers promise, and what of it is not there later.

`run` writes at a process until that is gone or the task is cancelled; `losses` has a line for each thing that
was answered and is not there.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from itertools import count
from typing import Any

import aiohttp
import orjson

from tests.cluster.processes import ClusterProcess
from tests.support.postgres import connected
from tests.support.socket_client import Identity, IrnClient, RelayError, irn_connected, topic_of
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver

_PAUSE_SECONDS = 0.05
_DELIVERY_SECONDS = 60.0
_SUBSCRIBED = "SELECT topic FROM irn_subscriptions"
_DELIVERED = """
SELECT projects.project_id, notifications.idempotency_key, accounts.account_key, count(*)
FROM deliveries JOIN accounts ON accounts.id = deliveries.account
JOIN sendings ON sendings.id = deliveries.sending JOIN projects ON projects.id = sendings.project
JOIN notifications ON notifications.id = sendings.notification GROUP BY 1, 2, 3
"""


class Notifications:
    """Calls of notify: each account that was `sent` one has it, once."""

    kind = "notifications"

    def __init__(self, url: str, secrets: Sequence[tuple[str, str]], accounts: Sequence[str]) -> None:
        """`url` is the database's; `secrets` are those of projects whose subscribers are the accounts."""
        self._url = url
        self._secrets = secrets
        self._accounts = accounts
        self._numbers = count()
        self._owed: set[tuple[str, str, str]] = set()
        self.answers = 0

    async def run(self, process: ClusterProcess) -> None:
        await asyncio.gather(*(self._notify_until_gone(process, *each) for each in self._secrets))

    async def losses(self, process: ClusterProcess) -> list[str]:
        async with connected(self._url) as wire:
            found = {tuple(row)[:3]: row[3] for row in await wire.fetch(_DELIVERED)}
        return [f"delivery {each}: {found.get(each, 0)} times" for each in self._owed if found.get(each) != 1]

    async def _notify_until_gone(self, process: ClusterProcess, project: str, secret: str) -> None:
        with suppress(aiohttp.ClientError):
            while True:
                await self._notify(process, project, secret)

    async def _notify(self, process: ClusterProcess, project: str, secret: str) -> None:
        name = f"id {next(self._numbers)}"
        content = {"type": "news", "title": name, "body": "Body"}
        body = {"notification_id": name, "notification": content, "accounts": self._accounts}
        headers = {"Authorization": f"Bearer {secret}"}
        while True:
            url = f"{process.url}/{project}/notify"
            async with process.server.client.post(url, json=body, headers=headers) as response:
                if response.status == 200:
                    sent = (await response.json())["sent"]
                    break
                assert response.status in (429, 503), await response.text()
            await asyncio.sleep(_PAUSE_SECONDS)
        self._owed.update((project, name, each.replace("eip155:1:", "eip155:")) for each in sent)
        self.answers += 1


class Publications:
    """Generation 2.x: a message that was taken waits for its subscriber, and a subscription stays."""

    kind = "publications"

    def __init__(self, url: str) -> None:
        """`url` is the database's."""
        self._url = url
        self._numbers = count()
        self._published: list[str] = []
        self._subscribed: list[str] = []
        self.answers = 0

    async def run(self, process: ClusterProcess) -> None:
        # The socket says by an assertion of its own that it was closed.
        with suppress(aiohttp.ClientError, AssertionError):
            async with _connected(process) as client:
                while True:
                    with suppress(RelayError):
                        await self._publish(client)
                    await asyncio.sleep(_PAUSE_SECONDS / 10)

    async def losses(self, process: ClusterProcess) -> list[str]:
        async with connected(self._url) as wire:
            subscribed = {topic for (topic,) in await wire.fetch(_SUBSCRIBED)}
        lost = [f"subscription {topic}" for topic in self._subscribed if topic not in subscribed]
        async with _connected(process) as client:
            for topic in self._published:
                found = (await client.fetch(topic))["messages"]
                lost += [] if [each["message"] for each in found] == [topic] else [f"publication {topic}"]
        return lost

    async def _publish(self, client: IrnClient) -> None:
        topic, other = (topic_of(f"killed {next(self._numbers)}") for _ in range(2))
        await client.publish(topic, topic, ttl=86_400)
        self._published.append(topic)
        self.answers += 1
        await client.subscribe(other)
        self._subscribed.append(other)
        self.answers += 1


def _connected(process: ClusterProcess) -> AbstractAsyncContextManager[IrnClient]:
    """A socket of a new client."""
    client = Identity()
    token = client.token(iat=int(time.time()), exp=None)
    return irn_connected(process.server.client, process.url, client, token=token)


class Webhooks:
    """Calls of a session whose wallet has a webhook: each that was answered is told of, at least once."""

    kind = "webhooks"

    def __init__(self, receiver: WebhookReceiver) -> None:
        self._receiver = receiver
        self._owed: set[str] = set()
        self.answers = 0

    async def run(self, process: ClusterProcess) -> None:
        with suppress(aiohttp.ClientError):
            session = (await self._sent(process, "POST", "/session/new", {}))["sessionId"]
            push = {"type": "fcm", "token": "token", "webhook": self._receiver.url()}
            path = f"/session/{session}"
            await self._sent(process, "PUT", path, {"encryptionPayload": "sealed", "push": push})
            body = {"encryptionPayload": "sealed", "dappName": "Dapp"}
            while True:
                call = (await self._sent(process, "POST", f"{path}/call/new", body))["callId"]
                self._owed.add(call)
                self.answers += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def losses(self, process: ClusterProcess) -> list[str]:
        async def all_came() -> bool:
            return not self._missing()

        with suppress(TimeoutError):
            await eventually(all_came, _DELIVERY_SECONDS)
        return [f"webhook of call {each}" for each in self._missing()]

    def _missing(self) -> set[str]:
        return self._owed - {orjson.loads(request.body).get("callId") for request in self._receiver.requests}

    async def _sent(self, process: ClusterProcess, method: str, path: str, body: Any) -> dict[str, str]:
        while True:
            async with process.server.client.request(method, f"{process.url}{path}", json=body) as response:
                if response.status == 200:
                    answer: dict[str, str] = await response.json()
                    return answer
                assert response.status in (429, 503), await response.text()
            await asyncio.sleep(_PAUSE_SECONDS)
