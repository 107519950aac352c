"""What is for other programs' tests works where nothing is installed but the server's own requirements."""

import subprocess
import sys

_IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module

sys.modules["cryptography"] = None  # an import of it fails as where it is not installed
import bridge_server.kit.testing

for module in pkgutil.iter_modules(bridge_server.kit.testing.__path__, "bridge_server.kit.testing."):
    import_module(module.name)
print("imported")
"""


def test_the_services_for_tests_need_no_library_that_is_for_development() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL], capture_output=True, encoding="utf-8", timeout=60, check=False
    )

    assert (finished.stdout.strip(), finished.stderr) == ("imported", "")
