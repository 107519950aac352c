"""`bridge-server tour`."""

import asyncio

import aiohttp
import click

from bridge_server.cli.options import CommandError
from bridge_server.kernel.fields import http_url
from bridge_server.tour.play import visit, visit_own_server


@click.command("tour")
@click.option("--url", help="Visit the server at this URL, which runs with --allow-private-webhooks.")
@click.option(
    "--admin-token", envvar="BRIDGE_ADMIN_TOKEN",
    help="The admin token of the server at --url; without one, the operator's scene is left out.",
)  # fmt: skip
@click.option("--without-node", is_flag=True, help="Start no Ethereum node, even if anvil is installed.")
def tour_command(url: str | None, admin_token: str | None, without_node: bool) -> None:
    """Play a dapp, a wallet, an app's backend and an operator, and print each request with its answer.

    The tour starts a server of its own, which keeps nothing. Ids, secrets and ciphertext are shortened.
    """
    try:
        if url is None:
            asyncio.run(visit_own_server(with_node=not without_node))
        else:
            asyncio.run(visit(_checked(url), admin_token))
    except TimeoutError:
        raise CommandError(
            "the tour: no webhook arrived: start the server with --allow-private-webhooks"
        ) from None
    except aiohttp.ClientError as error:
        raise CommandError(f"the tour: a request failed: {error}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise CommandError(f"the tour: {url} does not answer as a bridge server does") from error


def _checked(url: str) -> str:
    try:
        return http_url(url).rstrip("/")
    except ValueError as error:
        raise CommandError(f"--url {error}") from error
