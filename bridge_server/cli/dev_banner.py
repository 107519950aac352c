"""The text that `dev` prints when the server is ready: addresses, project, accounts with their keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from bridge_server.cli.qr_code import qr_code
from bridge_server.cli.screen import Screen
from bridge_server.version import NAME, VERSION

_COLUMNS_OF_QR_CODE = 37


def dev_banner(facts: Mapping[str, Any], screen: Screen, command: str = "bridge-server") -> str:
    """The lines to print; `facts` stand in the ready file, `command` starts this program in the shell."""
    return "\n".join([*_head(facts, command), *_accounts(facts, screen), *_picture(facts, screen)])


def _head(facts: Mapping[str, Any], command: str) -> Iterator[str]:
    url, lan_url, project = facts["url"], facts.get("lan_url"), facts["project"]
    kept = f"kept in {facts['data_dir']}" if facts["kept"] else "nothing is kept"
    yield f"{NAME} {VERSION}, for development: {kept}, everybody knows the keys"
    if "console_url" in facts:
        yield f"  console   {facts['console_url']:<34} sign in by: {command} console {_beside(facts)}"
    yield f"  bridge    {url:<34} 0.7 clients: {facts['v07_url']}"
    if lan_url is not None:
        yield f"  phone     {lan_url:<34} the bridge alone, for others in this network"
    yield f"  wallet    {facts['rpc_url']:<34} {_wallet(facts, command)}"
    yield f"  project   {project['id']:<34} types {', '.join(project['types'])}"
    yield f"  secret    {project['secret']}"
    yield f"  admin     {facts['admin_token']}"
    yield "  stop      Ctrl-C"


def _beside(facts: Mapping[str, Any]) -> str:
    """The option with which other commands find the server."""
    return f"--data-dir {facts['data_dir']}"


def _wallet(facts: Mapping[str, Any], command: str) -> str:
    chain = "the node's chain" if facts["chain_id"] is None else f"chain {facts['chain_id']}"
    waiting = f"waits for: {command} approvals {_beside(facts)}"
    policy = "approves by itself" if facts["policy"] == "approve" else waiting
    node = "" if facts["has_node"] else "; no node: --node-url"
    return f"{chain}, {policy}{node}"


def _accounts(facts: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    for number, account in enumerate(facts["accounts"]):
        yield f"  ({number}) {account['address']}  {account.get('private_key', '')}".rstrip()
    yield screen.coloured("Never send these accounts anything of value.", "yellow")


def _picture(facts: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The QR code of the address for phones, where it can be drawn."""
    lan_url = facts.get("lan_url")
    has_room = screen.columns is None or screen.columns >= _COLUMNS_OF_QR_CODE
    if lan_url is not None and screen.has_blocks and has_room:
        yield from qr_code(lan_url, has_colours=screen.has_colours)
