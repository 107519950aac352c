"""The server itself: figures at a glance, settings that hold now, tokens that change without a restart.

White-box: the rows that one statement counts and the file of the kernel's figures have no setting.
"""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.admin.server import memory_bytes
from bridge_server.assembly.application import build_app
from bridge_server.kit.fixtures.run import serving
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import SettingsError, load_settings, settings_of
from tests.admin.conftest import Observed
from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient
from tests.support.rows import each_row
from tests.support.server import running_server


async def test_totals_and_the_last_minute(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_server.relay.store._COUNTED_AT_ONCE", 3)
    ids = [await observed.bridge.open_session() for _ in range(9)]
    await observed.bridge.end(ids[4])
    await observed.bridge.request_call(ids[0])
    secret = await observed.admin.create("app", "news")
    await observed.admin.subscribe("app", ETHEREUM)
    await observed.admin.notify("app", secret, "news", ETHEREUM)

    stats = (await observed.admin.get("/admin/stats")).json

    expected = {
        "sessions": {"living": 8, "since_start": 9, "last_minute": 9},
        "calls": {"since_start": 1, "last_minute": 1},
        "notifications": {"since_start": 1, "last_minute": 1},
        "outbox": {"due": 0, "dead": 0, "delivered": 0, "failed": 0},
        "up_seconds": 0,
        "pushes": {},
    }
    assert stats == {**stats, **expected}
    assert stats["memory_bytes"] > 2**20
    disk = stats["disk"]
    assert min(disk["database_bytes"], disk["free_bytes"], stats["requests"]["answered"]) > 0
    assert [each["address"] for each in stats["clients"]] == ["127.0.0.1"]
    observed.admin.clock.advance(61)
    await observed.bridge.open_session()
    later = (await observed.admin.get("/admin/stats")).json
    assert later["sessions"] == {"living": 9, "since_start": 10, "last_minute": 1}
    assert later["up_seconds"] == 61


def test_memory_is_known_where_proc_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_server.admin.server._STATM", Path("/nowhere"))
    assert memory_bytes() > 2**20


@pytest.mark.sqlite("the file is moved away")
async def test_every_setting_is_shown_and_no_secret_and_whether_the_server_works(tmp_path: Path) -> None:
    secrets: dict[str, Any] = {
        "rpc_token": "of-the-wallet", "private_keys": "0x" + "11" * 32, "node_url": "http://node.example/a-key"
    }  # fmt: skip
    async with running_server(tmp_path / "data", admin_token=ADMIN_TOKEN, **secrets) as server:
        admin = AdminClient(server)
        answer = await admin.get("/admin/settings")
        server.settings.database_file.rename(tmp_path / "elsewhere")
        ready = (await admin.get("/admin/settings")).json["ready"]

    shown = answer.json["settings"]
    assert list(shown) == list(Settings.model_fields)
    names = ("admin_token", *secrets)
    assert {name: shown[name]["value"] for name in names} == dict.fromkeys(names, "(set)")
    assert shown["webhook_secret"]["value"] is None
    assert not [text for text in (ADMIN_TOKEN, *secrets.values()) if text.encode() in answer.body]
    assert shown["max_wait"] == {"origin": "default", "value": 25, "live": True}
    assert not shown["port"]["live"]
    assert answer.json["ready"] == {"ready": True, "failure": None, "troubles": []}
    assert not ready["ready"]
    assert "The database file was deleted or replaced" in ready["failure"]


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


@each_row(
    ("name", "method", "path"),
    [("admin_token", "GET", "/admin/projects"), ("metrics_token", "GET", "/metrics"),
     ("rpc_token", "POST", "/rpc")],
)  # fmt: skip
async def test_a_token_is_changed_without_a_gap(tmp_path: Path, name: str, method: str, path: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "eth_accounts"} if name == "rpc_token" else None
    previous = f"{name}_previous"

    def settings(**values: str) -> Settings:
        return Settings(port=0, data_dir=tmp_path / "data", **values)

    async with serving(settings(**{name: "old"})) as served, aiohttp.ClientSession() as client:

        async def statuses() -> list[int]:
            """The answers to the old token, the new one and another."""
            found = []
            for token in ("old", "new", "other"):
                headers = {"Authorization": f"Bearer {token}"}
                async with client.request(method, served.url + path, json=body, headers=headers) as answer:
                    found.append(answer.status)
            return found

        assert await statuses() == [200, 401, 401]
        for values, changed, old in (
            ({name: "new", previous: "old"}, {name, previous}, 200),
            ({name: "new"}, {previous}, 401),
        ):
            taken = served.built.live.take(settings(**values))
            assert (set(taken.changed), taken.needs_restart) == (changed, ())
            assert await statuses() == [old, 200, 401]


@each_row("name", ["admin_token", "metrics_token", "rpc_token", "webhook_secret"])
def test_a_previous_value_alone_is_a_fault_that_names_the_setting(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}_previous: works beside {name} only"):
        settings_of({f"{name}_previous": "whsec_" + "A" * 32})
