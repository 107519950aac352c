"""`bridge-server console`: a link that signs in, and its opening in the browser."""

import asyncio
import subprocess
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click
import orjson

from bridge_server.assembly.command_line import console_access
from bridge_server.cli.database_command import Operator, for_operator
from bridge_server.cli.options import CommandError
from bridge_server.cli.process import own_command
from bridge_server.cli.running_server import console_url, running_url
from bridge_server.kit.testing.server import environment_without_settings
from bridge_server.settings.settings import Settings


@click.command("console")
@click.option("--sign-out", is_flag=True, help="End every session and every link that was not opened.")
@for_operator
def console_command(operator: Operator, sign_out: bool) -> None:
    """Print a link that signs in to the console.

    It leads to the console of the running server, and works once, within 5 minutes. The sign-in lasts 12
    hours.
    """
    if sign_out:
        ended = operator.run(lambda opened: console_access(opened.foundation).sign_out_all())
        operator.show({"signed_out": ended}, [f"{ended} sessions are ended"])
        return
    url = _console(operator.settings)
    token = operator.run(lambda opened: console_access(opened.foundation).new_link())
    link = f"{url}/sign-in?link={token}"
    operator.show({"link": link}, [link])


def _console(settings: Settings) -> str:
    """The URL of the running server's console. Raises CommandError."""
    url = console_url(settings)
    if url is not None:
        return url
    if running_url(settings) is None:
        raise CommandError(
            f"no server runs on {settings.data_dir}: start it with the setting console=on (BRIDGE_CONSOLE=on)"
        )
    raise CommandError(
        "the running server has no console: set console=on (BRIDGE_CONSOLE=on), and restart it"
    )


# `dev --open`: the console in the browser, signed in by a link that works once.

_LOOK_EVERY_SECONDS = 0.05
_PATIENCE_SECONDS = 30.0


async def open_console(
    settings: Settings,
    write: Callable[[str], None],
    new_link: Callable[[Path], str] | None = None,
    browse: Callable[[str], bool] = webbrowser.open,
) -> None:
    """Open the console once commands find the server; without a browser, write the link.

    `new_link` makes the link for a data directory, by default with `bridge-server console`.
    """
    while not settings.server_file.exists():  # noqa: ASYNC110 - nothing announces a file
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
    try:
        link = await asyncio.to_thread(new_link or _link_of_command, settings.data_dir)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        write(f"the console was not opened: {error}")
        return
    if not await asyncio.to_thread(browse, link):
        write(f"there is no browser to open; this link signs in once: {link}")


def _link_of_command(data_dir: Path) -> str:
    command = [*own_command(), "console", "--json", "--data-dir", str(data_dir)]
    finished = subprocess.run(  # noqa: S603 - the command is this program's own
        command,
        env=environment_without_settings(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    if finished.returncode:
        raise ValueError(finished.stderr.decode(errors="replace").strip())
    return str(orjson.loads(finished.stdout)["link"])
