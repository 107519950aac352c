"""The server that runs on a data directory: its URL and its readiness, for commands."""

import asyncio
from http import HTTPStatus
from typing import Any

import aiohttp

from bridge_server.cli.process import read_server_file
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import is_held
from bridge_server.version import USER_AGENT

DEVELOPMENT_ACCOUNTS = "development_accounts"
"""The member of the server file with the addresses of development accounts."""

CONSOLE_URL = "console_url"
"""The member of the server file with the URL of the console; there is none while it is off."""

_ANSWER_SECONDS = 5.0
_PROBLEM_PREFIX = "but "
_NO_ANSWER = (aiohttp.ClientError, TimeoutError, ValueError)


def running_url(settings: Settings) -> str | None:
    """The URL of the server that runs on the data directory; None if none runs or its file has no URL."""
    url = _facts(settings).get("url")
    return url if isinstance(url, str) else None


def console_url(settings: Settings) -> str | None:
    """The URL of the console of the server that runs on the data directory; None if it has none."""
    url = _facts(settings).get(CONSOLE_URL)
    return url if isinstance(url, str) else None


def development_accounts(settings: Settings) -> frozenset[str]:
    """The addresses of the development accounts of the server that runs on the data directory."""
    addresses = _facts(settings).get(DEVELOPMENT_ACCOUNTS)
    return frozenset(map(str, addresses)) if isinstance(addresses, list) else frozenset()


def troubles_of(url: str) -> list[str]:
    """The problems that the server reports at /readyz; one line if it does not answer."""
    try:
        _, text = asyncio.run(_readiness(url))
    except _NO_ANSWER:
        return [_silent(url)]
    lines = text.splitlines()
    return [line.removeprefix(_PROBLEM_PREFIX) for line in lines if line.startswith(_PROBLEM_PREFIX)]


def fault_of_server(url: str) -> str | None:
    """The reason why the server is not ready, as /readyz gives it; None if it is ready."""
    try:
        status, text = asyncio.run(_readiness(url))
    except _NO_ANSWER:
        return _silent(url)
    return None if status == HTTPStatus.OK else f"the server at {url} is not ready: {status} {text.strip()}"


def _silent(url: str) -> str:
    return f"the server at {url} does not answer"


def _facts(settings: Settings) -> dict[str, Any]:
    """The facts in the server file; empty if no server runs, because then the file is left over."""
    try:
        return (read_server_file(settings.server_file) if is_held(settings.data_dir) else None) or {}
    except OSError:  # this user may not read the directory
        return {}


async def _readiness(url: str) -> tuple[int, str]:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": USER_AGENT}) as session,
        session.get(f"{url}/readyz", allow_redirects=False) as response,
    ):
        return response.status, await response.text()
