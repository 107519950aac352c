"""The server loads nothing of the headless wallet, and the wallet nothing of the server's assembly."""

import subprocess
import sys

from tests.support.rows import each_row

_PRINT_LOADED = """
import sys
import {module}
print(*(name for name in sys.modules if name.startswith("bridge_server.")))
"""


def _loaded(module: str) -> list[str]:
    command = [sys.executable, "-c", _PRINT_LOADED.format(module=module)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def test_the_server_loads_nothing_of_the_headless_wallet() -> None:
    loaded = _loaded("bridge_server.assembly.application")

    assert [name for name in loaded if name.startswith("bridge_server.kit.headless")] == []


@each_row("module", ["assembly", "settings", "storage", "relay", "pubsub"])
def test_the_headless_wallet_loads_nothing_of_the_server(module: str) -> None:
    loaded = _loaded("bridge_server.kit.headless")

    assert [name for name in loaded if name.startswith(f"bridge_server.{module}")] == []
