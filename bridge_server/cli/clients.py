"""`bridge-server clients`: the client addresses that ask for the most, or are refused the most."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from bridge_server.cli.amounts import size_text
from bridge_server.cli.operator import Operator, columns, for_operator
from bridge_server.cli.running_admin import ask_server
from bridge_server.web.clients import ORDERS

_REQUESTS = "requests"
_HEADER = ("client", _REQUESTS, "refused", "sessions", "sockets", "waits", "bytes", "refused by")
_NUMBERS = (1, 2, 3, 4, 5, 6)


@click.command("clients")
@click.option(
    "--by", type=click.Choice(ORDERS), default=_REQUESTS, show_default=True, help="The figure to sort by."
)
@click.option(
    "--last", default="1h", show_default=True, metavar="TIME",
    help="How far back: 5m to 1h, or start for everything since the server's start.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@for_operator
def clients_command(operator: Operator, by: str, last: str, limit: int) -> None:
    """Print the heaviest clients of the running server, by address; IPv6 clients by their /64.

    The figures are in the server's memory: it answers them to the bearer of admin_token.
    """
    query = {"by": by, "last": last, "limit": str(limit)}
    fields = ask_server(operator.settings, "/admin/clients", query)
    missing = [
        f"without process {each['number']} ({each['url']}), which {each['fault']}"
        for each in missing_of(fields)
    ]
    shown: dict[str, Any] = {name: fields[name] for name in ("clients", "processes") if name in fields}
    operator.show(shown, [*client_lines(fields["clients"], by), *missing])


def missing_of(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The processes whose figures are not in the answer."""
    return [each for each in fields.get("processes", ()) if each["fault"] is not None]


def client_lines(clients: Sequence[Mapping[str, Any]], by: str = _REQUESTS) -> list[str]:
    """The lines of a table of clients, which are sorted by this figure."""
    if not clients and by != _REQUESTS:
        return [f"no client has a figure of {by} in this time: --by {_REQUESTS} has all clients"]
    if not clients:
        return ["no client has asked for anything in this time"]
    return columns([_HEADER, *map(_row, clients)], _NUMBERS)


def _row(client: Mapping[str, Any]) -> tuple[str, ...]:
    counted = (f"{client[name]:,}" for name in ("requests", "refused", "sessions", "sockets", "waits"))
    limits = ", ".join(f"{name} {count:,}" for name, count in client["refused_by"].items())
    return (client["address"], *counted, size_text(client["bytes"]), limits)
