"""The last step of action.yml: start a server in test mode beside the job, and say where it is.

    python start_for_actions.py FOLDER

FOLDER has the virtual environment `venv`, and gets the server's settings, data, ready file and log. Settings
come from the environment variable BRIDGE_ACTION_SETTINGS, as lines of TOML; BRIDGE_ACTION_DEV_ACCOUNTS is
`true` or `false`. Other steps of the job find the server by the environment variables that GitHub Actions
reads from the file GITHUB_ENV.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

_START_SECONDS = 60.0
_CHECK_EVERY_SECONDS = 0.05


def start_server(folder: Path) -> dict[str, str]:
    """The facts of the server's ready file. Exits with the server's log if it does not start."""
    ready_file, log_file = folder / "ready.json", folder / "log"
    with log_file.open("wb") as log:
        server = subprocess.Popen(
            [*_command(folder), "--ready-file", ready_file],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in os.environ.items() if not name.startswith("BRIDGE_")},
            start_new_session=True,  # the end of this step is not the end of the server
        )
    deadline = time.monotonic() + _START_SECONDS
    while not ready_file.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            sys.exit(f"Bridge Server did not start:\n{log_file.read_text('utf-8', 'replace')}")
        time.sleep(_CHECK_EVERY_SECONDS)
    facts: dict[str, str] = json.loads(ready_file.read_text("utf-8"))
    return facts


def _command(folder: Path) -> list[str]:
    settings = folder / "settings.toml"
    settings.touch(mode=0o600)
    settings.write_text(os.environ.get("BRIDGE_ACTION_SETTINGS", "") + "\n", "utf-8")
    command = [
        f"{folder}/venv/bin/bridge-server", "serve", "--test", "--port", "0",
        "--data-dir", f"{folder}/data", "--config", f"{settings}",
    ]  # fmt: skip
    if os.environ.get("BRIDGE_ACTION_DEV_ACCOUNTS", "true") == "true":
        command.append("--dev-accounts")
    return command


def tell_the_job(facts: Mapping[str, str], venv: Path) -> None:
    """Write the environment variables of the steps that follow, and the action's output."""
    print(f"::add-mask::{facts['test_token']}")
    variables = {
        "BRIDGE_URL": facts["url"],
        "BRIDGE_RPC_URL": f"{facts['url']}/rpc",
        "BRIDGE_TEST_TOKEN": facts["test_token"],
        "BRIDGE_SERVER_VENV": str(venv),
    }
    _append(os.environ["GITHUB_ENV"], variables)
    _append(os.environ["GITHUB_OUTPUT"], {"url": facts["url"]})
    print(f"Bridge Server answers at {facts['url']}")


def _append(file: str, values: Mapping[str, str]) -> None:
    with Path(file).open("a", encoding="utf-8") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in values.items())


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    tell_the_job(start_server(folder), folder / "venv")
