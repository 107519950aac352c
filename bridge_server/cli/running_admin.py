"""Requests of commands to the admin API of the server that runs on the data directory."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from bridge_server.cli.answers import json_of
from bridge_server.cli.options import CommandError
from bridge_server.cli.running_server import running_url
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.version import USER_AGENT

_ANSWER_SECONDS = 30.0
_OK = 200
_UNAUTHORIZED = 401
_NOT_FOUND = 404


def ask_server(settings: Settings, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The answer of the running server's admin API to GET. Raises CommandError."""
    return asyncio.run(answer_of(settings, server_with_admin_api(settings), path, query))


def server_with_admin_api(settings: Settings) -> str:
    """The URL of the server that runs on the data directory. Raises CommandError."""
    url = running_url(settings)
    if url is None:
        raise CommandError(
            f"no server runs on {settings.data_dir}: start it, or name its data directory with --data-dir"
        )
    if settings.admin_token is None:
        raise CommandError(
            "these figures are in the server's memory, and it gives them to the bearer of admin_token: set "
            "admin_token, restart the server, and give the command the same settings"
        )
    return url


async def answer_of(
    settings: Settings, url: str, path: str, query: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The answer to GET of the admin API at the URL. Raises CommandError.

    A running server may still have the token that the file names as the previous one.
    """
    status, content = 0, b""
    for token in admin_tokens(settings):
        status, content = await _get(url + path, query or {}, token)
        if status != _UNAUTHORIZED:
            break
    return _fields(url, status, content)


def admin_tokens(settings: Settings) -> Sequence[str]:
    """The tokens that the server may accept; the present token is the first."""
    named = (secret_of(settings.admin_token), secret_of(settings.admin_token_previous))
    return [token for token in named if token is not None]


async def _get(url: str, query: Mapping[str, str], token: str) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}", "User-Agent": USER_AGENT}
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(url, params=query, allow_redirects=False) as response,
        ):
            return response.status, await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CommandError(f"the server at {url} does not answer: see its log") from error


def _fields(url: str, status: int, content: bytes) -> dict[str, Any]:
    match json_of(content):
        case dict() as fields if status == _OK:
            return fields
        case _ if status == _UNAUTHORIZED:
            raise CommandError(
                f"the server at {url} has another admin_token: give the command the server's own settings"
            )
        case _ if status == _NOT_FOUND:
            raise CommandError(f"the server at {url} was started without admin_token: restart it with one")
        case {"detail": str(refusal)}:
            raise CommandError(f"the server refused: {refusal}")
        case _:
            raise CommandError(f"the server at {url} is not a bridge server (status {status})")
