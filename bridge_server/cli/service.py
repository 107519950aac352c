"""`bridge-server service install`."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import click

from bridge_server.cli.groups import Group
from bridge_server.cli.options import CommandError, loaded_settings
from bridge_server.cli.program import own_command
from bridge_server.cli.reachable_url import local_url
from bridge_server.cli.service_unit import CREDENTIALS, FIRST_SETTINGS, NAME, STATE, UNIT_FILE, ServiceUnit
from bridge_server.settings.secret_files import FILES_OF_SECRETS, secret_names
from bridge_server.settings.settings import Settings

_DEFAULT_CONFIG = Path("/etc/bridge-server/bridge-server.toml")
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - the service does not see them
SYSTEMD_RUNS = Path("/run/systemd/system")
"""A directory that is there where systemd is the first process (sd_booted)."""

_START_SECONDS = 120
_READABLE_BY_ALL = 0o004


@click.group("service", cls=Group)
def service_group() -> None:
    """Run the server as a service of systemd."""


@service_group.command("install")
@click.option("--user", help="An existing user that the service runs as; by default one that systemd makes.")
@click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), default=_DEFAULT_CONFIG,
    show_default=True, help="The TOML file with the settings of the service; made if it is not there.",
)  # fmt: skip
@click.option("--print", "only_print", is_flag=True, help="Print the unit file, and change nothing.")
def install_command(user: str | None, config_file: Path, only_print: bool) -> None:
    """Install, enable and start the service bridge-server, and print its URL once it is ready.

    Secrets are files in /etc/bridge-server/credentials that are named as their settings, such as admin_token:
    each that is there becomes a credential of the service.
    """
    config_file = config_file.expanduser().absolute()
    check_user(user)
    unit = ServiceUnit(own_command(), config_file, user, _credentials_there())
    if only_print:
        click.echo(unit.text(), nl=False)
        return
    settings = _check_machine(unit)
    _write(unit)
    _systemctl("daemon-reload")
    _systemctl("enable", "--quiet", NAME)
    _systemctl("restart", NAME)
    click.echo(f"ready: {_url(settings)}")
    click.echo(f"unit {UNIT_FILE}, settings {config_file}, log: journalctl -u {NAME}")


def check_user(user: str | None) -> None:
    if user is None:
        return
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise CommandError(
            f"--user {user}: there is no such user: make it with useradd --system, or leave --user out"
        ) from None


def _credentials_there() -> list[str]:
    return [name for name in (*secret_names(), *FILES_OF_SECRETS) if (CREDENTIALS / name).exists()]


def _check_machine(unit: ServiceUnit) -> Settings:
    """Refuse an installation that would fail halfway. Raises CommandError; nothing has been changed then."""
    if shutil.which("systemctl") is None or not SYSTEMD_RUNS.is_dir():
        raise CommandError("systemd does not run this machine: `service install --print` shows the unit file")
    if os.geteuid() != 0:
        raise CommandError("only root can install a service: run this with sudo")
    for path in (Path(unit.command[0]), unit.config_file):
        if path.as_posix().startswith(tuple(f"{folder}/" for folder in HIDDEN)):
            raise CommandError(
                f"{path} cannot be seen by the service, which has no {'/'.join(path.parts[:2])[1:]}: "
                "install the program in /opt, and keep its settings in /etc"
            )
    if not unit.config_file.exists():
        return loaded_settings(None).settings
    settings = loaded_settings(unit.config_file).settings
    _check_readable(unit)
    _check_data_dir(settings)
    return settings


def _check_readable(unit: ServiceUnit) -> None:
    """Refuse a settings file that the user of the service could not open."""
    found = unit.config_file.stat()
    is_own = unit.user is not None and pwd.getpwnam(unit.user).pw_uid == found.st_uid
    if not is_own and not found.st_mode & _READABLE_BY_ALL:
        raise CommandError(
            f"{unit.config_file} cannot be read by the service: chmod 644 it, and keep secrets in "
            f"{CREDENTIALS}"
        )


def _check_data_dir(settings: Settings) -> None:
    """Refuse a directory that the unit does not let the service write."""
    if "data_dir" in settings.model_fields_set and settings.data_dir != STATE:
        raise CommandError(
            f"data_dir {settings.data_dir}: the service can write {STATE} only: leave data_dir out"
        )


def _write(unit: ServiceUnit) -> None:
    try:
        CREDENTIALS.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not unit.config_file.exists():
            unit.config_file.parent.mkdir(parents=True, exist_ok=True)
            unit.config_file.write_text(FIRST_SETTINGS, "utf-8")
            unit.config_file.chmod(0o644)
        UNIT_FILE.write_text(unit.text(), "utf-8")
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from error


def _systemctl(*arguments: str) -> None:
    finished = subprocess.run(  # noqa: S603
        [shutil.which("systemctl") or "systemctl", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=_START_SECONDS, check=False,
    )  # fmt: skip
    if finished.returncode:
        said = finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"]
        raise CommandError(
            f"systemctl {' '.join(arguments)}: {said[0]}; the log has the reason: journalctl -u {NAME} -n 20"
        )


def _url(settings: Settings) -> str:
    return settings.public_url or local_url(settings.host, settings.port)
