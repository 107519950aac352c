"""The settings that hold now, as the operator sees them, and whether the server is ready."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.assembly.application import build_app
from bridge_server.kit.fixtures.run import serving
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import load_settings
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server

KEY = "0x" + "11" * 32


async def test_every_setting_is_shown_and_no_secret(tmp_path: Path) -> None:
    secrets: dict[str, Any] = {
        "rpc_token": "of-the-wallet",
        "private_keys": KEY,
        "node_url": "http://node.example/a-key",
    }
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, **secrets) as server:
        answer = await AdminClient(server).get("/admin/settings")

    shown = answer.json["settings"]
    assert list(shown) == list(Settings.model_fields)
    assert {name: shown[name]["value"] for name in ("admin_token", *secrets)} == dict.fromkeys(
        ("admin_token", *secrets), "(set)"
    )
    assert shown["webhook_secret"]["value"] is None
    assert not [text for text in (ADMIN_TOKEN, *secrets.values()) if text.encode() in answer.body]
    assert shown["max_wait"] == {"origin": "default", "value": 25, "live": True}
    assert not shown["port"]["live"]


def test_the_sources_come_from_where_the_settings_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text("max_wait = 7\n")
    monkeypatch.setenv("BRIDGE_REQUESTS_BURST", "8")
    loaded = load_settings({"data_dir": tmp_path / "data"}, file)

    shown = build_app(loaded.settings, origins=loaded.origins).live.shown()

    assert shown["max_wait"] == {"value": 7, "origin": f"file {file}", "live": True}
    assert shown["requests_burst"]["origin"] == "environment BRIDGE_REQUESTS_BURST"
    assert shown["data_dir"]["origin"] == "flag --data-dir"
    assert shown["host"]["origin"] == "default"


def test_a_new_value_has_a_new_source_unless_it_waits_for_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"
    before = load_settings({"data_dir": tmp_path / "data"}, None)
    live = build_app(before.settings, origins=before.origins).live
    file.write_text("max_wait = 7\nport = 9\nheartbeat = 30\n")

    after = load_settings({"data_dir": tmp_path / "data"}, file)
    live.take(after.settings, after.origins)

    shown = live.shown()
    assert (shown["max_wait"]["value"], shown["max_wait"]["origin"]) == (7, f"file {file}")
    assert (shown["port"]["value"], shown["port"]["origin"]) == (8080, "default")
    assert shown["heartbeat"]["origin"] == f"file {file}"


async def test_a_server_that_works_is_ready(admin: AdminClient) -> None:
    assert (await admin.get("/admin/settings")).json["ready"] == {
        "ready": True,
        "failure": None,
        "troubles": [],
    }


@pytest.mark.sqlite("the file is moved away")
async def test_a_server_that_cannot_work_says_why(tmp_path: Path) -> None:
    settings = Settings(port=0, data_dir=tmp_path / "data", admin_token=ADMIN_TOKEN)
    async with serving(settings) as served, aiohttp.ClientSession() as client:
        settings.database_file.rename(tmp_path / "elsewhere")
        admin = AdminClient(RunningServer(served.url, settings, ManualClock(), client))
        ready = (await admin.get("/admin/settings")).json["ready"]

    assert not ready["ready"]
    assert "The database file was deleted or replaced" in ready["failure"]
