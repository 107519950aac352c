"""`bridge-server account`: the wallet's key files, while a server runs or not; no database is needed."""

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

_OF_THE_SERVER = "server"
"""Where a key comes from that the running server has, and these settings have not."""


def _read_address(context: click.Context, parameter: click.Parameter, value: str) -> Address:
    try:
        return Address(address_of(value))
    except HexError as error:
        raise CommandError(f"{value} {error}") from error


_address_argument = click.argument("address", callback=_read_address)


@click.group("account", cls=Group)
def account_group() -> None:
    """Look after the wallet's accounts, while the server runs or not.

    Keys are kept in files under a passphrase, in the format of geth and other wallets. A passphrase or a
    private key is asked for at the terminal, or read from a file or standard input; it is never an argument.
    """


@account_group.command("new")
@passphrase_option
@for_operator
def new_command(operator: Operator, passphrase_file: str | None) -> None:
    """Make an account, and print its address."""
    secret = new_passphrase(passphrase_file)
    _add(operator, lambda accounts: accounts.create(secret))


@account_group.command("list")
@for_operator
def list_command(operator: Operator) -> None:
    """Print the accounts that the running server has, and where their keys come from.

    Where no server runs on the data directory, or it does not tell, those that these settings have.
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
    operator.tell({"accounts": [{**row, "file": row["file"] or None} for row in rows]}, lines)


@account_group.command("import")
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@passphrase_option
@for_operator
def import_command(operator: Operator, file: str | None, passphrase_file: str | None) -> None:
    """Add the account of a private key in hexadecimal, or of a key file of another wallet.

    Which of them it is, FILE tells; without FILE the private key is asked for, and with - standard input is
    read. A private key gets a new passphrase. A key file is stored as it is once its passphrase opened it.
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
@click.option("--raw", is_flag=True, help="The private key itself, in hexadecimal.")
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file, for its owner alone.")
@passphrase_option
@for_operator
def export_command(
    operator: Operator, address: Address, raw: bool, output: Path | None, passphrase_file: str | None
) -> None:
    """Print the key file of ADDRESS, which other wallets import; with --raw, the key that is in it."""
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
    show_default=True, help="How long; 0 is until the server stops.",
)  # fmt: skip
@click.option("--url", help="Where the server answers.  [default: as the data directory says]")
@passphrase_option
@for_operator
def unlock_command(
    operator: Operator, address: Address, seconds: int, url: str | None, passphrase_file: str | None
) -> None:
    """Unlock ADDRESS in the server that runs, so that it signs without a passphrase for a time."""
    url = server_url(operator.settings) if url is None else url
    params = [address, passphrase(passphrase_file), seconds]
    call_wallet(operator.settings, url, "personal_unlockAccount", params)
    until = f"for {seconds} seconds" if seconds else "until the server stops"
    operator.tell(
        {"address": checksummed(address), "seconds": seconds}, [f"{checksummed(address)} is unlocked {until}"]
    )


def _files(operator: Operator) -> KeystoreFiles:
    configure_logs(operator.settings.log_level, operator.settings.log_format)  # what is foreign is told there
    return KeystoreFiles(operator.settings.keystore, SystemClock())


def _rows_of_settings(operator: Operator) -> list[dict[str, str]]:
    """The accounts that a server with these settings would have."""
    files = _files(operator)

    async def listed(accounts: Accounts) -> list[dict[str, str]]:
        return [_fields(account, files) for account in accounts.accounts()]

    return _done(operator, files, listed)


def _rows_of_server(operator: Operator, url: str, known: list[dict[str, str]]) -> list[dict[str, str]]:
    """The accounts that the running server says it has; one that does not say has those that are known."""
    try:
        addresses = call_wallet(operator.settings, url, "eth_accounts", [])
    except CommandError as error:
        click.echo(f"bridge-server: {error.message}; these are the accounts of the settings", err=True)
        return known
    by_address = {row["address"]: row for row in known}
    development = development_accounts(operator.settings)
    rows = []
    for address in map(checksummed, addresses):
        source = AccountSource.DEVELOPMENT.value if address in development else _OF_THE_SERVER
        rows.append(by_address.get(address) or {"address": address, "source": source, "file": ""})
    return rows


def _done(
    operator: Operator, files: KeystoreFiles, work: Callable[[Accounts], Coroutine[Any, Any, Result]]
) -> Result:
    """Do the work on the accounts of the settings. Raises CommandError."""
    accounts = wallet_accounts(operator.settings, files, SystemClock(), IdMaker())
    try:
        return asyncio.run(work(accounts))
    except BridgeError as error:
        raise CommandError(one_line(error)) from error


def _add(operator: Operator, work: Callable[[Accounts], Coroutine[Any, Any, Address]]) -> None:
    """Have the work add an account, and tell which."""
    files = _files(operator)

    async def added(accounts: Accounts) -> dict[str, str]:
        address = await work(accounts)
        return {"address": checksummed(address), "file": str(files.file(address))}

    fields = _done(operator, files, added)
    operator.tell(fields, [fields["address"], f"key file: {fields['file']}"])


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
