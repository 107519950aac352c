"""`GET /openapi.json` and `bridge-server openapi`."""

from pathlib import Path
from typing import Any

import orjson
from click.testing import CliRunner

from bridge_server.cli.commands import commands
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.asking import ask
from tests.support.described import description
from tests.support.server import RunningServer, running_server


async def test_the_document_may_be_kept_and_must_be_asked_about(server: RunningServer) -> None:
    first = await ask(server, "GET", "/openapi.json")
    again = await ask(server, "GET", "/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    other = await ask(server, "GET", "/openapi.json", headers={"If-None-Match": '"another"'})

    assert first.headers["Cache-Control"] == again.headers["Cache-Control"] == "no-cache"
    assert first.json["openapi"] == "3.1.0"
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert other.body == first.body


async def test_head_answers_without_the_document(server: RunningServer) -> None:
    whole = await ask(server, "GET", "/openapi.json")

    head = await ask(server, "HEAD", "/openapi.json")

    assert (head.status, head.body) == (200, b"")
    assert head.headers["ETag"] == whole.headers["ETag"]
    assert int(head.headers["Content-Length"]) == len(whole.body)


async def test_a_web_page_of_any_origin_may_read_it(server: RunningServer) -> None:
    answer = await ask(server, "GET", "/openapi.json", headers={"Origin": "https://docs.example.org"})

    assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_the_document_has_the_routes_that_the_settings_turn_on(
    server: RunningServer, tmp_path: Path
) -> None:
    plain = (await ask(server, "GET", "/openapi.json")).json
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, console=True) as operated:
        full = (await ask(operated, "GET", "/openapi.json")).json

    assert "/session/new" in plain["paths"]
    assert "/admin/projects" not in plain["paths"]
    assert "adminToken" not in plain["components"]["securitySchemes"]
    assert "/admin/projects" in full["paths"]
    assert [path for path in full["paths"] if path.startswith("/console")] == []


async def test_the_document_describes_the_request_of_each_route(server: RunningServer) -> None:
    paths: dict[str, Any] = (await ask(server, "GET", "/openapi.json")).json["paths"]

    assert paths["/session/new"]["post"]["security"] == []
    notify = paths["/{project_id}/notify"]["post"]
    assert notify["security"] == [{"projectSecret": []}]
    assert notify["responses"].keys() >= {"200", "400", "401", "413", "415", "429", "503"}


def test_the_command_prints_every_route_without_server_and_settings(tmp_path: Path) -> None:
    environment = {"BRIDGE_PORT": "no port", "BRIDGE_DATA_DIR": str(tmp_path / "data")}

    result = CliRunner(env=environment).invoke(commands, ["openapi"])

    assert (result.exit_code, list(tmp_path.iterdir())) == (0, [])
    assert orjson.loads(result.output) == description().document
