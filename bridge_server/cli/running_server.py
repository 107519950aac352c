"""The server that runs on a data directory, as commands find it and ask how it is."""

import asyncio

import aiohttp

from bridge_server.cli.process import read_server_file
from bridge_server.settings.settings import Settings
from bridge_server.storage.data_directory import is_held
from bridge_server.version import USER_AGENT

_ANSWER_SECONDS = 5.0
_TROUBLE = "but "


def running_url(settings: Settings) -> str | None:
    """Where the server of the data directory answers; None when none runs there, or none that tells.

    What a server has left behind that is gone is not believed.
    """
    try:
        facts = read_server_file(settings.server_file) if is_held(settings.data_dir) else None
    except OSError:  # the directory is not for this user
        return None
    url = None if facts is None else facts.get("url")
    return url if isinstance(url, str) else None


def troubles_of(url: str) -> list[str]:
    """What the server says that an operator should look at; a server that does not answer is trouble."""
    try:
        text = asyncio.run(_readiness(url))
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return [f"the server at {url} does not answer"]
    lines = text.splitlines()
    return [line.removeprefix(_TROUBLE) for line in lines if line.startswith(_TROUBLE)]


async def _readiness(url: str) -> str:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": USER_AGENT}) as session,
        session.get(f"{url}/readyz", allow_redirects=False) as response,
    ):
        return await response.text()
