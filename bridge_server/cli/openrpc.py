"""`bridge-server openrpc`."""

import click

from bridge_server.wallet.rpc.discovery import openrpc_json


@click.command("openrpc")
def openrpc_command() -> None:
    """Print the description of the wallet's JSON-RPC methods (OpenRPC).

    A server answers it, too: at GET /openrpc.json, and to the method rpc.discover.
    """
    click.echo(openrpc_json())
