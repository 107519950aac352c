"""`bridge-server wallet`: a wallet that pairs by URI and answers by rules, for tests, CI and demos."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from bridge_server.cli.files import reading
from bridge_server.cli.logs import configure_logs
from bridge_server.cli.options import CommandError
from bridge_server.cli.parent import Parent
from bridge_server.cli.wallet_run import Plan, run_wallet
from bridge_server.client import BadPairingError, Generation
from bridge_server.client.relay_url import required_relay_url
from bridge_server.ethereum.mnemonic import MnemonicError
from bridge_server.headless.actions import POLICIES, Ask, Policy, RuleError
from bridge_server.headless.methods import UnknownMethodError, require_known
from bridge_server.headless.rule_file import RuleFile, read_rule_file
from bridge_server.headless.rules import Rule, read_rule
from bridge_server.headless.scan import ScanError, uri_in_picture
from bridge_server.headless.uris import generation_of
from bridge_server.headless.wallet import HeadlessWallet
from bridge_server.kernel.fields import http_url
from bridge_server.wallet.private_keys import PrivateKeyError, read_private_keys

_LARGEST_FILE_BYTES = 32 * 2**20
_POLICY = click.Choice(POLICIES)

Read = TypeVar("Read")


@click.command("wallet")
@click.argument("uris", metavar="[URI]...", nargs=-1)
@click.option("--scan", metavar="FILE", help="Read the URI from a PNG of a QR code; - is standard input.")
@click.option("--relay-url", metavar="URL", help="The relay of URIs of generation 2.x, which name none.")
@click.option("--generation", type=click.Choice(("plain", "0.7", "1.x", "2.x")), help="Of wc:...@1: plain.")
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
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path),
    help="Write a JSON object with url, token, pid and accounts here, for the owner alone.",
)  # fmt: skip
@click.option(
    "--stop-with-parent", is_flag=True, help="Stop when the process that started the wallet has ended."
)
@click.option("--once", is_flag=True, help="Leave when the first session ends.")
@click.option(
    "--expect", "expected", metavar="METHOD=N", multiple=True, help="Exit with 3 unless N calls came."
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each event.")
def wallet_command(uris: tuple[str, ...], **options: Any) -> None:
    """Pair with dapps by URI, and answer their calls by rules.

    Without a URI it reads them from standard input, one a line.
    """
    configure_logs("warning", "auto")
    plan = _plan(uris, options)
    raise SystemExit(asyncio.run(run_wallet(plan)))


def _plan(uris: tuple[str, ...], options: dict[str, Any]) -> Plan:
    """The options, read and checked before anything is begun. Raises CommandError."""
    file = _rule_file(options["rule_file"])
    rules = (*(_checked("--on", partial(read_rule, text)) for text in options["rules"]), *file.rules)
    session: Policy = options["session"] or file.session or "approve"
    policy: Policy = options["policy"] or file.policy or "approve"
    listen = None if options["listen"] is None else _host_and_port(options["listen"])
    if listen is None and ("ask" in (session, policy) or any(isinstance(rule.action, Ask) for rule in rules)):
        raise CommandError("ask needs somebody who answers: add --listen 127.0.0.1:0 for the control API")
    scanned = () if options["scan"] is None else (_scanned(options["scan"]),)
    generation, relay_url = options["generation"], options["relay_url"]
    for uri in (*uris, *scanned):
        _checked("the URI cannot be used:", partial(_check_uri, uri, relay_url, generation))
    return Plan(
        make=lambda: _wallet(options, rules, session, policy),
        uris=(*uris, *scanned),
        reads_input=not uris and not scanned,
        generation=generation,
        listen=listen,
        ready_file=options["ready_file"],
        parent=Parent() if options["stop_with_parent"] else None,
        is_once=options["once"],
        expected=_expected(options["expected"], rules),
        output="json" if options["as_json"] else "quiet" if options["quiet"] else "lines",
    )


def _wallet(
    options: dict[str, Any], rules: Sequence[Rule], session: Policy, policy: Policy
) -> HeadlessWallet:
    token, mnemonic = _text(options["rpc_token_file"]), _text(options["mnemonic_file"])
    keys = _text(options["private_key_file"])
    try:
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
    except (MnemonicError, PrivateKeyError, ValueError) as error:
        raise CommandError(str(error)) from error


def _checked(what: str, read: Callable[[], Read]) -> Read:
    try:
        return read()
    except (RuleError, BadPairingError, ScanError, UnknownMethodError) as error:
        raise CommandError(f"{what} {error}") from error


def _check_uri(uri: str, relay_url: str | None, generation: Generation | None) -> None:
    if generation_of(uri, generation) == "2.x":
        if relay_url is None:
            raise BadPairingError("a URI of generation 2.x names no relay: add --relay-url")
        required_relay_url(relay_url)


def _rule_file(name: str | None) -> RuleFile:
    if name is None:
        return RuleFile((), None, None)
    content = _content(name)
    return _checked(f"{name} cannot be used:", lambda: read_rule_file(content))


def _scanned(name: str) -> str:
    content = _content(name)
    return _checked(f"--scan {name}:", lambda: uri_in_picture(content))


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
    try:
        return None if url is None else http_url(url)
    except ValueError as error:
        raise CommandError(f"{option} {error}") from error


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
        _checked(f"--expect {text}:", partial(require_known, method, [rule.method for rule in rules]))
        expected[method] = int(count)
    return expected
