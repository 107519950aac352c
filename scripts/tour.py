"""A tour of the server: a dapp and a wallet meet, a push wakes a wallet, an app notifies its subscribers, and
the server's own wallet signs.

    .venv/bin/python scripts/tour.py            against a server of its own
    .venv/bin/python scripts/tour.py --url URL --admin-token TOKEN
                                                against yours, started with --allow-private-webhooks

What it prints is the transcript in docs/tour.md; ids, secrets and ciphertext, which differ each time, are
shortened.
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
    """Every scene; an operator's only with their token, the wallet's only if it has accounts."""
    await relay_scene(url)
    await clients_scene(url)
    await push_scene(url)
    if admin_token is not None:
        await notifications_scene(url, admin_token)
    await wallet_scene(url)


async def _main() -> None:
    parser = argparse.ArgumentParser(description="Play everybody who talks through the server.")
    parser.add_argument(
        "--url", help="a server that runs with --allow-private-webhooks; without it the tour starts one"
    )
    parser.add_argument("--admin-token", help="that server's: without it no project is made on it")
    parser.add_argument("--without-node", action="store_true", help="even where anvil is installed")
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
        sys.exit("the tour: nothing came; does the server call this machine (--allow-private-webhooks)?")
    except aiohttp.ClientError as error:
        sys.exit(f"the tour: the server did not do its part: {error}")
