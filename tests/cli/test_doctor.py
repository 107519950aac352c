"""`doctor`: each thing that can be wrong is found, and said with what to do."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from bridge_server.cli.doctor import machine
from bridge_server.cli.doctor.findings import Examination, Level
from bridge_server.cli.doctor.server import check_arrival
from bridge_server.kernel.clock import SystemClock
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings
from bridge_server.storage.backup import LastBackup, write_record
from tests.cli.attended import Attended, attended_server
from tests.cli.conftest import Invoke
from tests.cli.operating import Operating
from tests.support import apns_service, fcm_service
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.free_ports import free_ports
from tests.support.public_proxy import PublicProxy, open_public_proxy
from tests.support.push_services import running_push_services
from tests.support.rows import each_row

DAY_MS = 86_400_000
Findings = dict[str, list[dict[str, Any]]]


def read(result: Result) -> tuple[int, Findings]:
    """The exit code, and the findings by their subject."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    document = json.loads(result.stdout)
    assert document["exit_code"] == result.exit_code
    found: Findings = {}
    for finding in document["findings"]:
        found.setdefault(finding["subject"], []).append(finding)
    return result.exit_code, found


def levels(findings: Findings, subject: str) -> list[str]:
    return [each["level"] for each in findings.get(subject, [])]


def text(findings: Findings, subject: str) -> str:
    """Everything that was said of a subject."""
    return "; ".join(f"{each['text']}: {each['cure']}" for each in findings[subject])


@pytest.fixture(autouse=True)
def synchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine of the tests does about its clock."""
    monkeypatch.setattr(machine, "is_synchronised", lambda: True)


@pytest.fixture
def operating(tmp_path: Path, invoke: Invoke) -> Operating:
    """A database, a backup of it, and no server."""
    operating = Operating(invoke, tmp_path / "data")
    operating.text("project", "create", "First", "--id", "first")
    operating.text("backup", tmp_path / "backup.sqlite3")
    return operating


@dataclass(frozen=True, slots=True)
class Behind:
    """A server behind a proxy, and the doctor with its settings."""

    attended: Attended
    proxy: PublicProxy

    async def examined(self) -> tuple[int, Findings]:
        return read(await self.attended.command("doctor", "--json"))


@asynccontextmanager
async def behind_proxy(
    tmp_path: Path, invoke: Invoke, patch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[Behind]:
    async with open_public_proxy() as proxy:
        chosen = {"public_url": proxy.url, "admin_token": ADMIN_TOKEN, "max_wait": 1, "port": 0, **settings}
        for name, value in chosen.items():
            patch.setenv(f"BRIDGE_{name.upper()}", str(value))
        async with attended_server(tmp_path / "data", invoke, **chosen) as attended:
            proxy.upstream = attended.server.url
            now_ms, file = SystemClock().now_ms(), attended.server.settings.database_file
            write_record(attended.server.settings.data_dir, LastBackup(now_ms, str(file), 1))
            yield Behind(attended, proxy)


@pytest.fixture
async def behind(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Behind]:
    async with behind_proxy(tmp_path, invoke, monkeypatch, trusted_proxies="127.0.0.1") as behind:
        yield behind


async def test_where_all_is_well_the_exit_code_is_0(behind: Behind) -> None:
    code, found = await behind.examined()

    assert {each["level"] for findings in found.values() for each in findings} == {"ok"}, found
    assert code == 0
    assert "client addresses arrive" in text(found, "proxy")
    assert text(found, "long poll").startswith("held 1 s through public_url")
    assert text(found, "websocket").startswith("upgraded, 1 s")
    assert "integrity ok" in text(found, "database")
    assert text(found, "server").startswith("up 0 s, ")
    assert "DELETE" not in text(found, "proxy")
    assert await sessions(behind) == 0


async def test_a_public_url_that_is_the_servers_own_has_no_proxy(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_ports(1)[0]
    own_url = f"http://127.0.0.1:{port}"
    async with behind_proxy(tmp_path, invoke, monkeypatch, port=port, public_url=own_url) as behind:
        code, found = await behind.examined()

    assert code == 0, found
    assert text(found, "proxy").startswith(f"{own_url} is the server's own address: there is none")
    assert levels(found, "long poll") == levels(found, "websocket") == ["ok"]


@pytest.mark.sqlite("its database is a file")
async def test_a_database_that_was_moved_from_under_the_server_is_to_be_put_back(behind: Behind) -> None:
    file = behind.attended.server.settings.database_file
    file.rename(file.with_name("moved"))

    code, found = await behind.examined()

    assert code == 2
    assert f"{file} was deleted or moved while the server runs: put it back" in text(found, "database")
    assert "it is not ready: 503 The database file was deleted" in text(found, "server")


async def sessions(behind: Behind) -> int:
    """The number of living sessions. The count among the figures may be a minute old: the list is not."""
    return len((await behind.attended.admin.get("/admin/sessions")).json["sessions"])


async def test_for_people_it_is_a_table(behind: Behind) -> None:
    lines = (await behind.attended.command("doctor")).stdout.splitlines()

    assert lines[0].split()[:2] == ["ok", "settings"]
    assert {line.split()[0] for line in lines} == {"ok"}


async def test_a_proxy_that_hides_addresses_is_found(behind: Behind) -> None:
    behind.proxy.forwards_address = False

    code, found = await behind.examined()

    assert code == 1
    assert "X-Forwarded-For does not arrive: everybody is one client" in text(found, "proxy")


async def test_a_proxy_that_does_not_upgrade_is_found(behind: Behind) -> None:
    behind.proxy.upgrades = False

    code, found = await behind.examined()

    assert (code, levels(found, "websocket")) == (2, ["fail"])
    assert "it was not upgraded (status 200)" in text(found, "websocket")


async def test_a_proxy_without_patience_is_found(behind: Behind) -> None:
    behind.proxy.has_patience = False

    code, found = await behind.examined()

    assert (code, levels(found, "long poll")) == (2, ["fail"])
    assert "answered 504" in text(found, "long poll")
    assert "proxy_read_timeout" in text(found, "long poll")
    assert await sessions(behind) == 0


@each_row(
    ("status", "said"),
    [
        (502, "the proxy does not reach the server"),
        (404, "and not this server"),
        (301, "and not this server"),
    ],
)
async def test_a_proxy_that_does_not_reach_the_server_is_found(
    behind: Behind, status: int, said: str
) -> None:
    behind.proxy.broken_with = status

    code, found = await behind.examined()

    assert (code, levels(found, "proxy")) == (2, ["fail"])
    assert f"{behind.proxy.url}/hello answers {status}" in text(found, "proxy")
    assert said in text(found, "proxy")
    assert levels(found, "server")[0] == "ok"


async def test_a_proxy_that_is_not_trusted_is_named(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind_proxy(tmp_path, invoke, monkeypatch) as behind:
        code, found = await behind.examined()

    assert code == 1
    assert 'trusted_proxies = ["127.0.0.1"]' in text(found, "proxy")


async def test_a_wallet_that_answers_strangers_is_found(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"private_keys": "0x" + "11" * 32}
    async with behind_proxy(tmp_path, invoke, monkeypatch, **settings) as behind:
        behind.proxy.forwards_address = False

        code, found = await behind.examined()

    assert (code, levels(found, "wallet")) == (2, ["fail"])
    assert "it answers everybody who comes through the proxy: set rpc_token" in text(found, "wallet")


async def test_settings_that_the_running_server_has_not_taken_are_named(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_REQUESTS_BURST", "7")
    monkeypatch.setenv("BRIDGE_CACHE_BYTES", "1000000")

    code, found = await behind.examined()

    assert code == 1
    said = text(found, "settings")
    assert "the running server has other values of requests_burst: send SIGHUP" in said
    assert "the running server has other values of cache_bytes: restart it" in said


async def test_without_the_admin_api_less_is_known(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind_proxy(tmp_path, invoke, monkeypatch, admin_token="none") as behind:
        code, found = await behind.examined()

    assert (code, levels(found, "admin API")) == (1, ["ok"])
    assert "without admin_token the server cannot say" in text(found, "proxy")


async def test_the_admin_token_is_not_sent_where_others_can_read_it() -> None:
    loaded = LoadedSettings(Settings(admin_token=ADMIN_TOKEN), {}, ())
    seen = Examination(loaded, None, None, fixes=False, now_ms=0)

    [finding] = await check_arrival(seen, "http://bridge.example.org")

    assert finding.level is Level.WARN
    assert "is not https: the admin token is not sent" in finding.text


def examined(operating: Operating, *arguments: str | Path) -> tuple[int, Findings]:
    return read(operating("doctor", "--json", *arguments))


def test_a_server_that_does_not_run_is_found(operating: Operating) -> None:
    code, found = examined(operating)

    assert (code, levels(found, "server")) == (2, ["fail"])
    assert f"no server runs on {operating.data_dir}: start it" in text(found, "server")
    assert levels(found, "database") == levels(found, "backup") == levels(found, "permissions") == ["ok"]


def test_nothing_is_made_where_there_is_no_installation(tmp_path: Path, invoke: Invoke) -> None:
    code, found = read(invoke("doctor", "--json", "--data-dir", tmp_path / "none"))

    assert (code, levels(found, "database")) == (2, ["fail"])
    assert not (tmp_path / "none").exists()


def test_settings_that_are_not_valid_are_a_finding(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_PORT", "many")

    code, found = read(invoke("doctor", "--json"))

    assert (code, list(found)) == (2, ["settings"])
    assert "port (environment BRIDGE_PORT)" in text(found, "settings")


def test_an_empty_file_is_no_new_database(operating: Operating) -> None:
    (operating.data_dir / "bridge.sqlite3").write_bytes(b"")

    code, found = examined(operating)

    assert (code, levels(found, "database")) == (2, ["fail"])
    assert "is an empty file, so its data is lost" in text(found, "database")


def test_a_damaged_database_is_found(operating: Operating) -> None:
    file = operating.data_dir / "bridge.sqlite3"
    content = bytearray(file.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(content)

    code, found = examined(operating)

    assert (code, levels(found, "database")) == (2, ["fail"])
    said = text(found, "database")
    assert "restore a backup with `bridge-server restore`" in said
    assert "\n" not in said


@each_row(("version", "level"), [(999, "fail"), (1, "warn")])
def test_another_schema_is_found(operating: Operating, version: int, level: str) -> None:
    with closing(sqlite3.connect(operating.data_dir / "bridge.sqlite3")) as connection, connection:
        connection.execute(f"PRAGMA user_version = {version}")

    _, found = examined(operating)

    assert levels(found, "database") == [level]


@pytest.mark.parametrize(("limit", "level"), [(1, "fail"), (10**9, "ok")])
def test_the_limit_of_the_database_is_looked_at(
    operating: Operating, monkeypatch: pytest.MonkeyPatch, limit: int, level: str
) -> None:
    monkeypatch.setenv("BRIDGE_DATABASE_LIMIT", str(limit))

    _, found = examined(operating)

    assert levels(found, "database") == ["ok", level]
    assert "of database_limit" in text(found, "database")


def test_the_time_until_the_disk_is_full_is_known_from_examinations_before(operating: Operating) -> None:
    size = (operating.data_dir / "bridge.sqlite3").stat().st_size
    day_before = SystemClock().now_ms() - DAY_MS
    (operating.data_dir / "doctor.json").write_text(json.dumps({"sizes": [[day_before, size - 1_000]]}))

    _, found = examined(operating)

    assert "days at this rate" in text(found, "disk")
    sizes = json.loads((operating.data_dir / "doctor.json").read_text())["sizes"]
    assert [each[1] for each in sizes] == [size - 1_000, size]


def test_a_disk_that_fills_soon_is_found(operating: Operating) -> None:
    size, day_before = (operating.data_dir / "bridge.sqlite3").stat().st_size, SystemClock().now_ms() - DAY_MS
    (operating.data_dir / "doctor.json").write_text(json.dumps({"sizes": [[day_before, size - 10**15]]}))

    _, found = examined(operating)

    assert levels(found, "disk") == ["warn"]


def test_a_record_of_sizes_that_is_no_record_is_begun_anew(operating: Operating) -> None:
    (operating.data_dir / "doctor.json").write_text("[1")

    _, found = examined(operating)

    assert "at this rate" not in text(found, "disk")
    assert len(json.loads((operating.data_dir / "doctor.json").read_text())["sizes"]) == 1


def test_permissions_are_mended_on_demand(operating: Operating) -> None:
    operating.data_dir.chmod(0o755)
    (operating.data_dir / "bridge.sqlite3").chmod(0o644)

    _, before = examined(operating)
    _, mended = examined(operating, "--fix")
    _, after = examined(operating)

    assert set(levels(before, "permissions")) == {"warn"}
    assert {each["fixed"] for each in mended["permissions"]} == {True}
    assert levels(after, "permissions") == ["ok"]
    assert operating.data_dir.stat().st_mode & 0o777 == 0o700


def test_a_finding_that_is_mended_does_not_count_as_a_warning(operating: Operating) -> None:
    (operating.data_dir / "server.json").write_text("{}", "utf-8")
    (operating.data_dir / "server.json").chmod(0o600)

    _, before = examined(operating)
    _, mended = examined(operating, "--fix")

    assert "was left by a server that was killed" in text(before, "server")
    assert mended["server"][0]["fixed"]
    assert not (operating.data_dir / "server.json").exists()


def test_a_file_among_the_key_files_that_is_none_is_found(operating: Operating) -> None:
    keystore = operating.data_dir / "keystore"
    keystore.mkdir(mode=0o700)
    (keystore / "notes").write_text("not a key")
    (keystore / "notes").chmod(0o600)

    _, found = examined(operating)

    assert levels(found, "key files") == ["warn", "ok"]


@each_row(("days", "level"), [(6, "ok"), (9, "warn")])
def test_an_old_backup_is_found(operating: Operating, tmp_path: Path, days: int, level: str) -> None:
    made_at = SystemClock().now_ms() - days * DAY_MS
    write_record(operating.data_dir, LastBackup(made_at, str(tmp_path / "backup.sqlite3"), 1))

    _, found = examined(operating)

    assert levels(found, "backup") == [level]
    assert f"{days} days" in text(found, "backup")


def test_a_backup_that_is_gone_is_found(operating: Operating, tmp_path: Path) -> None:
    (tmp_path / "backup.sqlite3").unlink()

    _, found = examined(operating)

    assert levels(found, "backup") == ["warn"]


def test_a_clock_that_nothing_sets_is_found(operating: Operating, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "is_synchronised", lambda: False)

    _, found = examined(operating)

    assert levels(found, "clock") == ["warn"]


def test_the_kernel_says_whether_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    assert machine.is_synchronised() in (True, False, None)


@pytest.fixture
def pushing_settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(settings: Any) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(f"BRIDGE_{name.upper()}", str(value))

    return use


async def test_credentials_of_push_services_are_tried(
    operating: Operating, tmp_path: Path, pushing_settings: Any
) -> None:
    async with running_push_services(tmp_path, SystemClock()) as services:
        pushing_settings(services.settings)
        services.apns.by_token["0" * 64] = apns_service.refusal("BadDeviceToken")
        _, found = await asyncio.to_thread(examined, operating)
        services.fcm.token_script.append(fcm_service.answered(400, {"error": "invalid_grant"}))
        services.apns.by_token["0" * 64] = apns_service.refusal("InvalidProviderToken")
        code, refused = await asyncio.to_thread(examined, operating)

    assert [levels(found, f"push {name}") for name in ("fcm", "apns", "webpush")] == [["ok"]] * 3
    assert [levels(refused, f"push {name}") for name in ("fcm", "apns")] == [["fail"]] * 2
    assert "invalid_grant" in text(refused, "push fcm")
    assert "InvalidProviderToken" in text(refused, "push apns")
    assert code == 2
    assert found["clock"][0]["text"].endswith("the push service's")
