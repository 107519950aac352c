"""A tour of the server: a dapp and a wallet meet, a push wakes a wallet, an app notifies its subscribers, and
the server's own wallet signs.

    .venv/bin/python scripts/tour.py            starts a server
    .venv/bin/python scripts/tour.py --url URL --admin-token TOKEN
                                                uses your server, started with --allow-private-webhooks

It prints the transcript in docs/tour.md. Ids, secrets and ciphertext are shortened, because they differ each
time.
"""

import argparse
import asyncio
import sys

import aiohttp
from scenes.clients import clients_scene
from scenes.notifications import notifications_scene
from scenes.push import push_scene
from scenes.relay import relay_scene
from scenes.servers import ADMIN_TOKEN, own_server
from scenes.wallet import wallet_scene


async def tour(url: str, admin_token: str | None) -> None:
    """Play every scene: the operator's only with an admin token, the wallet's only if it has accounts."""
    await relay_scene(url)
    await clients_scene(url)
    await push_scene(url)
    if admin_token is not None:
        await notifications_scene(url, admin_token)
    await wallet_scene(url)


async def _main() -> None:
    parser = argparse.ArgumentParser(description="Play all parties that use the server.")
    parser.add_argument(
        "--url", help="the URL of a server that runs with --allow-private-webhooks; default: start one"
    )
    parser.add_argument(
        "--admin-token", help="the admin token of that server; without it the operator's scene is skipped"
    )
    parser.add_argument(
        "--without-node", action="store_true", help="start no Ethereum node, even if anvil is installed"
    )
    options = parser.parse_args()
    if options.url:
        await tour(options.url.rstrip("/"), options.admin_token)
        return
    async with own_server(with_node=not options.without_node) as url:
        await tour(url, ADMIN_TOKEN)


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except TimeoutError:
        sys.exit("the tour: no webhook arrived; was the server started with --allow-private-webhooks?")
    except aiohttp.ClientError as error:
        sys.exit(f"the tour: a request failed: {error}")
