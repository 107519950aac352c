"""`bridge-server dev` and `demo`: a server for development, which everybody on this machine may control."""

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlsplit

import click
import orjson
import segno

from bridge_server.assembly.room import DemoProject
from bridge_server.cli import options, server_run
from bridge_server.cli.options import CommandError, loaded_settings, reread_settings
from bridge_server.cli.output import Output, Screen, screen_of
from bridge_server.cli.process import configure_logs, lan_address, typed_command, write_file
from bridge_server.cli.running_server import CONSOLE_URL, DEV_DATA, DEV_PREFIX
from bridge_server.cli.serve import warn_of_mistakes
from bridge_server.cli.server_run import ServerRun, Started, accounts_for_development, lan_listening
from bridge_server.cli.stats import open_console, sign_in_link
from bridge_server.kernel import background, process, secrets, version
from bridge_server.projects.service import SECRET_PREFIX
from bridge_server.relay.wire import V07
from bridge_server.settings.server import DATABASE_FILE
from bridge_server.settings.sources import CommandSettings, LoadedSettings
from bridge_server.settings.types import secret_of
from bridge_server.storage.data_directory import ThrowawayDirectory
from bridge_server.wallet.rpc.routes import REFUSED_PAGES
from bridge_server.wallet.visible_text import visible
from bridge_server.web import traffic
from bridge_server.web.traffic import Exchange, Recorded, TrafficLog, exchange_line, has_missed

COMMAND = "bridge-server dev"

# One line on the terminal for each request that the server answered or sent.

_MOST_WAITING = 2_000
"""Requests whose lines wait for the terminal; of more, the oldest have none."""

_WIDE_SCREEN = 100
_PATH_COLUMNS = {_WIDE_SCREEN: 34, 80: 24}
"""The width of paths by the columns from which on a terminal has room for it."""

_INDENT = 18
_ID_CHARACTERS = 8
_FIRST_FAILURE = 400
_COLOURS = {0: "red", 4: "yellow", 5: "red"}
"""The colours by the first digit of a status."""


class TrafficLines:
    """Follows the record of requests. A terminal that is stopped delays only its own lines."""

    def __init__(self, traffic: TrafficLog, write: Callable[[str], None], screen: Screen) -> None:
        self._traffic = traffic
        self._write = write
        self._screen = screen
        self._news: deque[Recorded] = deque(maxlen=_MOST_WAITING)
        self._missed = 0
        self._some_came = asyncio.Event()

    async def run_forever(self) -> None:
        """Write the lines of all requests from now on."""
        with self._traffic.watched_by(self._note):
            while True:
                await self._some_came.wait()
                await asyncio.to_thread(self._write, "\n".join(self._lines()))

    def _note(self, recorded: Recorded) -> None:
        self._missed += len(self._news) == _MOST_WAITING
        self._news.append(replace(recorded) if recorded.is_waiting else recorded)  # it will change
        self._some_came.set()

    def _lines(self) -> list[str]:
        gap = [f"... {self._missed} requests are not shown: they came too fast"] if self._missed else []
        lines = gap + [request_line(each, self._screen) for each in self._news]
        self._news.clear()
        self._missed = 0
        self._some_came.clear()
        return lines


def request_line(recorded: Recorded, screen: Screen) -> str:
    """The line of a request. What the terminal has no room for stands below, further to the right."""
    exchange = recorded.exchange
    columns = _WIDE_SCREEN if screen.columns is None else screen.columns
    path_columns = next((width for least, width in _PATH_COLUMNS.items() if columns >= least), 0)
    moment = datetime.fromtimestamp(recorded.at_ms / 1_000, UTC).astimezone()
    line = exchange_line(
        exchange.who,
        exchange.method,
        visible(traffic.with_short_ids(exchange.path)),
        status=exchange.status,
        milliseconds=exchange.milliseconds,
        waited_seconds=exchange.waited_seconds,
        summary=visible(_remedy(exchange, is_waiting=recorded.is_waiting) or exchange.summary),
        path_columns=path_columns,
        is_waiting=recorded.is_waiting,
    )
    text = f"{moment:%H:%M:%S}  {line}"
    if screen.columns is not None and len(text) > screen.columns:
        indented = " " * min(_INDENT, screen.columns // 4)
        lines = wrap(text, screen.columns, subsequent_indent=indented, break_on_hyphens=False)
        text = "\n".join(lines)
    if recorded.is_waiting:
        return screen.coloured(text, "yellow")
    if exchange.status >= _FIRST_FAILURE or not exchange.status:
        return screen.coloured(text, _COLOURS[exchange.status // 100])
    return screen.coloured(text, "yellow") if has_missed(exchange.route, exchange.summary) else text


def _remedy(exchange: Exchange, *, is_waiting: bool) -> str | None:
    """The command that approves a waiting request, or the flag that lets a refused page call the wallet."""
    if is_waiting:
        return f"{exchange.summary} (approvals approve {exchange.path[:_ID_CHARACTERS]})"
    if exchange.route != "rpc" or not exchange.summary.startswith(REFUSED_PAGES) or exchange.request is None:
        return None
    origin = next(value for name, value in exchange.request.headers.items() if name.lower() == "origin")
    return f"{origin} may not call the wallet: --rpc-origins {origin}"


# A QR code of block characters, two squares in each.

_WHITE_ON_BLACK, _AS_BEFORE = "\x1b[97;40m", "\x1b[0m"
_BORDER = 2


def qr_code(text: str, *, has_colours: bool) -> list[str]:
    """The lines of the code. With colours it is dark on light on every terminal, as cameras expect it."""
    drawn = StringIO()
    segno.make(text, micro=False, error="l").terminal(drawn, border=_BORDER, compact=True)
    lines = drawn.getvalue().splitlines()
    return [f"{_WHITE_ON_BLACK}{line}{_AS_BEFORE}" for line in lines] if has_colours else lines


# The text that `dev` prints when the server is ready: addresses, project, accounts with their keys.

_COLUMNS_OF_QR_CODE = 37
_COLUMNS_OF_VALUES = 27


def dev_banner(
    facts: Mapping[str, Any], screen: Screen, command: str = "bridge-server", console_link: str | None = None
) -> str:
    """The lines to print; `facts` stand in the ready file, `command` starts this program in the shell."""
    lines = list(_head(facts, command, console_link))
    for number, account in enumerate(facts["accounts"]):
        lines.append(f"  ({number}) {account['address']}  {account.get('private_key', '')}".rstrip())
    lines.append(screen.coloured("Never send these accounts anything of value.", "yellow"))
    has_room = screen.columns is None or screen.columns >= _COLUMNS_OF_QR_CODE
    if (lan_url := facts.get("lan_url")) is not None and screen.has_blocks and has_room:
        lines += qr_code(lan_url, has_colours=screen.has_colours)
    return "\n".join(lines)


def _head(facts: Mapping[str, Any], command: str, console_link: str | None) -> Iterator[str]:
    url, lan_url, project = facts["url"], facts.get("lan_url"), facts["project"]
    others = f"--data-dir {facts['data_dir']}"  # with it other commands find the server
    chain = "the node's chain" if facts["chain_id"] is None else f"chain {facts['chain_id']}"
    waiting = f"waits for: {command} approvals approve ID {others}"
    policy = "approves by itself" if facts["policy"] == "approve" else waiting
    kept = f"kept in {facts['data_dir']}" if facts["kept"] else "nothing is kept"
    yield f"{version.NAME} {version.VERSION}, for development: {kept}, everybody knows the keys"
    if console_link is not None:
        yield f"  console   {console_link}"
    yield f"  docs      {url}/docs/"
    yield f"  inbox     {url}/inbox/?project={project['id']}"
    yield _line("relay", f"ws{url.removeprefix('http')}", "relayUrl of 2.x clients")
    yield _line("bridge", url, "bridge of 1.x clients")
    yield f"  0.7       {facts['v07_url']}"
    if lan_url is not None:
        yield _line("phone", lan_url, "the bridge alone, for this network")
    yield _line("wallet", facts["rpc_url"], f"{chain}, {policy}{'' if facts['has_node'] else '; no node'}")
    yield _line("project", project["id"], f"types {', '.join(project['types'])}")
    yield f"  secret    {project['secret']}"
    yield f"  admin     {facts['admin_token']}"
    yield f"  commands  {command} COMMAND {others}"
    yield "  stop      Ctrl-C"


def _line(name: str, value: str, more: str) -> str:
    return f"  {name:<9} {value:<{_COLUMNS_OF_VALUES}} {more}"


# The data directory of `dev`: it goes with the process, or it is kept.

_MARK = "dev.json"
_SECRET = "project_secret"  # noqa: S105 - the name of a member


class DevData:
    """The data directory of one run, and the demo project's secret. It is removed at exit unless kept."""

    def __init__(self, kept: Path | None) -> None:
        self.is_kept = kept is not None
        if kept is None:
            self._throwaway: ThrowawayDirectory | None = ThrowawayDirectory(DEV_PREFIX)
            self.path = self._throwaway.path / DEV_DATA
            self.project_secret = _new_project_secret()
            return
        if kept == Path():
            raise CommandError("--keep .: name a directory: data is never put into the working directory")
        self._throwaway = None
        self.path = kept.expanduser().absolute()
        try:
            self.project_secret = _kept_secret(self.path)
        except OSError as error:
            raise CommandError(f"--keep {self.path}: {error.strerror}: name another directory") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove a directory that is not kept."""
        if self._throwaway is not None:
            self._throwaway.remove()


def _kept_secret(directory: Path) -> str:
    """The last run's secret, or a new one. Raises CommandError for a directory that no `dev` has begun."""
    mark = directory / _MARK
    if (directory / DATABASE_FILE).exists() and not mark.exists():
        raise CommandError(
            f"--keep {directory}: it has another server's data, which dev may empty: name a new directory"
        )
    try:
        return str(orjson.loads(mark.read_bytes())[_SECRET])
    except FileNotFoundError:
        secret = _new_project_secret()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(mark, orjson.dumps({_SECRET: secret}))
        return secret
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{mark} cannot be read: remove it, and the project has a new secret") from error


def _new_project_secret() -> str:
    return f"{SECRET_PREFIX}demo_{secrets.new_secret(os.urandom)}"


# The file of `dev --config-out`: the banner's facts, for programs.


_ENV_MARK = f"# {COMMAND}, process "


@contextmanager
def config_file_at(path: Path | None, facts: Mapping[str, Any]) -> Iterator[None]:
    """Keep a file of mode 0600 during the block: JSON, or shell if it is named *.env. Raises CommandError."""
    if path is None:
        yield
        return
    _require_own(path)
    spaced = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    document = {"made_by": COMMAND, **facts}
    content = _as_env(facts) if path.suffix == ".env" else orjson.dumps(document, option=spaced)
    try:
        write_file(path, content)
    except OSError as error:
        raise CommandError(f"--config-out {path}: {error.strerror or error}: name another file") from error
    try:
        yield
    finally:
        remove_config_file(path)


def remove_config_file(path: Path) -> None:
    """Remove the file if this process wrote it."""
    if _pid_in(path) == os.getpid():
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _as_env(facts: Mapping[str, Any]) -> bytes:
    """Variables of the names that tests and their fixtures read."""
    project = facts["project"]
    values = {
        "BRIDGE_URL": facts["url"],
        "BRIDGE_V07_URL": facts["v07_url"],
        "BRIDGE_RPC_URL": facts["rpc_url"],
        "BRIDGE_LAN_URL": facts.get("lan_url"),
        "BRIDGE_TEST_TOKEN": facts["test_token"],
        "BRIDGE_ADMIN_TOKEN": facts["admin_token"],
        "BRIDGE_PROJECT_ID": project["id"],
        "BRIDGE_PROJECT_SECRET": project["secret"],
    }
    lines = [f"export {name}={value}" for name, value in values.items() if value is not None]
    return "\n".join([f"{_ENV_MARK}{facts['pid']}", *lines, ""]).encode()


def _require_own(path: Path) -> None:
    if not path.exists() and not path.is_symlink():
        return
    pid = _pid_in(path) if path.is_file() else None
    if pid is None:
        raise CommandError(f"--config-out {path}: it is there, and dev did not write it: name another file")
    if pid != os.getpid() and process.is_running(pid):
        raise CommandError(f"--config-out {path}: it belongs to process {pid}, which runs: name another file")


def _pid_in(path: Path) -> int | None:
    """The process that wrote the file; None if it was not `dev`."""
    with suppress(OSError, ValueError):
        text = path.read_text("utf-8")
        if text.startswith(_ENV_MARK):
            return int(text.splitlines()[0].removeprefix(_ENV_MARK))
        document = orjson.loads(text)
        if isinstance(document, dict) and document.get("made_by") == COMMAND:
            return int(document["pid"])
    return None


# The settings of `bridge-server dev`.


_DEFAULTS = {"console": "on", "admin_wallet": True}
"""Settings for the operator's side, which any source may change."""

_ON_THE_SCREEN = ("rpc_refused",)
"""Events of the log that have a line among the requests."""
_OWN_KEYS = ("private_keys", "private_keys_file", "keystore_dir")


def dev_settings(data_dir: Path, policy: str) -> CommandSettings:
    """The settings that the command brings along, over this data directory."""
    fixed = {
        "host": "127.0.0.1",
        "data_dir": data_dir,
        "test": True,
        "dev_accounts": True,
        "dev_accounts_public": False,
        "allow_private_webhooks": True,
        "admin_token": secrets.new_secret(os.urandom),
        "approve": "auto" if policy == "approve" else policy,
    }
    return CommandSettings(COMMAND, fixed, _DEFAULTS)


def refuse_own_keys(loaded: LoadedSettings) -> None:
    """Raise CommandError for keys that are worth something: every program here has this wallet sign."""
    named = [name for name in _OWN_KEYS if getattr(loaded.settings, name) is not None]
    if named:
        where = ", ".join(f"{name} ({loaded.origins[name]})" for name in named)
        raise CommandError(
            f"{where}: dev signs for every program on this machine, with published keys only: "
            "leave it out, or use serve"
        )


# The parts of `dev` beside the server: banner, request lines, a listener for phones, a ready file.

_LINK_MS = 12 * 3600 * 1000
"""The time in which the link of the banner signs in: a terminal is read later than a command's output."""

PROJECT_ID = "demo"
DEMO_NAME = "Demo"
DEMO_TYPES: Mapping[str, str] = MappingProxyType({"news": "News", "alerts": "Alerts"})


@asynccontextmanager
async def beside_dev(
    data: DevData, lan: str | None, config_out: Path | None, server: Started, *, opens: bool, shows: bool
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the banner's facts. `lan` is the address for phones; with `shows` dapps call a wallet."""
    if opens and CONSOLE_URL not in server.facts:
        raise CommandError("--open: the console is off: leave out --open, or set console=on")
    output, screen = Output(), screen_of(sys.stdout)
    async with AsyncExitStack() as stack:
        lan_url = None
        if lan is not None:
            application, port = server.built.lan_application(server.url), urlsplit(server.url).port or 0
            lan_url = await stack.enter_async_context(lan_listening(application, lan, port))
        facts = dev_facts(data, server, lan_url)
        every_fact = {**server.facts, **facts}
        stack.enter_context(config_file_at(config_out, every_fact))
        link = await _console_link(server)
        output.write(dev_banner(every_fact, screen, typed_command(), link))
        if server.built.traffic is not None:
            lines = TrafficLines(server.built.traffic, output.write, screen)
            await stack.enter_async_context(background.running(lines.run_forever()))
        if opens and (opened := await _console_link(server)) is not None:
            await stack.enter_async_context(background.running(open_console(opened, output.write)))
        if shows:
            demo = import_module("bridge_server.kit.demo")  # late: it loads the client library
            await stack.enter_async_context(background.running(demo.demonstrate(every_fact)))
        yield facts


async def _console_link(server: Started) -> str | None:
    """A new link that signs in to the console once; None while the console is off."""
    new_link = server.built.new_console_link
    return None if new_link is None else sign_in_link(server.facts[CONSOLE_URL], await new_link(_LINK_MS))


def dev_facts(data: DevData, server: Started, lan_url: str | None) -> dict[str, Any]:
    """The banner's lines beyond the facts of every server."""
    settings = server.settings
    return {
        "test_token": server.built.test_token,
        "v07_url": server.url + V07.path,
        **({} if lan_url is None else {"lan_url": lan_url}),
        "chain_id": settings.known_chain_id,
        "has_node": settings.node_url is not None,
        "policy": "approve" if settings.approve == "auto" else "queue",
        "project": {"id": PROJECT_ID, "secret": data.project_secret, "types": list(DEMO_TYPES)},
        "admin_token": secret_of(settings.admin_token),
        "accounts": list(accounts_for_development(settings)),
        "data_dir": str(settings.data_dir),
        "kept": data.is_kept,
    }


# The command.


@click.command("dev")
@options.port_option
@click.option("--lan", is_flag=True, help="Let phones in the local network reach the bridge, and only that.")
@click.option("--open", "opens", is_flag=True, help="Open the console in the browser.")
@options.node_url_option
@click.option(
    "--policy", type=click.Choice(["approve", "queue"]), default="approve", show_default=True,
    help="approve: the wallet signs by itself; queue: it waits for `bridge-server approvals`.",
)  # fmt: skip
@click.option(
    "--rpc-origins", metavar="ORIGINS",
    help="Origins of further web pages that may call the wallet; those of this machine may anyway.",
)  # fmt: skip
@click.option(
    "--keep", type=options.FOLDER, metavar="DIR",
    help="Keep the data in this directory. Without it nothing is kept.",
)  # fmt: skip
@click.option(
    "--config-out", type=options.FILE, metavar="FILE",
    help="While the server runs, keep its addresses, tokens and keys in this file: JSON, or shell for *.env.",
)  # fmt: skip
@options.config_option
@options.set_option
@options.ready_file_option
@options.stop_with_parent_option
def dev_command(**chosen: Any) -> None:
    """Run a server for development.

    Nothing is kept, and everybody knows the keys. It listens on this machine alone, signs with published
    accounts, has a project to send notifications with, and prints a line for each request.
    """
    _run(**chosen)


@click.command("demo")
@options.port_option
@options.ready_file_option
@options.stop_with_parent_option
def demo_command(port: int | None, ready_file: Path | None) -> None:
    """Run dev with notifications and live sessions.

    Dapps of three generations call a wallet, and the console opens in the browser.
    """
    _run(opens=True, shows=True, ready_file=ready_file, port=port)


def _run(
    *,
    lan: bool = False,
    opens: bool = False,
    shows: bool = False,
    policy: str = "approve",
    keep: Path | None = None,
    config_out: Path | None = None,
    config_file: Path | None = None,
    assignments: tuple[str, ...] = (),
    ready_file: Path | None = None,
    **flags: Any,
) -> None:
    with DevData(keep) as data:
        command = dev_settings(data.path, policy)
        loaded = loaded_settings(config_file, assignments, command, **flags)
        refuse_own_keys(loaded)
        configure_logs(loaded.settings.log_level, loaded.settings.log_format, _ON_THE_SCREEN)
        warn_of_mistakes(loaded)
        address = lan_address() if lan else None
        if lan and address is None:
            raise CommandError(
                "--lan: this machine is in no network in which a phone could reach it: connect it to one, or "
                "leave out --lan"
            )
        # The first account for development is subscribed to the project.
        account = f"eip155:1:{next(accounts_for_development(loaded.settings))['address']}"
        server_run.run_server(
            ServerRun(
                settings=loaded.settings,
                origins=loaded.origins,
                reload=partial(reread_settings, config_file, assignments, command, **flags),
                companion=partial(beside_dev, data, address, config_out, opens=opens, shows=shows),
                ready_file=ready_file,
                demo=DemoProject(PROJECT_ID, DEMO_NAME, data.project_secret, DEMO_TYPES, account),
                logs_start=False,
                address_options="--port",
                abandon=partial(_abandon, data, ready_file, config_out),
            )
        )


def _abandon(data: DevData, ready_file: Path | None, config_out: Path | None) -> None:
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    if config_out is not None:
        remove_config_file(config_out)
    data.remove()
