"""Calls of commands to the wallet of a running server, over its JSON-RPC."""

import asyncio
from typing import Any

import aiohttp
import orjson

from bridge_server.cli.answers import json_of
from bridge_server.cli.options import CommandError
from bridge_server.cli.reachable_url import local_url
from bridge_server.cli.running_server import running_url
from bridge_server.kernel.fields import http_url
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.version import USER_AGENT

_ANSWER_SECONDS = 60.0
_OK = 200
_UNAUTHORIZED = 401
_HEADERS = {"Content-Type": "application/json", "User-Agent": USER_AGENT}


def server_url(settings: Settings) -> str:
    """The URL of the server on the data directory, or else of one with these settings.

    Raises CommandError.
    """
    running = running_url(settings)
    if running is not None:
        return running
    if not settings.port:
        raise CommandError("the server listens on any free port: name its address with --url")
    return local_url(settings.host, settings.port)


def call_wallet(settings: Settings, url: str, method: str, params: list[Any]) -> Any:
    """Call a JSON-RPC method of the server at the URL; returns its result. Raises CommandError."""
    body = _body(method, params)
    try:
        endpoint = f"{http_url(url).rstrip('/')}/rpc"
    except ValueError as error:
        raise CommandError(f"--url {error}") from error
    try:
        status, content = asyncio.run(_answer(endpoint, body, settings))
    except TimeoutError:
        raise CommandError(f"the server at {url} does not answer") from None
    except aiohttp.ClientError as error:
        raise CommandError(f"no server answers at {url}: start it, or name another with --url") from error
    return _result(url, status, content)


def _body(method: str, params: list[Any]) -> bytes:
    try:
        return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    except orjson.JSONEncodeError as error:
        raise CommandError("the passphrase is not text in UTF-8: it cannot be sent to the server") from error


async def _answer(url: str, body: bytes, settings: Settings) -> tuple[int, bytes]:
    """The status and the body of the answer. The previous token is tried where the present one is refused."""
    token, previous = secret_of(settings.rpc_token), secret_of(settings.rpc_token_previous)
    answer = await _post(url, body, token)
    if answer[0] == _UNAUTHORIZED and previous is not None:
        return await _post(url, body, previous)
    return answer


async def _post(url: str, body: bytes, token: str | None) -> tuple[int, bytes]:
    headers = _HEADERS if token is None else {**_HEADERS, "Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, data=body, headers=headers, allow_redirects=False) as response,
    ):
        return response.status, await response.read()


def _result(url: str, status: int, content: bytes) -> Any:
    match json_of(content):
        case {"error": {"message": str(refusal)}} if status == _OK:
            raise CommandError(f"the server refused: {refusal}")
        case {"result": result} if status == _OK:
            return result
        case _ if status == _UNAUTHORIZED:
            raise CommandError(
                "the server requires its rpc_token: give it to this command too, "
                "as BRIDGE_RPC_TOKEN or with --config"
            )
        case {"detail": str(refusal)}:
            raise CommandError(f"the server refused: {refusal}")
        case _:
            raise CommandError(f"the server at {url} is not a bridge server (status {status})")
