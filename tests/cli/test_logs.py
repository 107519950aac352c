"""The log of a server: one JSON object a line, without a secret, without noise about what is not HTTP."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson
import pytest

from bridge_server.kernel.secrets import redact
from tests.support.command import WatchedServer, run_command, watched_server
from tests.support.forked_process import fork_server
from tests.support.rows import each_row

SECRETS = {"BRIDGE_METRICS_TOKEN": "open-sesame", "BRIDGE_WEBHOOK_SECRET": "whsec_" + "Z" * 32}
NOT_HTTP = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GARBAGE\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: minus one\r\n\r\n",
    b"GET /hello HTTP/1.1\r\n: no name\r\n\r\n",
    b"POST /session/new HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
]


class Told:
    """A server that logs every request, and what it was told before it stopped."""

    def __init__(self, server: WatchedServer) -> None:
        self.session_id: str = orjson.loads(post(f"{server.url}/session/new", b""))["sessionId"]
        body = orjson.dumps({"encryptionPayload": "sealed-by-the-wallet"})
        post(f"{server.url}/session/{self.session_id}", body, "PUT")
        self.answers = [send(server.url, raw) for raw in NOT_HTTP]
        self.exit_code = server.stop(signal.SIGTERM)
        self.text = server.err_file.read_text("utf-8")
        self.lines = server.log()

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]


def post(url: str, body: bytes, method: str = "POST") -> bytes:
    request = Request(url, body, {"Content-Type": "application/json"}, method=method)
    with urlopen(request, timeout=60) as response:
        answer: bytes = response.read()
        return answer


def send(url: str, raw: bytes) -> bytes:
    """The beginning of the answer to these bytes."""
    host, port = url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.sendall(raw)
        return connection.recv(1_000)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    directory = tmp_path_factory.mktemp("logs")
    environment = {**SECRETS, "BRIDGE_PROT": "1"}
    with watched_server(directory, "--access-log", environment=environment) as server:
        yield Told(server)


def test_every_line_has_a_time_a_level_and_an_event(told: Told) -> None:
    assert told.lines
    for line in told.lines:
        assert line["timestamp"].endswith("Z")
        assert line["level"] in ("info", "warning", "error")
        assert line["event"]


def test_unknown_environment_variable_is_logged_at_the_start(told: Told) -> None:
    assert [line["variable"] for line in told.events("unknown_setting")] == ["BRIDGE_PROT"]
    assert told.lines[0]["event"] == "unknown_setting"


def test_a_request_is_logged_by_its_route_with_its_outcome_and_its_id(told: Told) -> None:
    first, second = told.events("request")[:2]

    assert (first["method"], first["route"], first["status"]) == ("POST", "open-session", 200)
    assert (second["method"], second["route"], second["status"]) == ("PUT", "update-session", 200)
    assert first["client"] == "127.0.0.1"
    assert first["request_id"] != second["request_id"]
    assert first["milliseconds"] > 0


def test_neither_secrets_nor_ids_that_are_capabilities_nor_payloads_are_logged(told: Told) -> None:
    for secret in (*SECRETS.values(), told.session_id, "sealed-by-the-wallet"):
        assert secret not in told.text


def test_request_that_is_not_http_is_refused_without_a_traceback(told: Told) -> None:
    statuses = [answer.split(b" ")[1] for answer in told.answers]
    assert statuses == [b"400"] * (len(NOT_HTTP) - 1) + [b"414"]
    assert "Traceback" not in told.text
    assert not told.events("request_failed")
    assert told.exit_code == 0


def test_request_that_is_not_http_is_not_logged_as_an_error(told: Told) -> None:
    assert [line for line in told.lines if line["level"] == "error"] == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal")
def test_a_terminal_gets_text_for_people(tmp_path: Path) -> None:
    lines = first_line_on_a_terminal(tmp_path)

    assert "unknown_setting" in lines
    assert not lines.startswith("{")


def first_line_on_a_terminal(tmp_path: Path) -> str:
    """What a start that is refused at once writes to a terminal."""
    (tmp_path / "file").write_text("in the way")
    ours, theirs = os.openpty()
    try:
        command = ["serve", "--data-dir", str(tmp_path / "file" / "below"), "--port", "0"]
        fork_server().start(command, {**os.environ, "BRIDGE_PROT": "1"}, theirs).wait()
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


@each_row(
    ("form", "looks_right"),
    [("console", lambda line: not line.startswith("{")), ("json", lambda line: line.startswith("{"))],
)
def test_the_form_may_be_chosen(tmp_path: Path, form: str, looks_right: Callable[[str], bool]) -> None:
    (tmp_path / "file").write_text("in the way")
    environment = {"BRIDGE_LOG_FORMAT": form, "BRIDGE_PROT": "1"}

    finished = run_command("serve", "--data-dir", tmp_path / "file" / "below", environment=environment)

    line = finished.err.splitlines()[0]
    assert "unknown_setting" in line
    assert looks_right(line)


def test_the_level_may_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    environment = {"BRIDGE_LOG_LEVEL": "error", "BRIDGE_PROT": "1"}

    finished = run_command("serve", "--data-dir", tmp_path / "file" / "below", environment=environment)

    assert "unknown_setting" not in finished.err


@each_row(
    "name",
    [
        "secret",
        "webhook_secret",
        "token",
        "push_token",
        "Authorization",
        "password",
        "passphrase",
        "private_key",
        "encryptionPayload",
        "body",
    ],
)
def test_a_value_whose_name_says_that_it_is_private_is_not_shown(name: str) -> None:
    event = redact(None, "info", {"event": "something", name: "open-sesame", "client": "192.0.2.1"})

    assert event == {"event": "something", name: "[redacted]", "client": "192.0.2.1"}


def test_at_level_debug_the_database_does_not_tell_of_each_operation(tmp_path: Path) -> None:
    with watched_server(tmp_path, environment={"BRIDGE_LOG_LEVEL": "debug"}) as server:
        post(f"{server.url}/session/new", b"")
        server.stop(signal.SIGTERM)

        assert [line for line in server.said() if line["event"].startswith(("executing", "operation"))] == []
