"""What a server that is not asked for it does not load."""

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
print(*sys.modules, sep="\\n")
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a server that has its default settings."""
    command = [sys.executable, "-c", BUILDS_THE_SERVER]
    folder = tmp_path_factory.mktemp("nowhere")
    # Coverage would import modules of its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


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
        ("bridge_server.relay.description", "the description"),
        ("bridge_server.web.description", "the description"),
        ("tomllib", "a configuration file"),
        ("asyncpg", "PostgreSQL"),
        ("bridge_server.storage.postgres", "PostgreSQL"),
    ],
)
def test_module_of_a_disabled_feature_is_not_imported(loaded: set[str], name: str, needed_by: str) -> None:
    assert "bridge_server.push.service" in loaded
    assert name not in loaded, f"only {needed_by} needs it"


def test_module_imported_by_name_exists() -> None:
    names = [
        call.args[0].value
        for text in TEXTS
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "import_module"
        and isinstance(call.args[0], ast.Constant)
    ]

    assert "bridge_server.assembly.console_pages" in names
    assert "bridge_server.description.site" in names
    assert "bridge_server.description.document" in names
    assert "bridge_server.push.providers.configured" in names
    assert "bridge_server.push.providers.credentials" in names
    assert [name for name in names if name != "uvloop" and find_spec(str(name)) is None] == []
