"""A token or the webhook secret is changed while both values are accepted, without a restart."""

from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.kit.fixtures.run import ServerInProcess, serving
from bridge_server.outbox.sender import WebhookSigner
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import SettingsError, settings_of
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import ask
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver

_CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_accounts"})
_ROUTES = {
    "admin_token": ("GET", "/admin/projects", None),
    "metrics_token": ("GET", "/metrics", None),
    "rpc_token": ("POST", "/rpc", _CALL),
}
SECRETS = ["whsec_" + letter * 32 for letter in "AB"]


async def statuses(client: aiohttp.ClientSession, served: ServerInProcess, name: str) -> dict[str, int]:
    """The answers to the old token, the new one and another."""
    method, path, body = _ROUTES[name]
    found = {}
    for token in ("old", "new", "other"):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        async with client.request(method, served.url + path, data=body, headers=headers) as answer:
            found[token] = answer.status
    return found


@each_row("name", _ROUTES)
async def test_a_token_is_changed_in_three_steps_without_a_gap(tmp_path: Path, name: str) -> None:
    def settings(**values: str) -> Settings:
        return Settings(port=0, data_dir=tmp_path / "data", **values)

    previous = f"{name}_previous"
    async with serving(settings(**{name: "old"})) as served, aiohttp.ClientSession() as client:
        assert await statuses(client, served, name) == {"old": 200, "new": 401, "other": 401}

        taken = served.built.live.take(settings(**{name: "new", previous: "old"}))
        assert (set(taken.changed), taken.needs_restart) == ({name, previous}, ())
        assert await statuses(client, served, name) == {"old": 200, "new": 200, "other": 401}

        taken = served.built.live.take(settings(**{name: "new"}))
        assert (taken.changed, taken.needs_restart) == ((previous,), ())
        assert await statuses(client, served, name) == {"old": 401, "new": 200, "other": 401}


@each_row("name", [*_ROUTES, "webhook_secret"])
def test_a_previous_value_alone_is_a_fault_that_names_the_setting(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}_previous: works beside {name} only"):
        settings_of({f"{name}_previous": SECRETS[0]})


async def test_webhooks_carry_a_signature_of_both_secrets(tmp_path: Path, receiver: WebhookReceiver) -> None:
    secrets: dict[str, Any] = {"webhook_secret": SECRETS[1], "webhook_secret_previous": SECRETS[0]}
    async with running_server(
        tmp_path / "data", admin_token=ADMIN_TOKEN, allow_private_webhooks=True, **secrets
    ) as server:
        await AdminClient(server).post("/admin/webhooks/test", {"url": receiver.url()})

    (got,) = receiver.requests
    moment_ms = int(got.headers["webhook-timestamp"]) * 1000
    each = [
        WebhookSigner(secret).headers(got.headers["webhook-id"], got.body, moment_ms)
        for secret in reversed(SECRETS)
    ]
    assert got.headers["webhook-signature"] == " ".join(headers["webhook-signature"] for headers in each)


async def test_the_webhook_secret_of_before_is_taken_and_left_out_without_a_restart(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    def settings(**values: Any) -> Settings:
        common = {"port": 0, "data_dir": tmp_path / "data", "admin_token": ADMIN_TOKEN}
        return Settings(**{**common, "allow_private_webhooks": True, **values})

    first, second = SECRETS
    steps = [
        settings(webhook_secret=first),
        settings(webhook_secret=second, webhook_secret_previous=first),
        settings(webhook_secret=second),
    ]
    clock = ManualClock()
    async with serving(steps[0], clock) as served, aiohttp.ClientSession() as client:
        server = RunningServer(served.url, steps[0], clock, client)
        for step in steps:
            assert served.built.live.take(step).needs_restart == ()
            body = orjson.dumps({"url": receiver.url()})
            headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
            assert (await ask(server, "POST", "/admin/webhooks/test", body, headers)).json["delivered"]

    counts = [len(got.headers["webhook-signature"].split()) for got in receiver.requests]
    assert counts == [1, 2, 1]
