"""The files for Prometheus and Grafana: promtool checks them, and a real Prometheus answers every query."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from tests.deploy.programs import needs, path_of, running
from tests.support.command import watched_server
from tests.support.needs import slow
from tests.support.programs import free_ports
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webhook_receiver import open_receiver

_DEPLOY = Path(__file__).parents[2] / "deploy"
_ALERTS_TEST = Path(__file__).with_name("alerts_test.yml")
_BOARD = orjson.loads((_DEPLOY / "grafana.json").read_bytes())
_QUERIES = [
    target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*")
    for panel in _BOARD["panels"]
    if panel["type"] != "row"
    for target in panel["targets"]
]
_ADMIN_TOKEN = "of the operator"
_SETTINGS = {
    "BRIDGE_METRICS_PORT": "0",
    "BRIDGE_ADMIN_TOKEN": _ADMIN_TOKEN,
    "BRIDGE_ALLOW_PRIVATE_WEBHOOKS": "true",
    "BRIDGE_QUOTA_EXEMPT": "127.0.0.1",
    "BRIDGE_SESSIONS_BURST": "1",
    "BRIDGE_TEST": "true",
}
_ACCOUNT = "eip155:1:0x0000000000000000000000000000000000000001"
_CALL = {"encryptionPayload": "call", "dappName": "Dapp"}


@needs("promtool")
@each_row(
    "check", [("check", "config", _DEPLOY / "prometheus.yml"), ("test", "rules", _ALERTS_TEST)], ids=str
)
def test_promtool_finds_no_fault(check: tuple[str | Path, ...]) -> None:
    command = [path_of("promtool") or "", *check]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_is_tested_in_trouble_and_in_peace() -> None:
    alerts = re.findall(r"- alert: (\w+)", (_DEPLOY / "alerts.yml").read_text("utf-8"))
    tests = _ALERTS_TEST.read_text("utf-8")
    assert len(alerts) == 6
    assert [alert for alert in alerts if tests.count(f"alertname: {alert}") < 2] == []


@needs("prometheus")
@slow
async def test_a_prometheus_that_scrapes_a_server_under_load_answers_every_query(tmp_path: Path) -> None:
    in_alerts = re.findall(r"bridge_\w+(?=\{)", (_DEPLOY / "alerts.yml").read_text("utf-8"))
    unanswered = [*_QUERIES, *(f'{name}{{job="bridge-server"}}' for name in {*in_alerts, "up"})]
    with watched_server(tmp_path, environment=_SETTINGS) as server:
        (target,) = [line["url"] for line in server.log() if line["event"] == "metrics_listening"]
        async with _load(server.url), _prometheus(tmp_path, urlsplit(target).netloc) as ask:

            async def all_are_answered() -> bool:
                unanswered[:] = [query for query in unanswered if not await ask(query)]
                return not unanswered

            with suppress(TimeoutError):
                await eventually(all_are_answered, 90)
            assert unanswered == []


@asynccontextmanager
async def _load(url: str) -> AsyncIterator[None]:
    """Sessions, notifications, pushes and refused clients, over and over until the block ends."""

    async def go_on() -> None:
        limited = aiohttp.TCPConnector(local_addr=("127.0.0.7", 0))  # the limits apply to this address
        async with (
            aiohttp.ClientSession(url) as client,
            aiohttp.ClientSession(url, connector=limited) as stranger,
            open_receiver() as webhooks,
        ):
            while True:
                await _meet(client, webhooks.url())
                await _notify(client)
                await _wake_a_device(client, url)
                async with stranger.post("/session/new"):
                    pass

    task = asyncio.create_task(go_on())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _sent(
    client: aiohttp.ClientSession, method: str, path: str, body: object = None, token: str = ""
) -> Any:
    """The JSON of an answer that is a success, None where it has none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with client.request(method, path, json=body, headers=headers) as answer:
        content = await answer.read()
        assert answer.ok, content
        return orjson.loads(content) if content else None


async def _meet(client: aiohttp.ClientSession, webhook: str) -> None:
    """A session from its beginning to its end, with a call that wakes the wallet by a webhook."""
    session = f"/session/{(await _sent(client, 'POST', '/session/new'))['sessionId']}"
    push = {"type": "fcm", "token": "device-token", "webhook": webhook}
    await _sent(client, "PUT", session, {"encryptionPayload": "approval", "push": push})
    call_id = (await _sent(client, "POST", f"{session}/call/new", _CALL))["callId"]
    assert call_id in await _sent(client, "GET", f"{session}/calls")
    await _sent(client, "POST", f"/call-status/{call_id}/new", {"encryptionPayload": "result"})
    await _sent(client, "GET", f"/call-status/{call_id}")
    await _sent(client, "DELETE", session)


async def _notify(client: aiohttp.ClientSession) -> None:
    """A project with one type that notifies one subscriber, and is deleted."""
    made = await _sent(client, "POST", "/admin/projects", {"name": "App"}, _ADMIN_TOKEN)
    project, secret = f"/admin/projects/{made['project_id']}", made["secret"]["secret"]
    await _sent(client, "POST", f"{project}/types", {"type_id": "news", "name": "News"}, _ADMIN_TOKEN)
    await _sent(client, "PUT", f"{project}/subscribers/{_ACCOUNT}", {}, _ADMIN_TOKEN)
    notification = {"type": "news", "title": "Title", "body": "Body"}
    wanted = {"notification": notification, "accounts": [_ACCOUNT]}
    sent = await _sent(client, "POST", f"/{made['project_id']}/notify", wanted, secret)
    assert sent["sent"] == [_ACCOUNT]
    await _sent(client, "DELETE", project, None, _ADMIN_TOKEN)


async def _wake_a_device(client: aiohttp.ClientSession, url: str) -> None:
    """A push by FCM, which test mode takes for delivered."""
    topic = (await _sent(client, "POST", "/session/new"))["sessionId"]
    device = {"type": "fcm", "token": "a-device", "peerName": "Dapp", "language": "en"}
    await _sent(client, "POST", "/new", {"bridge": url, "topic": topic, **device})
    await _sent(client, "POST", f"/session/{topic}/call/new", _CALL)


@asynccontextmanager
async def _prometheus(folder: Path, target: str) -> AsyncIterator[Callable[[str], Awaitable[bool]]]:
    """A Prometheus with the configuration of deploy/; yields a function that asks it a query."""
    config = (_DEPLOY / "prometheus.yml").read_text("utf-8")
    config = config.replace("127.0.0.1:9464", target).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(config)
    (folder / "alerts.yml").write_text((_DEPLOY / "alerts.yml").read_text("utf-8"))
    (port,) = free_ports(1)
    command = [
        path_of("prometheus") or "",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'figures'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with running(command, folder / "prometheus.log"):
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:

            async def ask(query: str) -> bool:
                """Whether the answer has a series."""
                try:
                    async with client.get("/api/v1/query", params={"query": query}) as response:
                        answer = await response.json(content_type=None)
                except (aiohttp.ClientError, ValueError):
                    return False
                assert answer["status"] in ("success", "error"), answer
                return answer["status"] == "success" and bool(answer["data"]["result"])

            yield ask
