"""The unit of the service for systemd, and the settings file that it begins with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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

[Service]
Type=notify
ExecStart={command} serve --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartPreventExitStatus=2
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
