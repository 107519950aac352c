"""The settings: where they come from, and whether the running server has the present ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, ok, warn
from bridge_server.cli.options import CommandError
from bridge_server.cli.running_admin import answer_of
from bridge_server.settings.shown import shown_settings

_SUBJECT = "settings"
_DEFAULT, _FLAG = "default", "flag"


def check_settings(seen: Examination) -> Iterator[Finding]:
    """The number of settings that are set, and settings that look like mistakes."""
    given = [origin for origin in seen.loaded.origins.values() if origin != _DEFAULT]
    file = f", file {seen.config_file}" if seen.config_file is not None else ", no file"
    yield ok(_SUBJECT, f"{len(given)} set{file}")
    for variable in seen.loaded.unknown_variables:
        yield warn(_SUBJECT, f"{variable} is set, but there is no such setting", "see `config list`")
    settings = seen.settings
    if settings.way_through_a_proxy is not None and settings.rpc_token is None and settings.has_wallet:
        yield warn(
            "wallet", f"rpc_token is not set, and a proxy is in front ({settings.way_through_a_proxy})",
            "set rpc_token",
        )  # fmt: skip
    if settings.test:
        yield warn("test mode", "tests can empty this server", "leave out `test` in production")


async def check_running_settings(seen: Examination, url: str) -> list[Finding]:
    """Whether the running server has taken the settings as they are now. Flags of its start are its own."""
    if seen.settings.admin_token is None:
        return []
    try:
        running = (await answer_of(seen.settings, url, "/admin/settings"))["settings"]
    except CommandError as error:
        return [warn(_SUBJECT, error.message)]
    return list(_differences(running, shown_settings(seen.settings, seen.loaded.origins)))


def _differences(
    running: Mapping[str, Mapping[str, Any]], present: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    changed = [
        name
        for name, row in running.items()
        if name in present
        and row["value"] != present[name]["value"]
        and not row["origin"].startswith(_FLAG)
        and not present[name]["origin"].startswith(_FLAG)
    ]
    live = [name for name in changed if running[name]["live"]]
    if live:
        cure = "send SIGHUP (systemctl reload bridge-server), and see settings_taken in its log"
        yield warn(_SUBJECT, f"the running server has other values of {', '.join(live)}", cure)
    waiting = [name for name in changed if name not in live]
    if waiting:
        yield warn(_SUBJECT, f"the running server has other values of {', '.join(waiting)}", "restart it")
