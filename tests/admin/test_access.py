"""Access to the admin API: for the bearer of its token, by the server's own hosts, never for a web page."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog

from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient
from tests.support.asking import Answer, ask, ask_raw, spell
from tests.support.server import RunningServer, running_server

BEARER = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
PROJECT = "/admin/projects/app"
ACCOUNT = f"/admin/accounts/{ETHEREUM}"
ROUTES: dict[str, str] = {
    "/admin/projects": "GET POST", PROJECT: "GET DELETE",
    f"{PROJECT}/secrets": "POST", f"{PROJECT}/secrets/1": "DELETE",
    f"{PROJECT}/account-limit": "PUT DELETE", f"{PROJECT}/webhook": "PUT DELETE",
    f"{PROJECT}/types": "GET POST", f"{PROJECT}/types/news": "PUT DELETE",
    f"{PROJECT}/subscribers": "GET", f"{PROJECT}/subscribers/{ETHEREUM}": "PUT DELETE",
    f"{PROJECT}/analytics": "GET", f"{PROJECT}/notify": "POST",
    f"{PROJECT}/notifications": "GET", f"{PROJECT}/notifications/1": "GET",
    ACCOUNT: "GET", f"{ACCOUNT}/inbox": "GET", f"{ACCOUNT}/inbox/read": "POST", f"{ACCOUNT}/devices": "GET",
    "/admin/approvals": "GET", "/admin/approvals/12345678": "GET",
    "/admin/wallet/accounts": "GET", "/admin/wallet/transactions": "GET", "/admin/wallet/signatures": "GET",
    "/admin/outbox": "GET", "/admin/outbox/1-none": "GET DELETE", "/admin/outbox/1-none/retry": "POST",
    "/admin/outbox/retry-dead": "POST", "/admin/outbox/drop-dead": "POST",
    "/admin/outbox/attempts": "GET", "/admin/outbox/attempts/1": "GET",
    "/admin/pushes/test": "POST", "/admin/pushes/preview": "GET", "/admin/webhooks/test": "POST",
    "/admin/traffic": "GET", "/admin/traffic/1": "GET", "/admin/traffic/calls/handle": "GET",
    "/admin/clients": "GET", "/admin/clients/192.0.2.1": "GET", "/admin/clients/me": "GET",
    "/admin/sessions": "GET", "/admin/sessions/handle": "GET DELETE",
    "/admin/settings": "GET", "/admin/topics": "GET", "/admin/stats": "GET",
}  # fmt: skip
"""Every route, as a client would list them."""
ENDPOINTS = [(method, path) for path, methods in ROUTES.items() for method in methods.split()]
WITHOUT_ROWS = {path for path in ROUTES if path.startswith(ACCOUNT) or path.count("/") == 2}
WITHOUT_ROWS = WITHOUT_ROWS - {"/admin/traffic"} | {
    "/admin/wallet/accounts", "/admin/wallet/transactions", "/admin/wallet/signatures",
    "/admin/outbox/retry-dead", "/admin/outbox/drop-dead", "/admin/outbox/attempts", "/admin/pushes/preview",
    "/admin/webhooks/test", "/admin/clients/192.0.2.1", "/admin/clients/me",
}  # fmt: skip
"""Paths that are answered on a server on which nothing has happened, and which keeps no traffic."""


VALID_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/admin/projects"): {"name": "App"},
    ("PUT", f"{PROJECT}/account-limit"): {"per_hour": 1, "burst": 1},
    ("PUT", f"{PROJECT}/webhook"): {"url": "https://app.example/hook"},
    ("POST", f"{PROJECT}/types"): {"name": "News"},
    ("PUT", f"{PROJECT}/types/news"): {"name": "News"},
    ("PUT", f"{PROJECT}/subscribers/{ETHEREUM}"): {},
    ("POST", "/admin/outbox/retry-dead"): {"destination": "https://app.example:443"},
    ("POST", "/admin/outbox/drop-dead"): {"destination": "https://app.example:443"},
    ("POST", "/admin/pushes/test"): {"topic": "nobody-has-registered-it"},
    ("POST", "/admin/webhooks/test"): {"url": "http://127.0.0.1:1/nothing-listens-here"},
    ("POST", f"{PROJECT}/notify"): {
        "notification": {"type": "news", "title": "Title", "body": "Body"},
        "audience": {"accounts": [ETHEREUM]},
    },
    ("POST", f"{ACCOUNT}/inbox/read"): {"ids": ["1"]},
}


async def attempt(server: RunningServer, method: str, path: str, headers: dict[str, str]) -> Answer:
    fields = VALID_BODIES.get((method, path))
    return await ask(server, method, path, None if fields is None else orjson.dumps(fields), headers)


async def test_neither_strangers_nor_other_hosts_get_in(admin: AdminClient, tmp_path: Path) -> None:
    secret = await admin.create("app", "news")
    before = (await admin.get(PROJECT)).body
    nothing = (await attempt(admin.server, "GET", "/admin/projects", {})).problem(401)
    sent = [{}, *({"Authorization": each} for each in (
        "Bearer wrong", f"Bearer {secret}", f"Bearer {ADMIN_TOKEN}x", ADMIN_TOKEN, "Bearer",
    ))]  # fmt: skip

    for method, path in ENDPOINTS:
        for headers in sent:
            answer = await attempt(admin.server, method, path, headers)
            assert {**answer.problem(401), "instance": ""} == {**nothing, "instance": ""}, (method, path)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        rebound = await ask(admin.server, method, path, headers={**BEARER, "Host": "rebound.example:8080"})
        assert "rpc_hosts" in rebound.problem(403)["detail"], (method, path)
    assert (await admin.get(PROJECT)).body == before
    async with running_server(tmp_path / "data") as server_without_token:
        for method, path in ENDPOINTS:
            missing = await attempt(server_without_token, method, path, BEARER)
            assert missing.problem(404)["type"].endswith(":not-found"), (method, path)


@pytest.mark.own_server
async def test_the_bearer_of_the_token_is_let_in(admin: AdminClient) -> None:
    for method, path in sorted(ENDPOINTS, key=lambda endpoint: endpoint == ("POST", "/admin/projects")):
        answer = await attempt(admin.server, method, path, BEARER)
        assert answer.status == (200 if path in WITHOUT_ROWS else 404), (method, path)
        if path.startswith(PROJECT):
            assert answer.problem(404)["type"].endswith(":project-not-found"), (method, path)


async def test_other_methods_are_405_and_no_web_page_may_read_an_answer(admin: AdminClient) -> None:
    for path, methods in ROUTES.items():
        allowed = {*methods.split(), *(["HEAD"] if "GET" in methods else [])}
        for method in sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - allowed):
            answer = await ask(admin.server, method, path, b"{}", BEARER)
            answer.problem(405)
            assert answer.headers["Allow"] == ", ".join(sorted(allowed)), (method, path)

    page = {**BEARER, "Origin": "https://page.example"}
    preflight = {"Host": "rebound.example", "Origin": "http://rebound.example",
                 "Access-Control-Request-Method": "GET"}  # fmt: skip
    read = await ask(admin.server, "GET", "/admin/projects", headers=page)
    asked = await ask(admin.server, "OPTIONS", "/admin/projects", headers=preflight)
    assert (read.json, asked.status) == ({"projects": []}, 405)
    names = [*read.headers, *asked.headers]
    assert not [name for name in names if name.lower().startswith("access-control")]


async def test_own_hosts_are_answered_and_bodies_have_the_servers_limit(tmp_path: Path) -> None:
    names: dict[str, Any] = {"public_url": "https://bridge.example", "rpc_hosts": ["tools.example"]}
    async with running_server(tmp_path, admin_token=ADMIN_TOKEN, notify_body_limit=200, **names) as server:
        for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "bridge.example", "tools.example"):
            answer = await ask(server, "GET", "/admin/projects", headers={**BEARER, "Host": host})
            assert answer.status == 200, host
        for (method, path), fields in VALID_BODIES.items():
            body = orjson.dumps(fields)
            (await ask(server, method, path, body.ljust(201), BEARER)).problem(413)
            fits = await ask(server, method, path, body.ljust(200), BEARER)
            assert fits.status in (200, 404), (method, path)


@pytest.mark.own_server
async def test_a_refusal_is_a_log_line_with_its_remedy(admin: AdminClient) -> None:
    for headers, status, remedy in (
        ({"Host": "rebound.example"}, 403, "The admin API does not answer to the host 'rebound.example'"),
        ({"Authorization": "Bearer wrong"}, 401, "The bearer token is missing or wrong: send the value of"),
    ):
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                answer = await ask(admin.server, "GET", "/admin/projects", headers={**BEARER, **headers})
                assert answer.status == status
        [line] = [line for line in logs if line["event"] == "admin_refused"]
        assert line["reason"].startswith(remedy)
        assert (line["client"], line["times"], line["log_level"]) == ("127.0.0.1", 1, "warning")


async def test_ids_that_nothing_has_and_bytes_that_are_no_text_name_nothing(admin: AdminClient) -> None:
    await admin.create("app", "news")
    for place in (
        "%ff%fe", "%00", "a%2Fb", "{app}", "a" * 129, "app/types/%ed%a0%80", "app/secrets/9" + "9" * 18,
        "app/secrets/-1", "app/secrets/%D9%A1",
    ):  # fmt: skip
        (await admin.delete(f"/admin/projects/{place}")).problem(404)
    request = spell("GET", "/admin/projects/PLACE", b"", f"Authorization: Bearer {ADMIN_TOKEN}".encode())
    for odd in (b"\xff\xfe", "é😀".encode()):
        assert (await ask_raw(admin.server, request.replace(b"PLACE", odd))).status in (400, 404)
