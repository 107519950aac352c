"""The settings of `bridge-server dev`."""

import os
from pathlib import Path

from bridge_server.cli.options import CommandError
from bridge_server.kernel.secrets import new_secret
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import CommandSettings, LoadedSettings

_COMMAND = "bridge-server dev"
_APPROVE_OF_POLICY = {"approve": "auto", "queue": "queue"}
_WANTED = {"console": "on", "admin_wallet": True}
"""Settings for the operator's side, which any source may change."""

_OWN_KEYS = ("private_keys", "private_keys_file", "keystore_dir")


def dev_settings(data_dir: Path, policy: str) -> CommandSettings:
    """The settings that the command brings along, over this data directory."""
    fixed = {
        "host": "127.0.0.1",
        "data_dir": data_dir,
        "test": True,
        "dev_accounts": True,
        "dev_accounts_public": False,
        "allow_private_webhooks": True,
        "admin_token": new_secret(os.urandom),
        "approve": _APPROVE_OF_POLICY[policy],
    }
    defaults = {name: value for name, value in _WANTED.items() if name in Settings.model_fields}
    return CommandSettings(_COMMAND, fixed, defaults)


def refuse_own_keys(loaded: LoadedSettings) -> None:
    """Raise CommandError for keys that are worth something: every program here has this wallet sign."""
    named = [name for name in _OWN_KEYS if getattr(loaded.settings, name) is not None]
    if named:
        where = ", ".join(f"{name} ({loaded.origins[name]})" for name in named)
        raise CommandError(
            f"{where}: dev signs for every program on this machine, with published keys only: "
            "leave it out, or use serve"
        )
