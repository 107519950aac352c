"""`bridge-server doctor`, and its checks of the running server, its settings, proxy and push services."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import click
import orjson

from bridge_server.assembly.push import push_providers
from bridge_server.cli.doctor import machine
from bridge_server.cli.doctor.machine import Examination, Finding, exit_code, fail, ok, warn
from bridge_server.cli.options import CommandError, config_option, data_dir_option, reread_settings
from bridge_server.cli.output import columns, duration_text, json_option, print_result
from bridge_server.cli.process import configure_logs, read_server_file
from bridge_server.cli.running_server import PROBLEM_PREFIX, answer_of, json_of, running_url
from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.fields import is_loopback
from bridge_server.kernel.secrets import IdMaker
from bridge_server.kernel.version import USER_AGENT, VERSION
from bridge_server.outbox.guarded_client import Verdict, failure
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.provider import Provider
from bridge_server.settings.settings import shown_settings
from bridge_server.settings.sources import SettingsError
from bridge_server.storage.data_directory import DataDirectoryError, require_own
from bridge_server.web.addresses import UNKNOWN

_SERVER, _SETTINGS, _PROXY = "server", "settings", "proxy"


async def check_server(seen: Examination, session: aiohttp.ClientSession) -> list[Finding]:
    """Whether the server answers and is ready, how quickly, and its memory."""
    url = seen.url
    if url is None:
        text = f"no server runs on {seen.settings.data_dir}"
        return [fail(_SERVER, text, "start it, or name its data directory with --data-dir")]
    started = perf_counter()
    try:
        async with session.get(f"{url}/readyz", allow_redirects=False) as response:
            status, text = response.status, await response.text()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return [fail(_SERVER, f"{url} does not answer", "see its log, and restart it")]
    milliseconds = (perf_counter() - started) * 1_000
    if status != HTTPStatus.OK:
        reason = f"status {status}"
        match json_of(text.encode()):
            case {"detail": str(detail)}:
                reason = f"{status} {detail.rstrip('.')}"
        return [fail(_SERVER, f"it is not ready: {reason}", "see its log")]
    figures, more = await _figures(seen, url)
    found = [ok(_SERVER, f"{figures}answers in {milliseconds:.0f} ms"), *more]
    problems = [line for line in text.splitlines() if line.startswith(PROBLEM_PREFIX)]
    found += [warn(_SERVER, line.removeprefix(PROBLEM_PREFIX)) for line in problems]
    version = (read_server_file(seen.settings.server_file) or {}).get("version")
    if version not in (None, VERSION):
        reason = f"it runs version {version}, and this program is {VERSION}"
        found.append(warn(_SERVER, reason, "restart it"))
    return found


async def _figures(seen: Examination, url: str) -> tuple[str, list[Finding]]:
    """The figures in the server's memory, as the beginning of a line; else the reason why there are none."""
    if seen.settings.admin_token is None:
        text = "not asked: give this command the server's admin_token, if it has one"
        return "", [ok("admin API", text)]
    try:
        stats = await answer_of(seen.settings, url, "/admin/stats")
    except CommandError as error:
        return "", [warn("admin API", error.message)]
    outbox = stats["outbox"]
    figures = (
        f"up {duration_text(stats['up_seconds'])}, {stats['waiting']:,} waiting, "
        f"{stats['sockets']:,} sockets, {outbox['due']:,} messages due, {outbox['dead']:,} dead, "
    )
    return figures, []


# The settings: where they come from, and whether the running server has the present ones.

_FLAG = "flag"


def check_settings(seen: Examination) -> Iterator[Finding]:
    """The number of settings that are set, and settings that look like mistakes."""
    given = [origin for origin in seen.loaded.origins.values() if origin != "default"]
    file = f", file {seen.config_file}" if seen.config_file is not None else ", no file"
    yield ok(_SETTINGS, f"{len(given)} set{file}")
    for variable in seen.loaded.unknown_variables:
        yield warn(_SETTINGS, f"{variable} is set, but there is no such setting", "see `config list`")
    settings = seen.settings
    way = settings.way_through_a_proxy
    if way is not None and settings.rpc_token is None and settings.has_wallet:
        yield warn("wallet", f"rpc_token is not set, and a proxy is in front ({way})", "set rpc_token")
    if settings.test:
        yield warn("test mode", "tests can empty this server", "leave out `test` in production")


async def check_running_settings(seen: Examination, url: str) -> list[Finding]:
    """Whether the running server has taken the settings as they are now. Flags of its start are its own."""
    if seen.settings.admin_token is None:
        return []
    try:
        running = (await answer_of(seen.settings, url, "/admin/settings"))["settings"]
    except CommandError as error:
        return [warn(_SETTINGS, error.message)]
    changed = [
        (name, running[name]["live"])
        for name, row in shown_settings(seen.settings, seen.loaded.origins).items()
        if name in running
        and row["value"] != running[name]["value"]
        and not row["origin"].startswith(_FLAG)
        and not running[name]["origin"].startswith(_FLAG)
    ]
    reload = "send SIGHUP (systemctl reload bridge-server), and see settings_taken in its log"
    findings = []
    for is_live, cure in ((True, reload), (False, "restart it")):
        if names := ", ".join(name for name, can_change in changed if can_change == is_live):
            findings.append(warn(_SETTINGS, f"the running server has other values of {names}", cure))
    return findings


# Whether the addresses of clients arrive through the proxy. The server itself says what arrived.

_SEND_IT = "have it send X-Forwarded-For (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)"


async def check_arrival(seen: Examination, public: str) -> list[Finding]:
    """One finding: how a request through the public URL came to the server."""
    if seen.settings.admin_token is None:
        text = "without admin_token the server cannot say whether client addresses arrive"
        if seen.settings.trusted_proxies:
            return [ok(_PROXY, text)]
        return [warn(_PROXY, text, "if a proxy is in front, name it in trusted_proxies")]
    parts = urlsplit(public)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):  # others could read the token
        text = f"{public} is not https: the admin token is not sent over it to see what arrives"
        return [warn(_PROXY, text, "serve it by https, and correct public_url")]
    try:
        arrived = await answer_of(seen.settings, public, "/admin/clients/me")
    except CommandError as error:
        return [warn(_PROXY, f"whether client addresses arrive is not known: {error.message}")]
    peer, forwarded_for, cure = arrived["peer"], arrived["forwarded_for"], _SEND_IT
    if forwarded_for is None:
        text = "does not arrive"
    elif not arrived["trusted"]:
        text, cure = f"of {peer} is not believed", f'trusted_proxies = ["{peer}"]'
    elif arrived["address"] == UNKNOWN:
        text = f"has no address ({forwarded_for[:60]})"
    else:
        return [ok(_PROXY, "client addresses arrive")]
    return [warn(_PROXY, f"X-Forwarded-For {text}: everybody is one client", cure)]


# The server as clients reach it: through its public URL, and so through the proxy.

_POLL, _SOCKET = "long poll", "websocket"
_EARLY_SECONDS = 0.5
"""A held request may end so much sooner than it asked for."""
_GRACE_SECONDS = 10.0
_POLL_CURE = "let the proxy wait 30 s for an answer (nginx: proxy_read_timeout)"
_SOCKET_CURE = "have the proxy pass Upgrade and Connection on (nginx: proxy_http_version 1.1)"
_MET = (HTTPStatus.OK, HTTPStatus.NO_CONTENT)
_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
_NOT_UPGRADED = "it was not upgraded"
_OF_THE_WALLET = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []})


async def check_public_url(seen: Examination, session: aiohttp.ClientSession) -> list[Finding]:
    """The proxy and its headers; a long poll and a WebSocket, both held as long as clients hold them."""
    public = seen.settings.public_url
    if public is None:
        return [ok(_PROXY, "public_url is not set: answers to clients name the server's own address")]
    reached = await _reached(public, session)
    if reached is not None:
        return [reached]
    behind_it = asyncio.gather(_held_poll(seen, public, session), _held_socket(seen, public, session))
    if public.rstrip("/") == seen.url:
        return [ok(_PROXY, f"{public} is the server's own address: there is no proxy"), *await behind_it]
    held, arrival, wallet = await asyncio.gather(
        behind_it, check_arrival(seen, public), _open_wallet(seen, public, session)
    )
    return [ok(_PROXY, f"{public} answers"), *arrival, *held, *wallet]


async def _reached(public: str, session: aiohttp.ClientSession) -> Finding | None:
    """The reason why the server is not reached; None if it is."""
    try:
        async with session.get(f"{public}/hello", allow_redirects=False) as response:
            status, is_own = response.status, "X-Request-ID" in response.headers
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        cure = "see the DNS entry, the certificate and the proxy"
        return fail(_PROXY, f"{public} is not reached ({failure(error)})", cure)
    if status in _GATEWAY:
        cure = "see that the server runs, and that the proxy names its address and port"
        return fail(_PROXY, f"{public}/hello answers {status}: the proxy does not reach the server", cure)
    if status != HTTPStatus.OK or not is_own:
        cure = "have the proxy pass every path on, or correct public_url"
        return fail(_PROXY, f"{public}/hello answers {status}, and not this server", cure)
    return None


async def _held_poll(seen: Examination, public: str, session: aiohttp.ClientSession) -> Finding:
    """A session is opened, polled for as long as clients wait, and ended."""
    wait = seen.settings.max_wait
    try:
        async with session.post(f"{public}/session/new", allow_redirects=False) as response:
            status, content = response.status, await response.read()
        if status != HTTPStatus.OK:
            return warn(_POLL, f"not tried: {public}/session/new answers {status}")
        path = f"{public}/session/{orjson.loads(content)['sessionId']}"
        try:
            return await _polled(path, wait, session)
        finally:
            async with session.delete(path, allow_redirects=False):
                pass
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        return fail(_POLL, f"broken off ({failure(error)})", _POLL_CURE)


async def _polled(path: str, wait: int, session: aiohttp.ClientSession) -> Finding:
    started = perf_counter()
    timeout = aiohttp.ClientTimeout(total=wait + _GRACE_SECONDS)
    async with session.get(f"{path}/calls?wait={wait}", allow_redirects=False, timeout=timeout) as response:
        await response.read()
    seconds = perf_counter() - started
    if response.status not in _MET:
        return fail(_POLL, f"answered {response.status} after {seconds:.0f} s of {wait}", _POLL_CURE)
    if seconds < wait - _EARLY_SECONDS:
        return warn(_POLL, f"held {seconds:.0f} s of {wait} through public_url", _POLL_CURE)
    return ok(_POLL, f"held {seconds:.0f} s through public_url")


async def _held_socket(seen: Examination, public: str, session: aiohttp.ClientSession) -> Finding:
    """A WebSocket that says nothing for as long as a long poll waits."""
    wait = seen.settings.max_wait
    try:
        async with session.ws_connect(f"{public}/", timeout=aiohttp.ClientWSTimeout(ws_close=1)) as socket:
            try:
                message = await socket.receive(timeout=wait)
            except TimeoutError:
                return ok(_SOCKET, f"upgraded, {wait} s")
            return fail(_SOCKET, f"ended by {message.type.name.lower()}", _SOCKET_CURE)
    except aiohttp.WSServerHandshakeError as error:
        return fail(_SOCKET, f"{_NOT_UPGRADED} (status {error.status})", _SOCKET_CURE)
    except (aiohttp.ClientError, TimeoutError) as error:
        return fail(_SOCKET, f"{_NOT_UPGRADED} ({failure(error)})", _SOCKET_CURE)


async def _open_wallet(seen: Examination, public: str, session: aiohttp.ClientSession) -> list[Finding]:
    """Whether the wallet, if it can do anything, answers strangers that come through the proxy."""
    if not seen.settings.has_wallet:
        return []
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(
            f"{public}/rpc", data=_OF_THE_WALLET, headers=headers, allow_redirects=False
        ) as response:
            document = orjson.loads(await response.read())
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return []
    if response.status != HTTPStatus.OK or not isinstance(document, dict) or "result" not in document:
        return []
    return [fail("wallet", "it answers everybody who comes through the proxy", "set rpc_token")]


# The credentials of push services, tried with a push to a device that does not exist.

_NO_DEVICE = {"fcm": "bridge-server-doctor", "apns": "0" * 64}
"""Tokens that belong to no device: the service answers that, once it has accepted the credentials."""


async def check_pushes(seen: Examination) -> list[Finding]:
    """One finding for each service that is configured."""
    try:
        providers = push_providers(seen.settings, SystemClock())
    except ValueError as error:
        return [fail("push", str(error), "correct the settings")]
    return [await _tried(name, provider) for name, provider in providers.items()]


async def _tried(name: str, provider: Provider) -> Finding:
    if name not in _NO_DEVICE:
        return ok(f"push {name}", "the key can be used; push services see it with the first message")
    notice = PushNotice(IdMaker().random_uuid(), "Bridge Server", "A test of the credentials.", ttl_seconds=0)
    async with provider:
        outcome = await provider.push(_NO_DEVICE[name], notice)
    if outcome.verdict is Verdict.BLOCKED:
        return fail(f"push {name}", f"the credentials are refused: {outcome.reason}")
    # BadDeviceToken is APNs' word for a token of no device, once it has accepted the credentials.
    if outcome.verdict is Verdict.FAILED and "BadDeviceToken" not in outcome.reason:
        return warn(f"push {name}", f"not tried to the end: {outcome.reason}")
    return ok(f"push {name}", "the credentials are accepted")


# The command.

_ANSWER_SECONDS = 10.0

_HERE: tuple[Callable[[Examination], Iterable[Finding]], ...] = (
    check_settings,
    machine.check_database,
    machine.check_disk,
    machine.check_permissions,
    machine.check_key_files,
    machine.check_backups,
    machine.check_open_files,
    machine.check_left_over,
)
"""The checks of this machine's files."""


@click.command("doctor")
@click.option("--fix", "fixes", is_flag=True, help="Mend what is safe to mend: permissions, leftovers.")
@config_option
@data_dir_option
@json_option
def doctor_command(fixes: bool, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Find what is wrong with the server.

    It looks at settings, database, disk, server, proxy, pushes, clock, files and backups. Through the public
    URL it opens a session and a WebSocket and holds both as long as clients do, for 25 seconds. Push services
    are sent a push to a device that does not exist. The exit code is 0 if all is well, 1 if there are
    warnings, and 2 if something is broken.
    """
    findings = _examined(config_file, data_dir, fixes=fixes)
    code = exit_code(findings)
    fields = {"findings": [each.fields() for each in findings], "exit_code": code}
    print_result(fields, columns([each.row() for each in findings]), as_json=as_json)
    raise SystemExit(code)


def _examined(config_file: Path | None, data_dir: Path | None, *, fixes: bool) -> list[Finding]:
    try:
        loaded = reread_settings(config_file, (), data_dir=data_dir)
        require_own(loaded.settings.data_dir)
    except SettingsError as error:
        return [fail("settings", line, "correct it") for line in str(error).splitlines()]
    except DataDirectoryError as error:
        return [fail("data directory", str(error))]
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)  # what push providers log
    seen = Examination(loaded, config_file, running_url(loaded.settings), fixes, SystemClock().now_ms())
    found: list[Finding] = []
    for check in _HERE:
        try:
            found.extend(check(seen))
        except OSError as error:
            subject = check.__name__.removeprefix("check_").replace("_", " ")
            place = "" if error.filename is None else f"{error.filename}: "
            found.append(fail(subject, f"{place}{error.strerror}", "run this as the server's user"))
    return [*found, *asyncio.run(_elsewhere(seen))]


async def _elsewhere(seen: Examination) -> list[Finding]:
    """The checks that wait for other machines, all at once."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": USER_AGENT}) as session:
        checks: list[Coroutine[Any, Any, list[Finding]]] = [check_server(seen, session)]
        if seen.url is not None:
            checks.append(check_running_settings(seen, seen.url))
        checks += [check_public_url(seen, session), check_pushes(seen), machine.check_clock(seen)]
        return [finding for found in await asyncio.gather(*checks) for finding in found]
