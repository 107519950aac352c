"""The page of troubleshooting: its symptoms are what the server shows, and its cures cure."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kit.client import BadPairingError
from bridge_server.kit.headless.wallet import generation_of
from bridge_server.settings.settings import Settings
from tests.support.command import run_command
from tests.support.rows import each_row
from tests.support.server import RunningServer

_DOCS = Path(__file__).parent.parent / "docs"
_PAGE = (_DOCS / "troubleshooting.md").read_text("utf-8")
_PARTS = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", _PAGE, re.MULTILINE | re.DOTALL))
_ORIGIN = "https://app.example.org"
_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "eth_accounts"}
_PAYLOAD = {"data": "ab12", "hmac": "cd34", "iv": "ef56"}


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """Settings of a server that pages of another machine want to call."""
    return {"dev_accounts": True, "rpc_origins": "https://other.example.org"}


@each_row("title", _PARTS)
def test_each_part_has_a_symptom_a_cause_and_a_cure(title: str) -> None:
    assert re.findall(r"^- \*\*(\w+):\*\*", _PARTS[title], re.MULTILINE) == ["Symptom", "Cause", "Cure"]


def test_the_first_parts_are_the_failures_that_readers_meet_first() -> None:
    assert list(_PARTS)[:3] == [
        "A browser page cannot reach /rpc", "A 1.x URI", "A 0.7 client without /compat/v0.7",
    ]  # fmt: skip


def test_the_settings_of_the_cures_exist() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", _PAGE))
    others = {"rpc_refused", "clock_jumped"}
    others |= {"database_awaited", "more_requests_failed"}
    members = {"not_found", "invalid_grant", "relay_url", "personal_sign"}

    assert named - others - members <= set(Settings.model_fields)


def test_the_codes_of_the_symptoms_are_in_the_reference() -> None:
    reference = (_DOCS / "reference.md").read_text("utf-8")
    codes = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", _PAGE))

    assert {code for code in codes if f"- `{code}`: " not in reference} == set()
    assert codes >= {"database-full", "limit-exceeded"}


async def test_a_page_is_refused_as_the_page_says_until_its_origin_is_named(server: RunningServer) -> None:
    async def status_of(origin: str) -> tuple[int, str]:
        async with server.client.post(
            f"{server.url}/rpc", json=_REQUEST, headers={"Origin": origin}
        ) as answer:
            return answer.status, await answer.text()

    status, text = await status_of(_ORIGIN)

    assert status == 403
    assert f"Web pages of '{_ORIGIN}' may not call the wallet" in text
    assert (await status_of("https://other.example.org"))[0] == 200


async def test_a_dapp_of_generation_07_reads_its_form_under_the_path_of_the_cure(
    server: RunningServer,
) -> None:
    session = await server.open_session()
    async with server.client.put(
        f"{server.url}/session/{session}", json={"encryptionPayload": _PAYLOAD}
    ) as answer:
        assert answer.status == 200

    async with server.client.get(f"{server.url}/session/{session}") as plain:
        assert "data" not in await plain.json()
    async with server.client.get(f"{server.url}/compat/v0.7/session/{session}") as compatible:
        assert (await compatible.json())["data"]["encryptionPayload"] == _PAYLOAD


def test_a_uri_that_two_protocols_share_is_read_as_the_caller_says() -> None:
    uri = f"wc:8a5e5bdc-a0e4-4702-ba63-8f1a5655744f@1?bridge=https%3A%2F%2Fbridge.example.org&key={'ab' * 32}"

    assert generation_of(uri) == "1.x"
    assert generation_of(uri, "plain") == "plain"
    with pytest.raises(BadPairingError):
        generation_of("https://app.example.org/connect")


def test_an_address_in_use_is_reported_as_the_page_says(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finished = run_command("serve", "--port", str(port), "--data-dir", tmp_path / "data")

    assert finished.exit_code == 2
    assert f"cannot listen on 127.0.0.1 port {port} (Address already in use)" in finished.err
    assert "cannot listen on 127.0.0.1 port 8080 (Address already in use)" in _PARTS["Address in use"]
