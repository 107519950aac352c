"""`bridge-server console`: a link for the running server's console."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import orjson
import pytest

from tests.cli.conftest import Invoke
from tests.support.command import WatchedServer, watched_server


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def data_dir(directory: Path) -> Path:
    return directory / "data"


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[WatchedServer]:
    with watched_server(
        directory, environment={"BRIDGE_CONSOLE": "on", "BRIDGE_CONSOLE_PORT": "0"}
    ) as server:
        yield server


def test_the_link_signs_in_on_the_consoles_own_port(
    server: WatchedServer, data_dir: Path, invoke: Invoke
) -> None:
    link = invoke("console", "--data-dir", data_dir).stdout.strip()
    browser = build_opener(HTTPCookieProcessor())

    with browser.open(link, timeout=60) as page:
        text = page.read().decode()

    assert urlsplit(link).port != urlsplit(server.url).port
    assert page.url.endswith("/console/traffic")
    assert "No requests yet" in text
    with pytest.raises(HTTPError, match="410"):
        browser.open(link, timeout=60)


def test_every_session_is_ended(server: WatchedServer, data_dir: Path, invoke: Invoke) -> None:
    link = orjson.loads(invoke("console", "--json", "--data-dir", data_dir).stdout)["link"]
    browser = build_opener(HTTPCookieProcessor())
    browser.open(link, timeout=60).close()

    ended = orjson.loads(invoke("console", "--sign-out", "--json", "--data-dir", data_dir).stdout)

    assert ended["signed_out"] >= 1
    with pytest.raises(HTTPError, match="401"):
        browser.open(link.partition("/sign-in")[0], timeout=60)
    assert "sessions are ended" in invoke("console", "--sign-out", "--data-dir", data_dir).stdout


def test_without_a_server_no_link_is_printed(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke("console", "--data-dir", tmp_path)

    assert result.exit_code == 2
    assert "no server runs on" in result.stderr
    assert "BRIDGE_CONSOLE=on" in result.stderr


def test_a_server_without_a_console_is_named(tmp_path: Path, invoke: Invoke) -> None:
    with watched_server(tmp_path):
        result = invoke("console", "--data-dir", tmp_path / "data")

    assert result.exit_code == 2
    assert "the running server has no console" in result.stderr
