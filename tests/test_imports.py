"""What a server loads only when it is asked for it, and what programs that use its parts never load."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import bridge_server
from tests.support.rows import each_row

PACKAGE = Path(bridge_server.__file__).parent
TEXTS = [path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))]

BUILDS_THE_SERVER = """
import sys
from pathlib import Path
from bridge_server.assembly.application import build_app
from bridge_server.settings.sources import load_settings
build_app(load_settings({"data_dir": "unused"}, None).settings)
print(*sys.modules)
from bridge_server.assembly.application import every_route
every_route()
print(*sys.modules)
"""
USES_THE_PARTS = """
import pkgutil, sys
from importlib import import_module

sys.modules["cryptography"] = None  # an import of it fails as where it is not installed
import bridge_server.kit.client
print(*sys.modules)
import bridge_server.kit.headless
print(*sys.modules)
import bridge_server.kit.testing
for module in pkgutil.iter_modules(bridge_server.kit.testing.__path__, "bridge_server.kit.testing."):
    import_module(module.name)
print("imported")
"""
OF_THE_CLIENT = ("bridge_server.kit.client", "bridge_server.ethereum", "bridge_server.kernel")
PURE = {"bridge_server", "bridge_server.kit"}


def printed(program: str, folder: Path) -> list[set[str]]:
    """The words of each line that a new interpreter prints, which writes nothing to standard error."""
    # Coverage would import modules of its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [set(line.split()) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """The modules of a server that has its default settings, and those after every route was made."""
    return printed(BUILDS_THE_SERVER, tmp_path_factory.mktemp("nowhere"))


@pytest.fixture(scope="module")
def loaded(loads: list[set[str]]) -> set[str]:
    """The modules of a server that has its default settings."""
    return loads[0]


@each_row(
    ("name", "needed_by"),
    [
        ("h2", "APNs"),
        ("Crypto.PublicKey.ECC", "APNs and Web Push"),
        ("Crypto.PublicKey.RSA", "FCM"),
        ("Crypto.Protocol.KDF", "key files that OpenSSL refuses"),
        ("bridge_server.push.providers.fcm", "FCM"),
        ("prometheus_client", "metrics"),
        ("difflib", "a word that is misspelled"),
        ("jinja2", "the console, and a page of the documentation"),
        ("markdown_it", "a page of the documentation"),
        ("bridge_server.description.site", "a page of the documentation"),
        ("bridge_server.wallet.rpc.openrpc", "the description of the wallet"),
        ("segno", "a QR code"),
        ("bridge_server.console", "the console"),
        ("bridge_server.admin.projects", "the admin API"),
        ("bridge_server.assembly.admin", "the admin API and the console"),
        ("bridge_server.testmode.service", "test mode"),
        ("bridge_server.description.document", "the description"),
        ("bridge_server.description.problems", "the description"),
        ("tomllib", "a configuration file"),
        ("asyncpg", "PostgreSQL"),
        ("bridge_server.storage.postgres", "PostgreSQL"),
        ("bridge_server.kit.headless", "a wallet"),
    ],
)
def test_module_of_a_disabled_feature_is_not_imported(loaded: set[str], name: str, needed_by: str) -> None:
    assert "bridge_server.push.service" in loaded
    assert name not in loaded, f"only {needed_by} needs it"


def test_descriptions_are_not_loaded_before_somebody_asks(loads: list[set[str]]) -> None:
    descriptions = {name for name in loads[1] if "description" in name}

    assert descriptions == {"bridge_server.description", "bridge_server.description.routes"}


def test_clients_and_wallets_load_nothing_of_the_server_and_tests_nothing_of_developers(
    tmp_path: Path,
) -> None:
    client, headless, tests = printed(USES_THE_PARTS, tmp_path)

    own = {name for name in client if name.partition(".")[0] == "bridge_server"}
    assert {name for name in own if not name.startswith(OF_THE_CLIENT)} <= PURE
    assert "bridge_server.kit.headless" in headless
    rooms = ("assembly", "settings", "storage", "relay", "pubsub")
    of_the_server = tuple(f"bridge_server.{room}" for room in rooms)
    assert [name for name in headless if name.startswith(of_the_server)] == []
    assert tests == {"imported"}


def test_module_imported_by_name_exists() -> None:
    names = [
        call.args[0].value
        for text in TEXTS
        if "import_module" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "import_module"
        and isinstance(call.args[0], ast.Constant)
    ]

    assert "bridge_server.assembly.console_pages" in names
    assert "bridge_server.description.site" in names
    assert "bridge_server.description.document" in names
    assert "bridge_server.push.providers.credentials" in names
    assert [name for name in names if name != "uvloop" and find_spec(str(name)) is None] == []
