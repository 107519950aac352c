"""`bridge-server wallet`: a wallet that pairs by URI and answers by rules, for tests, CI and demos."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import click
import orjson

from bridge_server.cli.options import FILE, CommandError, command_errors, reading, stop_with_parent_option
from bridge_server.cli.process import configure_logs, ready_file_at, run_until_exit
from bridge_server.cli.running_server import urls_of_dev
from bridge_server.ethereum.mnemonic import MnemonicError
from bridge_server.kernel import errors, fields
from bridge_server.kernel.values import dataclass
from bridge_server.kit.client import BadPairingError, BridgeClientError, BridgeUnreachableError, Generation
from bridge_server.kit.client.dapp_and_wallet import required_relay_url
from bridge_server.kit.client.v2_protocol import is_relay_pairing
from bridge_server.kit.headless import control, scan, sessions, terminal
from bridge_server.kit.headless.keys import UnknownMethodError, require_known
from bridge_server.kit.headless.rules import Rule, RuleError, RuleFile, read_rule, read_rule_file
from bridge_server.kit.headless.wallet import HeadlessWallet, generation_of
from bridge_server.wallet.accounts import PrivateKeyError, read_private_keys

# A headless wallet in a process of its own: from its URIs to its exit code.

ENDED, UNREACHABLE, USAGE, UNMET = range(4)
"""The exit codes."""

_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command."""

    make: Callable[[], HeadlessWallet]
    uris: tuple[str, ...]
    generation: Generation | None
    listen: tuple[str, int] | None
    ready_file: Path | None
    is_once: bool
    expected: dict[str, int]
    shown: sessions.Watch | None
    """What prints each event; None prints none."""


async def run_wallet(plan: Plan) -> int:
    """Run until the sessions are over, or a signal comes; returns the exit code. Raises CommandError."""
    try:
        async with (
            plan.make() as wallet,
            nullcontext() if plan.listen is None else control.control_api(wallet, *plan.listen) as facts,
        ):
            run = _Run(wallet, plan)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):  # before the ready file: they may follow at once
                loop.add_signal_handler(number, run.stop.set)
            ready = {
                "url": facts and facts.url, "token": facts and facts.token,
                "pid": os.getpid(), "accounts": wallet.accounts,
            }  # fmt: skip
            with (
                wallet.feed.watched_by(plan.shown) if plan.shown else nullcontext(),
                ready_file_at(plan.ready_file, ready, is_secret=True),
            ):
                return await run.until_over()
    except errors.InvalidInputError as error:
        raise CommandError(error.detail) from error
    except errors.BridgeError as error:
        click.echo(f"bridge-server: {error.detail}", err=True)
        return UNREACHABLE
    except (control.ListeningError, ValueError) as error:
        raise CommandError(str(error)) from error


def _shown(*, as_json: bool, is_quiet: bool) -> sessions.Watch | None:
    if as_json:
        return lambda happening: _print(orjson.dumps(control.event_fields(happening)))
    return None if is_quiet else terminal.TerminalLines(_print).watch


def _print(line: str | bytes) -> None:
    with suppress(OSError):  # nobody reads any more, and the sessions go on
        click.echo(line)


class _Run:
    """The sessions of one run, and what ends it."""

    def __init__(self, wallet: HeadlessWallet, plan: Plan) -> None:
        self._wallet = wallet
        self._plan = plan
        self._code = ENDED
        self.stop = asyncio.Event()
        self._sessions: set[asyncio.Task[None]] = set()

    async def until_over(self) -> int:
        """Run the sessions to their end, or until a signal; returns the exit code."""
        with self._wallet.feed.watched_by(self._watch):
            work = asyncio.create_task(self._follow_all())
            stopping = asyncio.create_task(self.stop.wait())
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in (work, stopping, *self._sessions):
                task.cancel()
            await asyncio.gather(work, stopping, *self._sessions, return_exceptions=True)
        if self._code:
            return self._code
        came = self._wallet.call_log.counts
        unmet = [(name, count) for name, count in self._plan.expected.items() if came[name] != count]
        for name, count in unmet:
            click.echo(f"bridge-server: --expect {name}={count} was not met: {came[name]} came", err=True)
        return UNMET if unmet else ENDED

    def _watch(self, happening: sessions.Happening) -> None:
        match happening:
            case sessions.SessionHappening("session" | "ended", session) if session.is_over:
                if session.ended_by == "bridge":
                    self._fail(UNREACHABLE, session.reason)
                if self._plan.is_once:
                    self.stop.set()

    async def _follow_all(self) -> None:
        for uri in self._plan.uris:
            self._follow(uri)
        if not self._plan.uris:
            async for line in _lines_of_input():
                self._follow(line)
        if self._plan.listen is not None:
            await self.stop.wait()
        while self._sessions:
            await asyncio.wait(self._sessions)

    def _follow(self, uri: str) -> None:
        task = asyncio.create_task(self._pair(uri))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)

    async def _pair(self, uri: str) -> None:
        try:
            session = await self._wallet.pair(uri, generation=self._plan.generation)
        except BadPairingError as error:
            self._not_paired(USAGE, str(error))
        except BridgeUnreachableError as error:
            self._not_paired(UNREACHABLE, f"{error} Start the bridge, or correct the URL that the dapp uses.")
        except BridgeClientError as error:
            self._not_paired(UNREACHABLE, str(error))
        else:
            await session.wait_until_over()

    def _not_paired(self, code: int, reason: str) -> None:
        self._fail(code, reason)
        self._wallet.feed.tell(sessions.PairingFailed(reason))
        if self._plan.is_once:
            self.stop.set()

    def _fail(self, code: int, reason: str) -> None:
        self._code = self._code or code
        click.echo(f"bridge-server: {reason}", err=True)


async def _lines_of_input() -> AsyncIterator[str]:
    """The lines of standard input, read in a thread that nobody has to wait for."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def hand_over(line: str | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=_read_input, args=(hand_over,), daemon=True).start()
    while (line := await lines.get()) is not None:
        if line.strip():
            yield line.strip()


def _read_input(hand_over: Callable[[str | None], None]) -> None:
    """Read without the lock of `sys.stdin`, on which the end of the program would wait."""
    rest = b""
    try:
        while content := os.read(sys.stdin.fileno(), _READ_BYTES):
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                hand_over(line.decode(errors="replace"))
        hand_over(rest.decode(errors="replace"))
    except (OSError, ValueError, AttributeError):  # there is no standard input
        pass
    hand_over(None)


# The command, and the wallet that its options describe.

_LARGEST_FILE_BYTES = 32 * 2**20
_POLICY = click.Choice(sessions.POLICIES)


@click.command("wallet")
@click.argument("uris", metavar="[URI]...", nargs=-1)
@click.option("--scan", metavar="FILE", help="Read the URI from a PNG of a QR code; - is standard input.")
@click.option("--relay-url", metavar="URL", help="The relay of URIs of generation 2.x, which name none.")
@click.option(
    "--generation", type=click.Choice(("plain", "0.7", "1.x", "2.x")),
    help="Read wc:...@1 URIs as this generation.  [default: 1.x]",
)  # fmt: skip
@click.option("--accounts", metavar="0,1", help="The numbers of the accounts that dapps are given.")
@click.option("--mnemonic-file", metavar="FILE", help="Sign with the accounts of these words.")
@click.option("--private-key-file", metavar="FILE", help="Sign with these keys, one a line.")
@click.option("--rpc", metavar="URL", help="Sign through another wallet's JSON-RPC.")
@click.option("--rpc-token-file", metavar="FILE", help="The bearer token of --rpc.")
@click.option("--chain-id", type=click.IntRange(1, 2**53), help="The chain that sessions begin on.")
@click.option("--node-url", metavar="URL", help="Send transactions to this node; without, they are kept.")
@click.option("--session", type=_POLICY, help="What becomes of sessions.  [default: approve]")
@click.option("--policy", type=_POLICY, help="What becomes of calls without a rule.  [default: approve]")
@click.option(
    "--on", "rules", metavar="METHOD[@ORIGIN]=ACTION", multiple=True,
    help="A rule; the first that matches decides. ACTION: approve, reject, hang, ask, delay:2s, "
    'reject:4001:"text", error:-32000:"text", answer:JSON; with *3 behind it, three times.',
)  # fmt: skip
@click.option("--rules", "rule_file", metavar="FILE", help="A TOML file of rules, which come after --on.")
@click.option("--listen", metavar="HOST:PORT", help="Answer the control API there; port 0 picks a free one.")
@click.option(
    "--ready-file", type=FILE,
    help="Write a JSON object with url, token, pid and accounts here, for the owner alone.",
)  # fmt: skip
@stop_with_parent_option
@click.option("--once", is_flag=True, help="Leave when the first session ends.")
@click.option(
    "--expect", "expected", metavar="METHOD=N", multiple=True, help="Exit with 3 unless N calls came."
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each event.")
def wallet_command(uris: tuple[str, ...], **options: Any) -> None:
    """Pair with dapps, and answer calls by rules.

    Without a URI it reads them from standard input, one a line.
    """
    configure_logs("warning", "auto")
    raise SystemExit(run_until_exit(run_wallet(_plan(uris, options))))


def _plan(uris: tuple[str, ...], options: dict[str, Any]) -> Plan:
    """The options, read and checked before anything is begun. Raises CommandError."""
    file = _rule_file(options["rule_file"])
    with _checked("--on"):
        rules = (*map(read_rule, options["rules"]), *file.rules)
    session: sessions.Policy = options["session"] or file.session or "approve"
    policy: sessions.Policy = options["policy"] or file.policy or "approve"
    listen = None if options["listen"] is None else _host_and_port(options["listen"])
    if listen is None and (
        "ask" in (session, policy) or any(isinstance(rule.action, sessions.Ask) for rule in rules)
    ):
        raise CommandError("ask needs somebody who answers: add --listen 127.0.0.1:0 for the control API")
    scanned: tuple[str, ...] = ()
    if options["scan"] is not None:
        with _checked(f"--scan {options['scan']}:"):
            scanned = (scan.uri_in_picture(_content(options["scan"])),)
    generation = options["generation"]
    wanted = (*uris, *scanned)
    if options["relay_url"] is None and any(map(is_relay_pairing, wanted)):
        found = urls_of_dev()
        if len(found) > 1:
            raise CommandError(f"several servers of dev run here ({', '.join(found)}): add --relay-url")
        for url in found:
            click.echo(f"bridge-server: the relay is {url}, the server of dev on this machine", err=True)
        options["relay_url"] = found[0] if found else None
    with _checked("the URI cannot be used:"):
        for uri in wanted:
            _check_uri(uri, options["relay_url"], generation)
    return Plan(
        make=lambda: _wallet(options, rules, session, policy),
        uris=wanted,
        generation=generation,
        listen=listen,
        ready_file=options["ready_file"],
        is_once=options["once"],
        expected=_expected(options["expected"], rules),
        shown=_shown(as_json=options["as_json"], is_quiet=options["quiet"]),
    )


def _wallet(
    options: dict[str, Any], rules: Sequence[Rule], session: sessions.Policy, policy: sessions.Policy
) -> HeadlessWallet:
    token, mnemonic = _text(options["rpc_token_file"]), _text(options["mnemonic_file"])
    keys = _text(options["private_key_file"])
    with command_errors(MnemonicError, PrivateKeyError, ValueError):
        return HeadlessWallet(
            _numbers(options["accounts"]),
            chain_id=options["chain_id"],
            mnemonic=mnemonic,
            private_keys=[] if keys is None else read_private_keys(keys),
            rpc=_url("--rpc", options["rpc"]),
            rpc_token=token,
            node_url=_url("--node-url", options["node_url"]),
            session=session,
            policy=policy,
            rules=rules,
            relay_url=options["relay_url"],
        )


def _checked(what: str) -> AbstractContextManager[None]:
    """Raise CommandError, which begins with `what`, for a fault in the block."""
    return command_errors(RuleError, BadPairingError, scan.ScanError, UnknownMethodError, about=f"{what} ")


def _check_uri(uri: str, relay_url: str | None, generation: Generation | None) -> None:
    if generation_of(uri, generation) == "2.x":
        if relay_url is None:
            raise BadPairingError(
                "a URI of generation 2.x names no relay, and no server of dev runs here: add --relay-url"
            )
        required_relay_url(relay_url)


def _rule_file(name: str | None) -> RuleFile:
    if name is None:
        return RuleFile((), None, None)
    with _checked(f"{name} cannot be used:"):
        return read_rule_file(_content(name))


def _content(name: str) -> bytes:
    with reading(name) as stream:
        return stream.read(_LARGEST_FILE_BYTES)


def _text(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return _content(name).decode().strip()
    except UnicodeDecodeError as error:
        raise CommandError(f"{name} is no text in UTF-8") from error


def _url(option: str, url: str | None) -> str | None:
    with command_errors(ValueError, about=f"{option} "):
        return None if url is None else fields.http_url(url)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) < 1_000 for part in parts):
        raise CommandError(f"--accounts {text}: write numbers from 0 on with commas between them, as in 0,1")
    return [int(part) for part in parts]


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise CommandError(f"--listen {text}: write a host and a port, as in 127.0.0.1:0")
    return host.strip("[]"), int(port)


def _expected(texts: Sequence[str], rules: Sequence[Rule]) -> dict[str, int]:
    expected: dict[str, int] = {}
    for text in texts:
        method, _, count = text.partition("=")
        if not count.isdecimal():
            raise CommandError(f"--expect {text}: write METHOD=N, as in personal_sign=2")
        with _checked(f"--expect {text}:"):
            require_known(method, [rule.method for rule in rules])
        expected[method] = int(count)
    return expected
