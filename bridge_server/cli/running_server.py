"""The server that runs on a data directory: its URL, its admin API, and `bridge-server health`."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import click
import orjson

from bridge_server.cli.options import CommandError, config_option, data_dir_option, loaded_settings
from bridge_server.cli.output import json_option, print_result
from bridge_server.cli.process import read_server_file
from bridge_server.kernel.process import is_running
from bridge_server.kernel.version import USER_AGENT
from bridge_server.settings.server import SERVER_FILE
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.storage.data_directory import is_held

DEVELOPMENT_ACCOUNTS = "development_accounts"
"""The member of the server file with the addresses of development accounts."""

CONSOLE_URL = "console_url"
"""The member of the server file with the URL of the console; there is none while it is off."""

PROBLEM_PREFIX = "but "
"""The beginning of a line of /readyz that names a problem of a server that is ready."""

DEV_PREFIX, DEV_DATA = "bridge-server-dev-", "data"
"""A server of `dev` that keeps nothing has its data in a temporary directory of this name, in this folder."""

_READINESS_SECONDS = 5.0


def running_url(settings: Settings, member: str = "url") -> str | None:
    """The URL of the server that runs on the data directory, or of its console (`CONSOLE_URL`), if any."""
    url = _facts(settings).get(member)
    return url if isinstance(url, str) else None


def development_accounts(settings: Settings) -> frozenset[str]:
    """The addresses of the development accounts of the server that runs on the data directory."""
    addresses = _facts(settings).get(DEVELOPMENT_ACCOUNTS)
    return frozenset(map(str, addresses)) if isinstance(addresses, list) else frozenset()


def urls_of_dev() -> list[str]:
    """The URLs of this user's servers of `dev` on this machine that keep nothing."""
    folders = [each for each in Path(tempfile.gettempdir()).glob(f"{DEV_PREFIX}*") if _is_own(each)]
    facts = [read_server_file(each / DEV_DATA / SERVER_FILE) for each in folders]
    return sorted(str(each["url"]) for each in facts if each is not None and is_running(each["pid"]))


def _is_own(folder: Path) -> bool:
    with suppress(OSError):
        return not folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
    return False


def troubles_of(url: str) -> list[str]:
    """The problems that the server reports at /readyz; one line if it does not answer."""
    status, text = _readiness(url)
    if status is None:
        return [text]
    lines = text.splitlines()
    return [line.removeprefix(PROBLEM_PREFIX) for line in lines if line.startswith(PROBLEM_PREFIX)]


def _readiness(url: str) -> tuple[int | None, str]:
    """The status and the text of /readyz; no status and the reason if the server does not answer."""
    try:
        status, content = asyncio.run(exchanged("GET", f"{url}/readyz", [None], seconds=_READINESS_SECONDS))
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None, f"the server at {url} does not answer"
    return status, content.decode(errors="replace")


def _facts(settings: Settings) -> dict[str, Any]:
    """The facts in the server file; empty if no server runs, because then the file is left over."""
    try:
        return (read_server_file(settings.server_file) if is_held(settings.data_dir) else None) or {}
    except OSError:  # this user may not read the directory
        return {}


# Requests of commands to the admin API of the server that runs on the data directory.

_ADMIN_ANSWER_SECONDS = 30.0


def ask_server(settings: Settings, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The answer of the running server's admin API to GET. Raises CommandError."""
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
    return asyncio.run(answer_of(settings, url, path, query))


async def answer_of(
    settings: Settings, url: str, path: str, query: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The answer of the admin API to GET, with the token or the previous one. Raises CommandError."""
    try:
        status, content = await exchanged(
            "GET", url + path, admin_tokens(settings), seconds=_ADMIN_ANSWER_SECONDS, params=query or {}
        )
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CommandError(f"the server at {url} does not answer: see its log") from error
    match json_of(content):
        case dict() as fields if status == HTTPStatus.OK:
            return fields
        case _ if status == HTTPStatus.UNAUTHORIZED:
            raise CommandError(
                f"the server at {url} has another admin_token: give the command the server's own settings"
            )
        case _ if status == HTTPStatus.NOT_FOUND:
            raise CommandError(f"the server at {url} was started without admin_token: restart it with one")
        case answer:
            raise refusal_of(answer, url, status)


def admin_tokens(settings: Settings) -> Sequence[str]:
    """The tokens that the server may accept; the present token is the first."""
    named = (secret_of(settings.admin_token), secret_of(settings.admin_token_previous))
    return [token for token in named if token is not None]


async def exchanged(
    method: str, url: str, tokens: Sequence[str | None], *, seconds: float, **request: Any
) -> tuple[int, bytes]:
    """The status and the body of the answer to the first token that is not refused; None sends no token.
    `request` has further arguments of aiohttp. Raises aiohttp.ClientError, TimeoutError.
    """
    status, content = 0, b""
    timeout = aiohttp.ClientTimeout(total=seconds)
    for token in tokens:
        headers = {"User-Agent": USER_AGENT}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.request(method, url, allow_redirects=False, **request) as response,
        ):
            status, content = response.status, await response.read()
        if status != HTTPStatus.UNAUTHORIZED:
            break
    return status, content


def refusal_of(answer: Any, url: str, status: int) -> CommandError:
    """The error for an answer that is no result: the server's own words, if it has given any."""
    match answer:
        case {"detail": str(refusal)}:
            return CommandError(f"the server refused: {refusal}")
    return CommandError(f"the server at {url} is not a bridge server (status {status})")


def json_of(content: bytes) -> Any:
    """The JSON of an answer's body; None if it is none, as from a proxy or another program."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


# `bridge-server health`: for the health check of a container, and for scripts.


@click.command("health")
@config_option
@data_dir_option
@json_option
@click.pass_context
def health_command(
    context: click.Context, config_file: Path | None, data_dir: Path | None, as_json: bool
) -> None:
    """Ask the server whether it is ready.

    It is the server that runs on the data directory. The exit code is 1 if it is not ready.
    """
    settings = loaded_settings(config_file, data_dir=data_dir).settings
    url = running_url(settings)
    fault: str | None = f"no server runs on {settings.data_dir}"
    if url is not None:
        status, text = _readiness(url)
        said = f"the server at {url} is not ready: {status} {text.strip()}"
        fault = None if status == HTTPStatus.OK else text if status is None else said
    fields = {"ready": fault is None, "url": url, "fault": fault}
    print_result(fields, [fault or f"ready: {url}"], as_json=as_json)
    context.exit(1 if fault else 0)
