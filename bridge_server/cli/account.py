"""`bridge-server account` and `approvals`: key files, and requests that wait for the operator's decision."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import click
import orjson

from bridge_server.admin import wallet
from bridge_server.assembly.command_line import CommandServices
from bridge_server.assembly.wallet import wallet_accounts
from bridge_server.cli.database_command import DatabaseCommand, database_command
from bridge_server.cli.options import STANDARD_STREAM, CommandError, command_errors, reading, replacing
from bridge_server.cli.output import Group, columns, table
from bridge_server.cli.process import configure_logs, local_url
from bridge_server.cli.running_server import development_accounts, exchanged, json_of, refusal_of, running_url
from bridge_server.ethereum.address import HexError, address_of, checksummed, hex_of
from bridge_server.ethereum.keystore import LARGEST_FILE_BYTES, CostError, KeystoreError, read_keystore
from bridge_server.kernel import clock, errors, instants, secrets
from bridge_server.kernel.fields import http_url
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of
from bridge_server.storage.data_directory import is_held
from bridge_server.wallet import accounts as keys
from bridge_server.wallet import models
from bridge_server.wallet.accounts import DEFAULT_UNLOCK_SECONDS, LONGEST_UNLOCK_SECONDS, Accounts
from bridge_server.wallet.keystore_files import KeystoreFiles

Result = TypeVar("Result")

_SOURCE_UNKNOWN_HERE = "server"
"""The source of a key that the running server has and that is not in the settings of the command."""


def _read_address(context: click.Context, parameter: click.Parameter, value: str) -> models.Address:
    with command_errors(HexError, about=f"{value} "):
        return models.Address(address_of(value))


_address_argument = click.argument("address", callback=_read_address)
_passphrase_option = click.option(
    "--passphrase-file", type=click.Path(allow_dash=True),
    help="Read the passphrase from the first line of this file (- is standard input), not from the terminal.",
)  # fmt: skip


@click.group("account", cls=Group)
def account_group() -> None:
    """Manage the wallet's accounts. Works with or without a running server.

    Keys are stored in files encrypted with a passphrase, in the format of geth and other wallets (version 3).
    A command asks for a passphrase or private key at the terminal, or reads it from a file or standard input.
    It is never an argument, because other users of the machine can see arguments.
    """


@database_command(account_group.command("new"))
@_passphrase_option
def new_command(command: DatabaseCommand, passphrase_file: str | None) -> None:
    """Create an account with a new key file, and print its address."""
    secret = _passphrase(passphrase_file, repeated="Repeat the passphrase")
    _add(command, lambda accounts: accounts.create(secret))


@database_command(account_group.command("list"))
def list_command(command: DatabaseCommand) -> None:
    """Print the accounts of the running server, and the source of each key.

    If no server runs on the data directory, or it does not answer, print the accounts of the settings.
    """
    files = _files(command)

    async def listed(accounts: Accounts) -> list[dict[str, str]]:
        rows = []
        for each in accounts.accounts():
            file = str(files.file(each.address)) if each.source is models.AccountSource.KEYSTORE else ""
            rows.append({"address": checksummed(each.address), "source": each.source.value, "file": file})
        return rows

    rows = _run_on_accounts(command, files, listed)
    url = running_url(command.settings)
    where = f"there are no accounts in these settings, and no server runs on {command.settings.data_dir}"
    if url is not None:
        served = _rows_of_server(command, url, rows)
        where = (
            "there are no accounts in these settings"
            if served is None
            else f"the server at {url} has no accounts"
        )
        rows = rows if served is None else served
    empty = f"{where}: `account new` makes one"
    cells = [(row["address"], row["source"], row["file"] or "-") for row in rows]
    lines = table(("account", "key", "file"), cells, empty)
    command.show({"accounts": [{**row, "file": row["file"] or None} for row in rows]}, lines)


@database_command(account_group.command("import"))
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@_passphrase_option
def import_command(command: DatabaseCommand, file: str | None, passphrase_file: str | None) -> None:
    """Import a private key in hexadecimal, or a key file of another wallet.

    FILE holds one or the other; the content decides. Without FILE the command asks for a private key, and
    with - it reads standard input. A private key is encrypted with a new passphrase. A key file is stored
    unchanged after its passphrase has opened it.
    """
    if _is_standard_input(file) and _is_standard_input(passphrase_file):
        raise CommandError("standard input gives the key: name the passphrase's file with --passphrase-file")
    if file is None and not _is_standard_input(file):  # a terminal
        content = _asked("Private key").encode(errors="surrogateescape")
    else:
        with reading(file or STANDARD_STREAM) as stream:
            content = stream.read(LARGEST_FILE_BYTES + 1)
    if content.lstrip().startswith(b"{"):
        opening = _passphrase(passphrase_file)
        _add(command, lambda accounts: accounts.import_file(content, opening))
    else:
        with command_errors(keys.PrivateKeyError, about="this is neither a key file nor a private key: "):
            secret = keys.read_private_key(content.decode("ascii", errors="replace"))
        new = _passphrase(passphrase_file, repeated="Repeat the passphrase")
        _add(command, lambda accounts: accounts.import_key(secret, new))


@database_command(account_group.command("export"))
@_address_argument
@click.option("--raw", is_flag=True, help="Print the private key itself, in hexadecimal.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write to this file, readable by its owner only."
)
@_passphrase_option
def export_command(
    command: DatabaseCommand,
    address: models.Address,
    raw: bool,
    output: Path | None,
    passphrase_file: str | None,
) -> None:
    """Print the key file of ADDRESS, which other wallets can import; with --raw, its private key."""
    with command_errors(errors.BridgeError):
        try:
            content = _files(command).read(address)
        except models.UnknownAccountError as error:
            keystore = command.settings.keystore
            raise CommandError(f"there is no key file of {checksummed(address)} in {keystore}") from error
    if raw:
        opening = _passphrase(passphrase_file).encode(errors="surrogateescape")
        about = f"the key file of {checksummed(address)} cannot be opened: "
        with command_errors(KeystoreError, CostError, about=about):
            key = hex_of(read_keystore(content).open(opening))
        content = key.encode()
        if command.as_json:
            content = orjson.dumps({"address": checksummed(address), "private_key": key})
    content = content.rstrip() + b"\n"
    if output is None:
        sys.stdout.buffer.write(content)
        return
    with replacing(output) as stream:
        stream.write(content)


@database_command(account_group.command("unlock"))
@_address_argument
@click.option(
    "--seconds", type=click.IntRange(0, LONGEST_UNLOCK_SECONDS), default=DEFAULT_UNLOCK_SECONDS,
    show_default=True, help="How long the account stays unlocked; 0 means until the server stops.",
)  # fmt: skip
@click.option("--url", help="The server's URL.  [default: the server that runs on the data directory]")
@_passphrase_option
def unlock_command(
    command: DatabaseCommand,
    address: models.Address,
    seconds: int,
    url: str | None,
    passphrase_file: str | None,
) -> None:
    """Unlock ADDRESS in the running server, which then signs with it without a passphrase for a time."""
    if url is None and checksummed(address) in development_accounts(command.settings):
        raise CommandError(f"{checksummed(address)} is a development account, which is always open")
    url = running_url(command.settings) if url is None else url
    if url is None:
        if not command.settings.port:
            raise CommandError("the server listens on any free port: name its address with --url")
        url = local_url(command.settings.host, command.settings.port)
    params = [address, _passphrase(passphrase_file), seconds]
    _call_wallet(command.settings, url, "personal_unlockAccount", params)
    until = f"for {seconds} seconds" if seconds else "until the server stops"
    line = f"{checksummed(address)} is unlocked {until}"
    command.show({"address": checksummed(address), "seconds": seconds}, [line])


def _files(command: DatabaseCommand) -> KeystoreFiles:
    configure_logs(command.settings.log_level, command.settings.log_format)  # KeystoreFiles logs bad files
    return KeystoreFiles(command.settings.keystore, clock.SystemClock())


def _rows_of_server(
    command: DatabaseCommand, url: str, known: list[dict[str, str]]
) -> list[dict[str, str]] | None:
    """The rows of the running server's accounts; None, with a warning, if it does not answer."""
    try:
        addresses = _call_wallet(command.settings, url, "eth_accounts", [])
    except CommandError as error:
        click.echo(f"bridge-server: {error.message}; these are the accounts of the settings", err=True)
        return None
    by_address = {row["address"]: row for row in known}
    development = development_accounts(command.settings)
    rows = []
    for address in map(checksummed, addresses):
        source = models.AccountSource.DEVELOPMENT.value if address in development else _SOURCE_UNKNOWN_HERE
        rows.append(by_address.get(address) or {"address": address, "source": source, "file": ""})
    return rows


def _run_on_accounts(
    command: DatabaseCommand, files: KeystoreFiles, work: Callable[[Accounts], Coroutine[Any, Any, Result]]
) -> Result:
    accounts = wallet_accounts(command.settings, files, clock.SystemClock(), secrets.IdMaker())
    with command_errors(errors.BridgeError):
        return asyncio.run(work(accounts))


def _add(command: DatabaseCommand, work: Callable[[Accounts], Coroutine[Any, Any, models.Address]]) -> None:
    files = _files(command)

    async def added(accounts: Accounts) -> dict[str, str]:
        address = await work(accounts)
        return {"address": checksummed(address), "file": str(files.file(address))}

    fields = _run_on_accounts(command, files, added)
    command.show(fields, [fields["address"], f"key file: {fields['file']}"])


# Calls of commands to the wallet of a running server, over its JSON-RPC.

_ANSWER_SECONDS = 60.0
_HEADERS = {"Content-Type": "application/json"}


def _call_wallet(settings: Settings, url: str, method: str, params: list[Any]) -> Any:
    """Call a JSON-RPC method of the server at the URL; returns its result. Raises CommandError."""
    try:
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    except orjson.JSONEncodeError as error:
        raise CommandError("the passphrase is not text in UTF-8: it cannot be sent to the server") from error
    with command_errors(ValueError, about="--url "):
        endpoint = f"{http_url(url).rstrip('/')}/rpc"
    tokens = [secret_of(settings.rpc_token)]
    if (previous := secret_of(settings.rpc_token_previous)) is not None:
        tokens.append(previous)
    calling = exchanged("POST", endpoint, tokens, seconds=_ANSWER_SECONDS, data=body, headers=_HEADERS)
    try:
        status, content = asyncio.run(calling)
    except TimeoutError:
        raise CommandError(f"the server at {url} does not answer") from None
    except aiohttp.ClientError as error:
        raise CommandError(f"no server answers at {url}: start it, or name another with --url") from error
    match json_of(content):
        case {"error": {"message": str(refusal)}} if status == HTTPStatus.OK:
            raise CommandError(f"the server refused: {refusal}")
        case {"result": result} if status == HTTPStatus.OK:
            return result
        case _ if status == HTTPStatus.UNAUTHORIZED:
            raise CommandError(
                "the server requires its rpc_token: give it to this command too, "
                "as BRIDGE_RPC_TOKEN or with --config"
            )
        case answer:
            raise refusal_of(answer, url, status)


# Input of secrets: typed at the terminal without echo, from a file, or from standard input.
#
# A secret is never an argument: every user of the machine can see arguments, and the shell stores them.


def _is_standard_input(file: str | None) -> bool:
    """Whether the input comes from standard input: `-` was given, or no file and no terminal."""
    return file == STANDARD_STREAM or (file is None and not sys.stdin.isatty())


def _passphrase(file: str | None, repeated: str | bool = False) -> str:
    """Read a passphrase; with `repeated` the terminal asks for it twice. Raises CommandError."""
    if file is None and not _is_standard_input(file):
        return _asked("Passphrase", repeated)
    with reading(file or STANDARD_STREAM) as stream:
        line = stream.readline()
    if not line and file is None:
        raise CommandError("there is no passphrase: write it to standard input, or name a --passphrase-file")
    return line.rstrip(b"\r\n").decode(errors="surrogateescape")


def _asked(question: str, repeated: str | bool = False) -> str:
    return str(click.prompt(question, hide_input=True, confirmation_prompt=repeated, err=True))


# `bridge-server approvals`: signing requests that wait for the operator's decision.

_APPROVALS_HEADER = ("approval", "method", "account", "client", "until")
_SHOWN_OF_AN_ID = 8
_LEAST_OF_AN_ID = 4
"""Characters that name a request: an empty variable or a typing mistake must not select one."""


@click.group("approvals", cls=Group)
def approvals_group() -> None:
    """Approve or reject requests to sign.

    They wait on a server with the setting approve = "queue". APPROVAL is the id of a request, or the first
    characters of it (at least 4) if no other id has them.
    """


@database_command(approvals_group.command("list"))
def list_approvals_command(command: DatabaseCommand) -> None:
    """Print the waiting requests, oldest first."""
    waiting = _run_on_waiting(command, lambda opened: opened.approvals.pending(opened.clock.now_ms()))
    lines = table(_APPROVALS_HEADER, map(_approval_row, waiting), "no request is waiting for approval")
    command.show({"approvals": [wallet.approval_fields(approval) for approval in waiting]}, lines)


@database_command(approvals_group.command("show"))
@click.argument("approval")
def show_command(command: DatabaseCommand, approval: str) -> None:
    """Print in words what a request would sign."""
    found = _run_on_waiting(command, lambda opened: _approval_named(opened, approval))
    command.show(wallet.approval_fields(found), columns(wallet.lines(found)))


@database_command(approvals_group.command("approve"))
@click.argument("approval")
def approve_command(command: DatabaseCommand, approval: str) -> None:
    """Approve a request: the wallet signs it."""
    _decide(command, approval, models.ApprovalState.APPROVED)


@database_command(approvals_group.command("reject"))
@click.argument("approval")
def reject_command(command: DatabaseCommand, approval: str) -> None:
    """Reject a request: its caller gets the error 4001."""
    _decide(command, approval, models.ApprovalState.REJECTED)


def _decide(command: DatabaseCommand, name: str, decision: models.ApprovalState) -> None:
    async def decide(opened: CommandServices) -> models.ApprovalRequest:
        approval = await _approval_named(opened, name)
        is_decided = await opened.approvals.decide(approval.approval_id, decision, opened.clock.now_ms())
        approval = await opened.approvals.get(approval.approval_id) or approval
        if not is_decided:
            is_late = approval.state is models.ApprovalState.PENDING
            outcome = models.ApprovalState.EXPIRED if is_late else approval.state
            raise CommandError(f"{approval.approval_id} is not waiting any more: it is {outcome}")
        return approval

    decided = _run_on_waiting(command, decide)
    line = f"{decided.state}: {decided.method} with {checksummed(decided.address)}"
    command.show(wallet.approval_fields(decided), [line])


def _run_on_waiting(command: DatabaseCommand, work: Callable[[CommandServices], Awaitable[Result]]) -> Result:
    """Run `work`. Without a server on this database nothing could sign: every request expires first."""

    async def on_waiting_requests(opened: CommandServices) -> Result:
        if command.settings.database is None and not is_held(command.settings.data_dir):
            await opened.approvals.expire_all(opened.clock.now_ms())
        return await work(opened)

    return command.run(on_waiting_requests)


async def _approval_named(opened: CommandServices, name: str) -> models.ApprovalRequest:
    if len(name) < _LEAST_OF_AN_ID:
        raise CommandError(f"write at least {_LEAST_OF_AN_ID} characters of the approval's id")
    found = await opened.approvals.named(name.lower())
    if not found:
        raise CommandError(
            f"there is no approval {name}: `bridge-server approvals list` prints the pending ones"
        )
    if len(found) > 1:
        raise CommandError(f"several approvals begin with {name}: write more of the id")
    return found[0]


def _approval_row(approval: models.ApprovalRequest) -> tuple[str, ...]:
    client = approval.caller.origin or approval.caller.address
    until, address = instants.rfc3339(approval.expires_at_ms), checksummed(approval.address)
    return approval.approval_id[:_SHOWN_OF_AN_ID], approval.method, address, client, until
