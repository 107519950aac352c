"""`bridge-server console`: a link that signs in, and its opening in the browser."""

import asyncio
import webbrowser
from collections.abc import Callable

import click

from bridge_server.assembly.command_line import console_access
from bridge_server.cli.database_command import Operator, for_operator
from bridge_server.cli.options import CommandError
from bridge_server.cli.running_server import CONSOLE_URL, running_url


@click.command("console")
@click.option("--sign-out", is_flag=True, help="End every session and every link that was not opened.")
@for_operator
def console_command(operator: Operator, sign_out: bool) -> None:
    """Print a link that signs in to the console.

    It leads to the console of the running server, and works once, within 5 minutes. The sign-in lasts 12
    hours.
    """
    if sign_out:
        ended = operator.run(lambda opened: console_access(opened.foundation).store.sign_out_all())
        operator.show({"signed_out": ended}, [f"{ended} sessions are ended"])
        return
    url = running_url(operator.settings, CONSOLE_URL)
    if url is None and running_url(operator.settings) is None:
        raise CommandError(
            f"no server runs on {operator.settings.data_dir}: start it with the setting console=on "
            "(BRIDGE_CONSOLE=on)"
        )
    if url is None:
        raise CommandError(
            "the running server has no console: set console=on (BRIDGE_CONSOLE=on), and restart it"
        )
    token = operator.run(lambda opened: console_access(opened.foundation).new_link())
    link = sign_in_link(url, token)
    operator.show({"link": link}, [link])


def sign_in_link(console: str, token: str) -> str:
    """The URL that signs a browser in to the console at this URL."""
    return f"{console}/sign-in?link={token}"


# `dev --open`: the console in the browser, signed in by a link that works once.


async def open_console(link: str, write: Callable[[str], None]) -> None:
    """Open the link in the browser; without a browser, say so."""
    if not await asyncio.to_thread(webbrowser.open, link):
        write("there is no browser to open: use the link above")
