"""`bridge-server account`: the wallet's key files. The commands work with or without a running server."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from bridge_server.assembly.wallet_accounts import wallet_accounts
from bridge_server.cli.files import replacing
from bridge_server.cli.groups import Group
from bridge_server.cli.logs import configure_logs
from bridge_server.cli.operator import Operator, for_operator, one_line, table
from bridge_server.cli.options import CommandError
from bridge_server.cli.running_server import development_accounts, running_url
from bridge_server.cli.running_wallet import call_wallet, server_url
from bridge_server.cli.secret_input import (
    is_standard_input,
    key_or_file,
    new_passphrase,
    passphrase,
    passphrase_option,
)
from bridge_server.ethereum.address import checksummed
from bridge_server.ethereum.hex_data import HexError, address_of, hex_of
from bridge_server.ethereum.keystore import KeystoreError, read_keystore
from bridge_server.ethereum.keystore_kdf import CostError
from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.ids import IdMaker
from bridge_server.wallet.accounts import DEFAULT_UNLOCK_SECONDS, LONGEST_UNLOCK_SECONDS, Accounts
from bridge_server.wallet.errors import UnknownAccountError
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.models import AccountSource, Address, WalletAccount
from bridge_server.wallet.private_keys import PrivateKeyError, read_private_key

Result = TypeVar("Result")

_SOURCE_UNKNOWN_HERE = "server"
"""The source of a key that the running server has and that is not in the settings of the command."""


def _read_address(context: click.Context, parameter: click.Parameter, value: str) -> Address:
    try:
        return Address(address_of(value))
    except HexError as error:
        raise CommandError(f"{value} {error}") from error


_address_argument = click.argument("address", callback=_read_address)


@click.group("account", cls=Group)
def account_group() -> None:
    """Manage the wallet's accounts. Works with or without a running server.

    Keys are stored in files encrypted with a passphrase, in the format of geth and other wallets (version 3).
    A command asks for a passphrase or private key at the terminal, or reads it from a file or standard input.
    It is never an argument, because other users of the machine can see arguments.
    """


@account_group.command("new")
@passphrase_option
@for_operator
def new_command(operator: Operator, passphrase_file: str | None) -> None:
    """Create an account with a new key file, and print its address."""
    secret = new_passphrase(passphrase_file)
    _add(operator, lambda accounts: accounts.create(secret))


@account_group.command("list")
@for_operator
def list_command(operator: Operator) -> None:
    """Print the accounts of the running server, and the source of each key.

    If no server runs on the data directory, or it does not answer, print the accounts of the settings.
    """
    rows = _rows_of_settings(operator)
    url = running_url(operator.settings)
    empty = (
        f"there are no accounts in these settings, and no server runs on {operator.settings.data_dir}: "
        "`account new` makes one"
    )
    if url is not None:
        rows = _rows_of_server(operator, url, rows)
        empty = f"the server at {url} has no accounts: `account new` makes one"
    cells = [(row["address"], row["source"], row["file"] or "-") for row in rows]
    lines = table(("account", "key", "file"), cells, empty)
    operator.show({"accounts": [{**row, "file": row["file"] or None} for row in rows]}, lines)


@account_group.command("import")
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@passphrase_option
@for_operator
def import_command(operator: Operator, file: str | None, passphrase_file: str | None) -> None:
    """Import a private key in hexadecimal, or a key file of another wallet.

    FILE holds one or the other; the content decides. Without FILE the command asks for a private key, and
    with - it reads standard input. A private key is encrypted with a new passphrase. A key file is stored
    unchanged after its passphrase has opened it.
    """
    if is_standard_input(file) and is_standard_input(passphrase_file):
        raise CommandError("standard input gives the key: name the passphrase's file with --passphrase-file")
    content = key_or_file(file)
    if content.lstrip().startswith(b"{"):
        opening = passphrase(passphrase_file)
        _add(operator, lambda accounts: accounts.import_file(content, opening))
    else:
        secret, new = _private_key(content), new_passphrase(passphrase_file)
        _add(operator, lambda accounts: accounts.import_key(secret, new))


@account_group.command("export")
@_address_argument
@click.option("--raw", is_flag=True, help="Print the private key itself, in hexadecimal.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write to this file, readable by its owner only."
)
@passphrase_option
@for_operator
def export_command(
    operator: Operator, address: Address, raw: bool, output: Path | None, passphrase_file: str | None
) -> None:
    """Print the key file of ADDRESS, which other wallets can import; with --raw, its private key."""
    try:
        content = _files(operator).read(address)
    except UnknownAccountError as error:
        keystore = operator.settings.keystore
        raise CommandError(f"there is no key file of {checksummed(address)} in {keystore}") from error
    except BridgeError as error:
        raise CommandError(one_line(error)) from error
    if raw:
        content = _raw_key(operator, address, content, passphrase(passphrase_file))
    _write(content.rstrip() + b"\n", output)


@account_group.command("unlock")
@_address_argument
@click.option(
    "--seconds", type=click.IntRange(0, LONGEST_UNLOCK_SECONDS), default=DEFAULT_UNLOCK_SECONDS,
    show_default=True, help="How long the account stays unlocked; 0 means until the server stops.",
)  # fmt: skip
@click.option("--url", help="The server's URL.  [default: the server that runs on the data directory]")
@passphrase_option
@for_operator
def unlock_command(
    operator: Operator, address: Address, seconds: int, url: str | None, passphrase_file: str | None
) -> None:
    """Unlock ADDRESS in the running server, which then signs with it without a passphrase for a time."""
    url = server_url(operator.settings) if url is None else url
    params = [address, passphrase(passphrase_file), seconds]
    call_wallet(operator.settings, url, "personal_unlockAccount", params)
    until = f"for {seconds} seconds" if seconds else "until the server stops"
    operator.show(
        {"address": checksummed(address), "seconds": seconds}, [f"{checksummed(address)} is unlocked {until}"]
    )


def _files(operator: Operator) -> KeystoreFiles:
    configure_logs(operator.settings.log_level, operator.settings.log_format)  # KeystoreFiles logs bad files
    return KeystoreFiles(operator.settings.keystore, SystemClock())


def _rows_of_settings(operator: Operator) -> list[dict[str, str]]:
    """The rows of the accounts that a server with these settings would have."""
    files = _files(operator)

    async def listed(accounts: Accounts) -> list[dict[str, str]]:
        return [_fields(account, files) for account in accounts.accounts()]

    return _done(operator, files, listed)


def _rows_of_server(operator: Operator, url: str, known: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of the running server's accounts; `known` with a warning if it does not answer."""
    try:
        addresses = call_wallet(operator.settings, url, "eth_accounts", [])
    except CommandError as error:
        click.echo(f"bridge-server: {error.message}; these are the accounts of the settings", err=True)
        return known
    by_address = {row["address"]: row for row in known}
    development = development_accounts(operator.settings)
    rows = []
    for address in map(checksummed, addresses):
        source = AccountSource.DEVELOPMENT.value if address in development else _SOURCE_UNKNOWN_HERE
        rows.append(by_address.get(address) or {"address": address, "source": source, "file": ""})
    return rows


def _done(
    operator: Operator, files: KeystoreFiles, work: Callable[[Accounts], Coroutine[Any, Any, Result]]
) -> Result:
    """Run `work` on the accounts of the settings. Raises CommandError."""
    accounts = wallet_accounts(operator.settings, files, SystemClock(), IdMaker())
    try:
        return asyncio.run(work(accounts))
    except BridgeError as error:
        raise CommandError(one_line(error)) from error


def _add(operator: Operator, work: Callable[[Accounts], Coroutine[Any, Any, Address]]) -> None:
    """Run `work`, which adds an account, and print the account."""
    files = _files(operator)

    async def added(accounts: Accounts) -> dict[str, str]:
        address = await work(accounts)
        return {"address": checksummed(address), "file": str(files.file(address))}

    fields = _done(operator, files, added)
    operator.show(fields, [fields["address"], f"key file: {fields['file']}"])


def _fields(account: WalletAccount, files: KeystoreFiles) -> dict[str, str]:
    file = str(files.file(account.address)) if account.source is AccountSource.KEYSTORE else ""
    return {"address": checksummed(account.address), "source": account.source.value, "file": file}


def _private_key(content: bytes) -> bytes:
    try:
        return read_private_key(content.decode("ascii", errors="replace"))
    except PrivateKeyError as error:
        raise CommandError(f"this is neither a key file nor a private key: {error}") from error


def _raw_key(operator: Operator, address: Address, file: bytes, opening: str) -> bytes:
    try:
        key = hex_of(read_keystore(file).open(opening.encode(errors="surrogateescape")))
    except (KeystoreError, CostError) as error:
        raise CommandError(f"the key file of {checksummed(address)} cannot be opened: {error}") from error
    if operator.as_json:
        return orjson.dumps({"address": checksummed(address), "private_key": key})
    return key.encode()


def _write(content: bytes, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(content)
        return
    with replacing(output) as stream:
        stream.write(content)
