"""`bridge-server doctor`."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import click
import orjson

from bridge_server.cli.doctor import machine, server
from bridge_server.cli.doctor.findings import Examination, Finding, exit_code, fail
from bridge_server.cli.options import config_option, data_dir_option, reread_settings
from bridge_server.cli.output import columns, json_option
from bridge_server.cli.process import configure_logs
from bridge_server.cli.running_server import running_url
from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.version import USER_AGENT
from bridge_server.settings.sources import SettingsError
from bridge_server.storage.data_directory import DataDirectoryError, require_own

_ANSWER_SECONDS = 10.0

_HERE: tuple[Callable[[Examination], Iterable[Finding]], ...] = (
    server.check_settings,
    machine.check_database,
    machine.check_disk,
    machine.check_permissions,
    machine.check_key_files,
    machine.check_backups,
    machine.check_open_files,
    machine.check_left_over,
)
"""The checks of this machine's files."""


@click.command("doctor")
@click.option("--fix", "fixes", is_flag=True, help="Mend what is safe to mend: permissions, leftovers.")
@config_option
@data_dir_option
@json_option
def doctor_command(fixes: bool, config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """Find what is wrong with the server.

    It looks at settings, database, disk, server, proxy, pushes, clock, files and backups. Through the public
    URL it opens a session and a WebSocket and holds both as long as clients do, for 25 seconds. Push services
    are sent a push to a device that does not exist. The exit code is 0 if all is well, 1 if there are
    warnings, and 2 if something is broken.
    """
    findings = _examined(config_file, data_dir, fixes=fixes)
    code = exit_code(findings)
    if as_json:
        click.echo(orjson.dumps({"findings": [each.fields() for each in findings], "exit_code": code}))
    else:
        for line in columns([each.row() for each in findings]):
            click.echo(line)
    raise SystemExit(code)


def _examined(config_file: Path | None, data_dir: Path | None, *, fixes: bool) -> list[Finding]:
    try:
        loaded = reread_settings(config_file, (), data_dir=data_dir)
        require_own(loaded.settings.data_dir)
    except SettingsError as error:
        return [fail("settings", line, "correct it") for line in str(error).splitlines()]
    except DataDirectoryError as error:
        return [fail("data directory", str(error))]
    configure_logs(loaded.settings.log_level, loaded.settings.log_format)  # what push providers log
    url = running_url(loaded.settings)
    seen = Examination(loaded, config_file, url, fixes, SystemClock().now_ms())
    found: list[Finding] = []
    for check in _HERE:
        try:
            found.extend(check(seen))
        except OSError as error:
            subject = check.__name__.removeprefix("check_").replace("_", " ")
            place = "" if error.filename is None else f"{error.filename}: "
            found.append(fail(subject, f"{place}{error.strerror}", "run this as the server's user"))
    return [*found, *asyncio.run(_elsewhere(seen))]


async def _elsewhere(seen: Examination) -> list[Finding]:
    """The checks that wait for other machines, all at once."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": USER_AGENT}) as session:
        checks: list[Coroutine[Any, Any, list[Finding]]] = [server.check_server(seen, session)]
        if seen.url is not None:
            checks.append(server.check_running_settings(seen, seen.url))
        checks += [
            server.check_public_url(seen, session),
            server.check_pushes(seen),
            machine.check_clock(seen),
        ]
        return [finding for found in await asyncio.gather(*checks) for finding in found]
