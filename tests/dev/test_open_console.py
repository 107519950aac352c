"""`dev --open`."""

import asyncio
from pathlib import Path

import pytest

from bridge_server.cli.console import open_console
from bridge_server.settings.settings import Settings

LINK = "http://127.0.0.1:8080/console/sign-in?link=once"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, test=True)


async def test_the_link_is_opened_once_commands_find_the_server(settings: Settings) -> None:
    opened: list[str] = []
    written: list[str] = []

    def browse(link: str) -> bool:
        opened.append(link)
        return True

    opening = asyncio.create_task(open_console(settings, written.append, lambda _: LINK, browse))
    await asyncio.sleep(0)
    assert opened == []
    settings.server_file.touch()
    await opening

    assert (opened, written) == ([LINK], [])


async def test_without_a_browser_the_link_is_written(settings: Settings) -> None:
    written: list[str] = []
    settings.server_file.touch()

    await open_console(settings, written.append, lambda _: LINK, lambda _: False)

    assert written == [f"there is no browser to open; this link signs in once: {LINK}"]


async def test_a_link_that_cannot_be_made_is_no_failure_of_the_server(settings: Settings) -> None:
    written: list[str] = []
    settings.server_file.touch()

    def no_link(_: Path) -> str:
        raise ValueError("no server runs")

    await open_console(settings, written.append, no_link, lambda _: True)

    assert written == ["the console was not opened: no server runs"]
