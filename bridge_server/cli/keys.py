"""`bridge-server keys vapid`."""

import os

import click
import orjson

from bridge_server.cli.groups import Group
from bridge_server.cli.json_option import json_option
from bridge_server.push.keys import new_vapid_keys


@click.group("keys", cls=Group)
def keys_group() -> None:
    """Generate keys for push services."""


@keys_group.command("vapid")
@json_option
def vapid_command(as_json: bool) -> None:
    """Generate a VAPID key pair for Web Push, and print it as settings.

    The pair is not stored. Browsers subscribe with the public key, so keep one pair.
    """
    keys = new_vapid_keys(os.urandom)
    if as_json:
        click.echo(orjson.dumps({"public_key": keys.public_key, "private_key": keys.private_key}))
        return
    click.echo("# This server's settings:")
    click.echo(f"BRIDGE_VAPID_PRIVATE_KEY={keys.private_key}")
    click.echo("BRIDGE_VAPID_SUBJECT=mailto:you@example.org")
    click.echo("# The applicationServerKey with which web pages subscribe:")
    click.echo(keys.public_key)
