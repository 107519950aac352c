"""A running server to its operator: log and metrics, without a secret."""

import os
import re
import signal
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson

from bridge_server.kernel.secrets import redact
from tests.support.bridge_client import BridgeClient
from tests.support.command import WatchedServer, run_command, watched_server
from tests.support.programs import fork_server
from tests.support.server import reached

SECRETS = {"BRIDGE_METRICS_TOKEN": "open-sesame", "BRIDGE_WEBHOOK_SECRET": "whsec_" + "Z" * 32}


async def test_lines_have_time_level_and_event_requests_their_outcome_and_none_a_secret(
    tmp_path: Path,
) -> None:
    environment = {**SECRETS, "BRIDGE_PROT": "1"}
    with watched_server(tmp_path, "--access-log", environment=environment) as server:
        async with reached(server) as running:
            session_id = await running.open_session()
            await BridgeClient(running).update(session_id, "sealed-by-the-wallet")
        server.stop(signal.SIGTERM)

    lines = server.log()
    for line in lines:
        assert line["timestamp"].endswith("Z")
        assert line["level"] in ("info", "warning", "error")
        assert line["event"]
    assert [line["variable"] for line in lines if line["event"] == "unknown_setting"] == ["BRIDGE_PROT"]
    assert lines[0]["event"] == "unknown_setting"
    first, second = [line for line in lines if line["event"] == "request"]
    assert (first["method"], first["route"], first["status"]) == ("POST", "open-session", 200)
    assert (second["method"], second["route"], second["status"]) == ("PUT", "update-session", 200)
    assert first["client"] == "127.0.0.1"
    assert first["request_id"] != second["request_id"]
    assert first["milliseconds"] > 0
    for secret in (*SECRETS.values(), session_id, "sealed-by-the-wallet"):
        assert secret not in server.err_file.read_text("utf-8")


def test_a_terminal_gets_text_for_people_and_form_and_level_may_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused_start = ["serve", "--data-dir", str(tmp_path / "file" / "below"), "--port", "0"]

    def first_line(**environment: str) -> str:
        finished = run_command(*refused_start, environment={"BRIDGE_PROT": "1", **environment})
        return finished.err.splitlines()[0]

    ours, theirs = os.openpty()
    try:
        fork_server().start(refused_start, {**os.environ, "BRIDGE_PROT": "1"}, theirs).wait()
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)

    for text in (shown, first_line(BRIDGE_LOG_FORMAT="console")):
        assert "unknown_setting" in text
        assert not text.startswith("{")
    assert orjson.loads(first_line(BRIDGE_LOG_FORMAT="json"))["event"] == "unknown_setting"
    assert "unknown_setting" not in first_line(BRIDGE_LOG_LEVEL="error")


def test_a_value_whose_name_says_that_it_is_private_is_not_shown() -> None:
    names = ("secret", "webhook_secret", "token", "push_token", "Authorization", "password", "passphrase",
             "private_key", "encryptionPayload", "body")  # fmt: skip
    event = redact(None, "info", {"event": "x", "client": "192.0.2.1", **dict.fromkeys(names, "open-sesame")})
    assert event == {"event": "x", "client": "192.0.2.1", **dict.fromkeys(names, "[redacted]")}


def metrics_url_of(server: WatchedServer) -> str:
    (line,) = [line for line in server.log() if line["event"] == "metrics_listening"]
    url: str = line["url"]
    return url


def get(url: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    try:
        with urlopen(Request(url, headers=headers, method=method), timeout=60) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_on_a_port_of_their_own_have_every_figure_and_requests_by_route(tmp_path: Path) -> None:
    environment = {
        "BRIDGE_METRICS_PORT": "0", "BRIDGE_METRICS_HOST": "127.0.0.3", "BRIDGE_LOG_LEVEL": "debug",
    }  # fmt: skip
    with watched_server(tmp_path, environment=environment) as server:
        metrics_url = metrics_url_of(server)
        for _ in range(3):
            get(f"{server.url}/session/new", "POST")
        get(f"{server.url}/session/unknown")
        status, content_type, text = get(metrics_url)
        elsewhere = get(metrics_url.replace("/metrics", "/hello"))
        assert get(f"{server.url}/metrics")[0] == 404
        server.stop(signal.SIGTERM)

    assert metrics_url.startswith("http://127.0.0.3:")
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert 'bridge_http_requests_total{route="open-session",status="200"} 3.0' in text
    assert 'bridge_http_requests_total{route="session",status="404"} 1.0' in text
    assert 'bridge_http_request_seconds_count{route="open-session"} 3.0' in text
    for name in (
        "waiting_clients gauge", "database_commits_total counter", "database_transactions_total counter",
        "database_log_bytes gauge", "outbox_due gauge", "outbox_delivered_total counter",
        "outbox_failed_total counter",
    ):  # fmt: skip
        assert f"\n# TYPE bridge_{name}\n" in text
    assert elsewhere[:2] == (404, "application/problem+json")
    assert "aiohttp" not in elsewhere[2]
    # At level debug the database does not log each operation.
    assert [line for line in server.said() if line["event"].startswith(("executing", "operation"))] == []


def test_a_port_that_others_reach_asks_for_the_token_and_has_routes_with_requests(tmp_path: Path) -> None:
    environment = {"BRIDGE_METRICS_PORT": "0", "BRIDGE_METRICS_TOKEN": "open-sesame"}
    with watched_server(tmp_path, "--host", "0.0.0.0", environment=environment) as server:
        url = metrics_url_of(server)
        refused = get(url)
        before = get(url, Authorization="Bearer open-sesame")[2]
        get(f"{server.url}/hello")
        after = get(url, Authorization="Bearer open-sesame")[2]

    assert refused[:2] == (401, "application/problem+json")
    assert "bridge_waiting_clients" in before
    assert len(before) < 6_000
    assert set(re.findall(r'route="([^"]*)"', before)) <= {"metrics"}
    assert set(re.findall(r'route="([^"]*)"', after)) == {"hello", "metrics"}
