"""`doctor`: each thing that can be wrong is found, and said with what to do; also through nginx.

White-box: a test does not set the machine's clock, which is synchronised or not.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import Result

from bridge_server.cli.doctor import machine
from bridge_server.cli.doctor.command import check_arrival
from bridge_server.cli.doctor.machine import Examination, Level
from bridge_server.kernel.clock import SystemClock
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings
from bridge_server.storage.backup import LastBackup, write_record
from tests.cli.conftest import Attended, Invoke, Operating, SetUp, attended_server, damaged
from tests.deploy.programs import needs, path_of, running
from tests.support import apns_service, fcm_service
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.programs import free_ports
from tests.support.proxies import PublicProxy, open_public_proxy
from tests.support.push_services import running_push_services
from tests.support.rows import each_row
from tests.support.waiting import eventually

DAY_MS = 86_400_000
Findings = dict[str, list[dict[str, Any]]]
_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {server}; proxy_set_header Host $host; {more} }}
    }}
}}
"""
_WELL = """proxy_http_version 1.1; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"""


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
    tmp_path: Path, invoke: Invoke, set_up: SetUp, url: str = "", **settings: Any
) -> AsyncIterator[Behind]:
    """A server behind a proxy, whose URL is `url` if another than the tests' own is meant."""
    async with open_public_proxy() as proxy:
        chosen = {"public_url": url or proxy.url, "admin_token": ADMIN_TOKEN, "max_wait": 1, "port": 0}
        set_up(**{**chosen, **settings})
        async with attended_server(tmp_path / "data", invoke, **{**chosen, **settings}) as attended:
            proxy.upstream = attended.server.url
            now_ms, file = SystemClock().now_ms(), attended.server.settings.database_file
            write_record(attended.server.settings.data_dir, LastBackup(now_ms, str(file), 1))
            yield Behind(attended, proxy)


@pytest.fixture
async def behind(tmp_path: Path, invoke: Invoke, set_up: SetUp) -> AsyncIterator[Behind]:
    async with behind_proxy(tmp_path, invoke, set_up, trusted_proxies="127.0.0.1") as behind:
        yield behind


async def test_where_all_is_well_the_exit_code_is_0(behind: Behind) -> None:
    code, found = await behind.examined()
    lines = (await behind.attended.command("doctor")).stdout.splitlines()

    assert {each["level"] for findings in found.values() for each in findings} == {"ok"}, found
    assert code == 0
    assert "client addresses arrive" in text(found, "proxy")
    assert re.match(
        r"held [1-9]\d* s through public_url", text(found, "long poll")
    )  # the answer takes a while
    assert text(found, "websocket").startswith("upgraded, 1 s")
    assert "integrity ok" in text(found, "database")
    assert text(found, "server").startswith("up 0 s, ")
    assert "DELETE" not in text(found, "proxy")
    assert await sessions(behind) == 0
    assert lines[0].split()[:2] == ["ok", "settings"]
    assert {line.split()[0] for line in lines} == {"ok"}


async def test_the_servers_own_url_has_no_proxy(tmp_path: Path, invoke: Invoke, set_up: SetUp) -> None:
    port = free_ports(1)[0]
    own_url = f"http://127.0.0.1:{port}"
    async with behind_proxy(tmp_path, invoke, set_up, own_url, port=port) as behind:
        code, found = await behind.examined()
    assert code == 0, found
    assert text(found, "proxy").startswith(f"{own_url} is the server's own address: there is no proxy")
    assert levels(found, "long poll") == levels(found, "websocket") == ["ok"]


@each_row(
    ("fault", "code", "subject", "level", "said"),
    [
        (("forwards_address", False), 1, "proxy", ["ok", "warn"], ["not arrive: everybody is one client"]),
        (("upgrades", False), 2, "websocket", ["fail"], ["it was not upgraded (status 200)"]),
        (("has_patience", False), 2, "long poll", ["fail"], ["answered 504", "proxy_read_timeout"]),
        (("broken_with", 502), 2, "proxy", ["fail"], ["/hello answers 502", "the proxy does not reach"]),
        (("broken_with", 404), 2, "proxy", ["fail"], ["/hello answers 404", "and not this server"]),
    ],
)
async def test_a_fault_of_the_proxy_is_found(
    behind: Behind, fault: tuple[str, Any], code: int, subject: str, level: list[str], said: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(behind.proxy, *fault)
        found_code, found = await behind.examined()
    assert (found_code, levels(found, subject)) == (code, level), found
    assert [words for words in said if words not in text(found, subject)] == []
    assert levels(found, "server")[0] == "ok"
    assert await sessions(behind) == 0


async def sessions(behind: Behind) -> int:
    """The number of living sessions. The count among the figures may be a minute old: the list is not."""
    return len((await AdminClient(behind.attended.server).get("/admin/sessions")).json["sessions"])


async def test_an_untrusted_proxy_is_named(tmp_path: Path, invoke: Invoke, set_up: SetUp) -> None:
    async with behind_proxy(tmp_path, invoke, set_up, private_keys="0x" + "11" * 32) as behind:
        _, trusting_nobody = await behind.examined()
        behind.proxy.forwards_address = False
        code, found = await behind.examined()
    assert 'trusted_proxies = ["127.0.0.1"]' in text(trusting_nobody, "proxy")
    assert (code, levels(found, "wallet")) == (2, ["fail"])
    assert "it answers everybody who comes through the proxy: set rpc_token" in text(found, "wallet")


@pytest.mark.sqlite("its database is a file")
async def test_settings_not_taken_and_a_moved_database_are_found(behind: Behind, set_up: SetUp) -> None:
    set_up(requests_burst=7, cache_bytes=1_000_000)
    code, found = await behind.examined()
    file = behind.attended.server.settings.database_file
    file.rename(file.with_name("moved"))
    code_without_file, without_file = await behind.examined()
    assert (code, code_without_file) == (1, 2)
    for name, cure in (("requests_burst", "send SIGHUP"), ("cache_bytes", "restart it")):
        assert f"the running server has other values of {name}: {cure}" in text(found, "settings")
    moved = f"{file} was deleted or moved while the server runs: put it back"
    assert moved in text(without_file, "database")
    assert "it is not ready: 503 The database file was deleted" in text(without_file, "server")


async def test_the_admin_token_is_sent_in_private_only(tmp_path: Path, invoke: Invoke, set_up: SetUp) -> None:
    async with behind_proxy(tmp_path, invoke, set_up, admin_token="none") as behind:
        code, found = await behind.examined()
    loaded = LoadedSettings(Settings(admin_token=ADMIN_TOKEN), {}, ())
    seen = Examination(loaded, None, None, fixes=False, now_ms=0)
    [finding] = await check_arrival(seen, "http://bridge.example.org")
    assert (code, levels(found, "admin API")) == (1, ["ok"])
    assert "without admin_token the server cannot say" in text(found, "proxy")
    assert finding.level is Level.WARN
    assert "is not https: the admin token is not sent" in finding.text


def examined(operating: Operating, *arguments: str | Path) -> tuple[int, Findings]:
    return read(operating("doctor", "--json", *arguments))


def test_a_server_that_is_not_found_faulty_settings_a_clock_and_a_limit_are_findings(
    operating: Operating, tmp_path: Path, invoke: Invoke, set_up: SetUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = examined(operating)
    nowhere, nothing = read(invoke("doctor", "--json", "--data-dir", tmp_path / "none"))
    monkeypatch.setattr(machine, "is_synchronised", lambda: False)
    set_up(database_limit=1)
    _, worse = examined(operating)
    set_up(port="many")
    without_settings, faulty = read(invoke("doctor", "--json"))

    assert (code, levels(found, "server")) == (2, ["fail"])
    assert f"no server runs on {operating.data_dir}: start it" in text(found, "server")
    assert levels(found, "database") == levels(found, "backup") == levels(found, "permissions") == ["ok"]
    assert (nowhere, levels(nothing, "database")) == (2, ["fail"])
    assert not (tmp_path / "none").exists()
    assert (levels(worse, "clock"), levels(worse, "database")) == (["warn"], ["ok", "fail"])
    assert "of database_limit" in text(worse, "database")
    assert (without_settings, list(faulty)) == (2, ["settings"])
    assert "port (environment BRIDGE_PORT)" in text(faulty, "settings")


def test_a_database_that_is_lost_or_of_another_schema_is_found(operating: Operating) -> None:
    database = operating.data_dir / "bridge.sqlite3"
    for version, level in ((999, "fail"), (1, "warn")):
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(f"PRAGMA user_version = {version}")
        assert levels(examined(operating)[1], "database") == [level]
    for spoil, said in (
        (damaged, "restore a backup with `bridge-server restore`"),
        (lambda file: file.write_bytes(b""), "is an empty file, so its data is lost"),
    ):
        spoil(database)
        code, found = examined(operating)
        assert (code, levels(found, "database")) == (2, ["fail"])
        assert said in text(found, "database")
        assert "\n" not in text(found, "database")


def test_the_time_until_the_disk_is_full_is_known_from_examinations_before(operating: Operating) -> None:
    size = (operating.data_dir / "bridge.sqlite3").stat().st_size
    day_before, record = SystemClock().now_ms() - DAY_MS, operating.data_dir / "doctor.json"

    def after(written: str) -> tuple[Findings, list[int]]:
        record.write_text(written)
        found = examined(operating)[1]
        return found, [each[1] for each in json.loads(record.read_text())["sizes"]]

    slowly, sizes = after(json.dumps({"sizes": [[day_before, size - 1_000]]}))
    soon, _ = after(json.dumps({"sizes": [[day_before, size - 10**15]]}))
    unknown, begun = after("[1")

    assert "days at this rate" in text(slowly, "disk")
    assert levels(soon, "disk") == ["warn"]
    assert "at this rate" not in text(unknown, "disk")
    assert (sizes, begun) == ([size - 1_000, size], [size])


def test_permissions_and_what_a_killed_server_left_are_mended_on_demand(operating: Operating) -> None:
    keystore = operating.data_dir / "keystore"
    keystore.mkdir(mode=0o700)
    for file, content in ((keystore / "notes", "not a key"), (operating.data_dir / "server.json", "{}")):
        file.write_text(content)
        file.chmod(0o600)
    operating.data_dir.chmod(0o755)
    (operating.data_dir / "bridge.sqlite3").chmod(0o644)
    before, mended, after = (examined(operating, *fix)[1] for fix in ((), ("--fix",), ()))

    assert levels(before, "key files") == ["warn", "ok"]
    assert "was left by a server that was killed" in text(before, "server")
    assert set(levels(before, "permissions")) == {"warn"}
    assert {each["fixed"] for each in [*mended["permissions"], mended["server"][0]]} == {True}
    assert levels(after, "permissions") == ["ok"]
    assert operating.data_dir.stat().st_mode & 0o777 == 0o700
    assert not (operating.data_dir / "server.json").exists()


def test_an_old_backup_and_one_that_is_gone_are_found(operating: Operating, tmp_path: Path) -> None:
    backup = tmp_path / "backup.sqlite3"
    for days, level in ((6, "ok"), (9, "warn")):
        made_at = SystemClock().now_ms() - days * DAY_MS
        write_record(operating.data_dir, LastBackup(made_at, str(backup), 1))
        _, found = examined(operating)
        assert levels(found, "backup") == [level]
        assert f"{days} days" in text(found, "backup")
    write_record(operating.data_dir, LastBackup(SystemClock().now_ms(), str(backup), 1))
    backup.unlink()
    assert levels(examined(operating)[1], "backup") == ["warn"]


async def test_push_credentials_are_tried(operating: Operating, tmp_path: Path, set_up: SetUp) -> None:
    async with running_push_services(tmp_path, SystemClock()) as services:
        set_up(**services.settings)
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


@needs("nginx")
@pytest.mark.parametrize("more", [_WELL, "proxy_read_timeout 1s;"], ids=["well", "by itself"])
async def test_nginx_is_found_well_or_wanting(
    more: str, tmp_path: Path, invoke: Invoke, set_up: SetUp
) -> None:
    port = free_ports(1)[0]
    url, configuration = f"http://127.0.0.1:{port}", tmp_path / "nginx.conf"
    settings = {"max_wait": 2, "trusted_proxies": "127.0.0.1"}
    async with behind_proxy(tmp_path, invoke, set_up, url, **settings) as behind:
        server = behind.attended.server
        configuration.write_text(_NGINX.format(folder=tmp_path, port=port, server=server.url, more=more))

        async def answers() -> bool:
            with suppress(aiohttp.ClientError):
                async with server.client.get(f"{url}/hello") as response:
                    return response.status == 200
            return False

        with running([path_of("nginx") or "", "-p", tmp_path, "-c", configuration], tmp_path / "log"):
            await eventually(answers)
            _, found = await behind.examined()

    if more == _WELL:
        assert levels(found, "proxy") == ["ok", "ok"], found
        assert levels(found, "long poll") == levels(found, "websocket") == ["ok"], found
    else:
        assert "X-Forwarded-For does not arrive" in text(found, "proxy")
        assert levels(found, "long poll") == levels(found, "websocket") == ["fail"]
        assert "answered 504" in text(found, "long poll")
