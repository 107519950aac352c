"""`dev --open`: the console in the browser, signed in by a link that works once."""

import asyncio
import subprocess
import webbrowser
from collections.abc import Callable
from pathlib import Path

import orjson

from bridge_server.cli.program import own_command
from bridge_server.settings.settings import Settings
from bridge_server.testing.server_process import environment_without_settings

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
