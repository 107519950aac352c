"""`bridge-server service install`."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click

from bridge_server.cli import output, process
from bridge_server.cli.options import FILE, CommandError, loaded_settings
from bridge_server.kernel.values import dataclass
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import FILES_OF_SECRETS, secret_names

# The unit of the service for systemd, and the settings file that it begins with.

NAME = "bridge-server"
UNIT_FILE = Path("/etc/systemd/system/bridge-server.service")
STATE = Path("/var/lib/bridge-server")
CREDENTIALS = Path("/etc/bridge-server/credentials")
"""One file for each secret, named as its setting; systemd reads them as root for the service."""

FIRST_SETTINGS = """\
# The settings of the service bridge-server. `bridge-server config check --config FILE` checks this file, and
# `systemctl reload bridge-server` applies it. Secrets are better kept in /etc/bridge-server/credentials.
# public_url = "https://bridge.example.org"
# trusted_proxies = ["127.0.0.1"]
"""

_UNIT = """\
# `bridge-server service install` writes this file, and prints it with --print.
# The data is in /var/lib/bridge-server.
[Unit]
Description=Bridge Server
Wants=network-online.target
After=network-online.target
# A server that ends with exit code 1 is started again, however often.
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command} serve --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartPreventExitStatus=2
RestartSec=1
WatchdogSec=30
TimeoutStopSec=15
LimitNOFILE=65536

{user}
StateDirectory=bridge-server
StateDirectoryMode=0700
{cache}# Each secret is a file that is named as its setting, of mode 0600, and has such a line.
{credentials}

CapabilityBoundingSet=
LockPersonality=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
UMask=0077

[Install]
WantedBy=multi-user.target
"""
_ONE_OF_ITS_OWN = f"""\
# The user exists while the service runs.
DynamicUser=yes
User={NAME}"""
_CACHE = f"# The .pyz unpacks itself there.\nCacheDirectory={NAME}\nEnvironment=SHIV_ROOT=%C/{NAME}\n"
_EXAMPLE = f"# LoadCredential=admin_token:{CREDENTIALS}/admin_token"


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """The parts of a unit: the command, the settings file, an existing user, names of secrets."""

    command: Sequence[str]
    config_file: Path
    user: str | None = None
    credentials: Sequence[str] = ()

    def text(self) -> str:
        """The unit file."""
        lines = [f"LoadCredential={name}:{CREDENTIALS}/{name}" for name in self.credentials]
        return _UNIT.format(
            command=" ".join(map(_quoted, self.command)),
            config=_quoted(str(self.config_file)),
            user=_ONE_OF_ITS_OWN if self.user is None else f"User={self.user}",
            cache=_CACHE if self.command[0].endswith(".pyz") else "",
            credentials="\n".join(lines or [_EXAMPLE]),
        )


def _quoted(word: str) -> str:
    """A word of a command, in which `%` and `$` mean nothing to systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(sign in word for sign in " \t\"'\\;") else escaped


_DEFAULT_CONFIG = Path("/etc/bridge-server/bridge-server.toml")
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - the service does not see them
SYSTEMD_RUNS = Path("/run/systemd/system")
"""A directory that is there where systemd is the first process (sd_booted)."""

_START_SECONDS = 120
_READABLE_BY_ALL = 0o004


service_group = output.Group("service", help="Run the server as a service of systemd.")


@service_group.command("install")
@click.option("--user", help="An existing user that the service runs as; by default one that systemd makes.")
@click.option(
    "--config", "config_file", type=FILE, default=_DEFAULT_CONFIG, show_default=True,
    help="The TOML file with the settings of the service; made if it is not there.",
)  # fmt: skip
@click.option("--print", "only_print", is_flag=True, help="Print the unit file, and change nothing.")
def install_command(user: str | None, config_file: Path, only_print: bool) -> None:
    """Install, enable and start the service bridge-server, and print its URL once it is ready.

    Secrets are files in /etc/bridge-server/credentials that are named as their settings, such as admin_token:
    each that is there becomes a credential of the service.
    """
    config_file = config_file.expanduser().absolute()
    check_user(user)
    there = [name for name in (*secret_names(), *FILES_OF_SECRETS) if (CREDENTIALS / name).exists()]
    unit = ServiceUnit(process.own_command(), config_file, user, there)
    if only_print:
        click.echo(unit.text(), nl=False)
        return
    settings = _check_machine(unit)
    try:
        CREDENTIALS.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not unit.config_file.exists():
            unit.config_file.parent.mkdir(parents=True, exist_ok=True)
            unit.config_file.write_text(FIRST_SETTINGS, "utf-8")
            unit.config_file.chmod(0o644)
        UNIT_FILE.write_text(unit.text(), "utf-8")
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from error
    _systemctl("daemon-reload")
    _systemctl("enable", "--quiet", NAME)
    _systemctl("restart", NAME)
    click.echo(f"ready: {settings.public_url or process.local_url(settings.host, settings.port)}")
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
    found = unit.config_file.stat()
    is_own = unit.user is not None and pwd.getpwnam(unit.user).pw_uid == found.st_uid
    if not is_own and not found.st_mode & _READABLE_BY_ALL:
        raise CommandError(
            f"{unit.config_file} cannot be read by the service: chmod 644 it, and keep secrets in "
            f"{CREDENTIALS}"
        )
    if "data_dir" in settings.model_fields_set and settings.data_dir != STATE:
        raise CommandError(
            f"data_dir {settings.data_dir}: the service can write {STATE} only: leave data_dir out"
        )
    return settings


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
