"""The client stands by itself: dapps and wallets load none of the server."""

import subprocess
import sys

_PRINT_LOADED = """
import sys
import bridge_server.kit.client
print(*(name for name in sys.modules if name.split(".")[0] == "bridge_server"))
"""
_OWN = ("bridge_server.kit.client", "bridge_server.ethereum", "bridge_server.kernel")
_PURE = {"bridge_server", "bridge_server.kit", "bridge_server.version"}


def test_the_client_loads_nothing_of_the_server() -> None:
    command = [sys.executable, "-c", _PRINT_LOADED]
    loaded = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()

    assert [name for name in loaded if not name.startswith(_OWN) and name not in _PURE] == []
