"""The page of the settings: value, source, whether SIGHUP takes a new value; and the server's readiness."""

import re
from pathlib import Path
from typing import Any

import pytest

from bridge_server.settings.settings import Settings
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.console_client import ConsoleClient
from tests.support.server import running_server

PATH = "/console/settings"


def row_of(page: str, name: str) -> str:
    """The text of the row of a setting."""
    found = re.search(rf'<tr>\s*<th scope="row"[^>]*>{name}</th>(.*?)</tr>', page, re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]*>", " ", found[1]).split())


async def test_every_setting_is_shown_with_its_source(console: ConsoleClient) -> None:
    page = await console.page(PATH)

    for name in Settings.model_fields:
        assert f'class="mono">{name}</th>' in page
    assert row_of(page, "max_wait") == "25 default by SIGHUP"
    assert row_of(page, "console") == "on given by the program by a restart"
    assert row_of(page, "webhook_secret") == "not set default by SIGHUP"
    assert "The server can do its work." in page


async def test_the_settings_are_searched(console: ConsoleClient) -> None:
    page = await console.page(f"{PATH}?search=MAX_wait")

    assert re.findall(r'<th scope="row"[^>]*>(\w+)</th>', page) == ["max_wait"]
    assert "No setting fits" in await console.page(f"{PATH}?search=%3Cscript%3E")


@pytest.mark.own_server
async def test_no_secret_is_shown(tmp_path: Path) -> None:
    secret: dict[str, Any] = {"rpc_token": "of-the-wallet", "node_url": "http://node.example/a-key"}
    async with running_server(tmp_path / "data", console=True, admin_token=ADMIN_TOKEN, **secret) as server:
        page = await (await ConsoleClient(server).sign_in()).page(PATH)

    assert row_of(page, "rpc_token").startswith("(set)")
    assert not [text for text in (ADMIN_TOKEN, *secret.values()) if text in page]
