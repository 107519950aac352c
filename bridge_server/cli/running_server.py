"""The server that runs on a data directory, as commands find it and ask how it is."""

import asyncio
from typing import Any

import aiohttp

from bridge_server.cli.process import read_server_file
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import is_held
from bridge_server.version import USER_AGENT

DEVELOPMENT_ACCOUNTS = "development_accounts"
"""The member of the server file with the addresses whose keys everybody knows."""

_ANSWER_SECONDS = 5.0
_TROUBLE = "but "


def running_url(settings: Settings) -> str | None:
    """Where the server of the data directory answers; None when none runs there, or its file has no URL."""
    url = _facts(settings).get("url")
    return url if isinstance(url, str) else None


def development_accounts(settings: Settings) -> frozenset[str]:
    """The addresses of the development accounts of the server that runs on the data directory."""
    addresses = _facts(settings).get(DEVELOPMENT_ACCOUNTS)
    return frozenset(map(str, addresses)) if isinstance(addresses, list) else frozenset()


def troubles_of(url: str) -> list[str]:
    """What the server says that an operator should look at; a server that does not answer is trouble."""
    try:
        text = asyncio.run(_readiness(url))
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return [f"the server at {url} does not answer"]
    lines = text.splitlines()
    return [line.removeprefix(_TROUBLE) for line in lines if line.startswith(_TROUBLE)]


def _facts(settings: Settings) -> dict[str, Any]:
    """The facts of the server file. The file of a server that runs no longer is ignored."""
    try:
        return (read_server_file(settings.server_file) if is_held(settings.data_dir) else None) or {}
    except OSError:  # the directory is not for this user
        return {}


async def _readiness(url: str) -> str:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": USER_AGENT}) as session,
        session.get(f"{url}/readyz", allow_redirects=False) as response,
    ):
        return await response.text()
