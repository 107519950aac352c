"""The hosts to which the admin API answers: a web page's own host name may lead to this machine."""

from pathlib import Path
from typing import Any

import structlog

from tests.admin.table import ENDPOINTS
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import Answer, ask
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

BEARER = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


async def projects(server: RunningServer, **headers: str) -> Answer:
    return await ask(server, "GET", "/admin/projects", headers={**BEARER, **headers})


@each_row(("method", "path"), ENDPOINTS)
async def test_another_host_is_refused_whatever_the_token(admin: AdminClient, method: str, path: str) -> None:
    answer = await ask(admin.server, method, path, headers={**BEARER, "Host": "rebound.example:8080"})

    assert "rpc_hosts" in answer.problem(403)["detail"]


@each_row("host", ["localhost:8080", "127.0.0.1", "[::1]:80", "bridge.example", "tools.example"])
async def test_this_machine_the_public_url_and_hosts_of_the_settings_are_answered(
    tmp_path: Path, host: str
) -> None:
    names: dict[str, Any] = {"public_url": "https://bridge.example", "rpc_hosts": ["tools.example"]}
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, **names) as server:
        assert (await projects(server, Host=host)).status == 200


@each_row(
    ("headers", "status", "remedy"),
    [
        ({"Host": "rebound.example"}, 403, "The admin API does not answer to the host 'rebound.example'"),
        (
            {"Authorization": "Bearer wrong"},
            401,
            "The bearer token is missing or wrong: send the value of",
        ),
    ],
)
async def test_a_refusal_is_a_log_line_with_its_remedy(
    admin: AdminClient, headers: dict[str, str], status: int, remedy: str
) -> None:
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert (await projects(admin.server, **headers)).status == status

    [line] = [line for line in logs if line["event"] == "admin_refused"]
    assert line["reason"].startswith(remedy)
    assert (line["client"], line["times"], line["log_level"]) == ("127.0.0.1", 1, "warning")


async def test_a_page_under_another_host_learns_nothing_by_a_preflight(admin: AdminClient) -> None:
    asked = {
        "Host": "rebound.example",
        "Origin": "http://rebound.example",
        "Access-Control-Request-Method": "GET",
    }

    answer = await ask(admin.server, "OPTIONS", "/admin/projects", headers=asked)

    assert answer.status == 405
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
