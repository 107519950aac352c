"""The shape of the package: who may import whom, where imports stand, what is said in one place only."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import bridge_server
from bridge_server.kernel.version import VERSION
from tests.support.rows import each_row

PACKAGE = Path(bridge_server.__file__).parent
ROOT = PACKAGE.parent
TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}


def imports_of(tree: ast.AST) -> set[str]:
    """The modules that a file imports, and the names in them, with dots."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


IMPORTS = {name: imports_of(tree) for name, tree in TREES.items()}


def test_every_module_stands_on_a_floor() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = configuration["tool"]["importlinter"]["contracts"][0]
    on_floors = {name.strip() for layer in contract["layers"] for name in re.split("[|:]", layer)}
    top_names = {name.split("/")[1].removesuffix(".py") for name in TEXTS} - {"__init__"}

    assert {f"bridge_server.{name}" for name in top_names} - on_floors == set()


def test_parts_of_web_do_not_import_what_stands_above_and_only_storage_imports_the_database() -> None:
    parts = {name for name in IMPORTS if name.startswith("bridge_server/web/")} - {
        "bridge_server/web/serving.py"
    }
    upward = {"bridge_server.web.middleware", "bridge_server.web.serving"}
    assert {name: found for name in parts if (found := IMPORTS[name] & upward)} == {}

    drivers = {"sqlite3", "aiosqlite"}
    others = {name for name in IMPORTS if IMPORTS[name] & drivers and "/storage/" not in name}
    # these tell of a database that cannot be opened
    assert others <= {f"bridge_server/cli/{name}.py" for name in ("server_run", "database_command", "backup")}


def test_files_do_not_import_one_another_in_a_circle() -> None:
    """A module whose name is a string in another, which loads it later, counts as imported."""
    modules = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in TEXTS}
    imported: dict[str, set[str]] = {}
    for name, module in modules.items():
        later = set(re.findall(r'"(bridge_server[\w.]+)(?::\w+)?"', TEXTS[name]))
        imported[module] = (IMPORTS[name] | later) & set(modules.values()) - {module}

    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_no_class_name_stands_twice() -> None:
    modules: dict[str, list[str]] = {}
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(name)

    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_the_version_is_in_one_place() -> None:
    texts = TEXTS | {name: (ROOT / name).read_text("utf-8") for name in ("setup.cfg", "pyproject.toml")}

    assert [name for name, text in texts.items() if VERSION in text] == ["bridge_server/kernel/version.py"]


# What a server loads only when it is asked for it, and what programs that use its parts never load.

BUILDS_THE_SERVER = """
import sys
from pathlib import Path
from bridge_server.assembly.application import build_app
from bridge_server.settings.sources import load_settings
build_app(load_settings({"data_dir": "unused"}, None).settings)
print(*sys.modules)
build_app(load_settings({"data_dir": "unused", "console": True, "admin_token": "t" * 40}, None).settings)
print(*sys.modules)
from bridge_server.assembly.application import every_route
every_route()
print(*sys.modules)
"""
LOADS_THE_COMMAND = """
import sys
from bridge_server.cli.main import main
sys.argv = ["bridge-server", "serve", "--help"]
try:
    main()
finally:
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


def test_a_server_loads_nothing_of_a_disabled_feature_and_no_description(tmp_path: Path) -> None:
    loaded, with_a_console, with_every_route = printed(BUILDS_THE_SERVER, tmp_path)

    features = {
        "APNs": {"h2", "Crypto.PublicKey.ECC"},
        "FCM": {"Crypto.PublicKey.RSA", "bridge_server.push.providers.fcm"},
        "key files that OpenSSL refuses": {"Crypto.Protocol.KDF"},
        "metrics": {"prometheus_client"},
        "a word that is misspelled": {"difflib"},
        "a page of the documentation": {"jinja2", "markdown_it", "bridge_server.description.site"},
        "the description": {"bridge_server.description.document", "bridge_server.wallet.rpc.openrpc"},
        "a QR code": {"segno"},
        "the console": {"bridge_server.console"},
        "the admin API": {"bridge_server.admin.projects", "bridge_server.assembly.admin"},
        "test mode": {"bridge_server.testmode.service"},
        "a configuration file": {"tomllib"},
        "PostgreSQL": {"asyncpg", "bridge_server.storage.postgres"},
        "a wallet": {"bridge_server.kit.headless"},
    }
    assert "bridge_server.push.service" in loaded
    assert {feature: found for feature, names in features.items() if (found := names & loaded)} == {}
    assert "bridge_server.console.server" in with_a_console
    assert features["test mode"] & with_a_console == set()
    descriptions = {name for name in with_every_route if "description" in name}
    assert descriptions == {"bridge_server.description", "bridge_server.description.routes"}


def test_a_server_does_not_load_what_structlog_finds_installed(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("")

    loaded = printed(LOADS_THE_COMMAND, tmp_path)[-1]

    assert "structlog.dev" in loaded
    assert "rich" not in loaded


def test_clients_wallets_and_tests_load_nothing_that_they_do_not_use(tmp_path: Path) -> None:
    client, headless, tests = printed(USES_THE_PARTS, tmp_path)

    of_the_client = ("bridge_server.kit.client", "bridge_server.ethereum", "bridge_server.kernel")
    own = {name for name in client if name.partition(".")[0] == "bridge_server"}
    assert {name for name in own if not name.startswith(of_the_client)} <= {
        "bridge_server",
        "bridge_server.kit",
    }
    assert "bridge_server.kit.headless" in headless
    rooms = ("assembly", "settings", "storage", "relay", "pubsub")
    of_the_server = tuple(f"bridge_server.{room}" for room in rooms)
    assert [name for name in headless if name.startswith(of_the_server)] == []
    assert tests == {"imported"}


# The walks that docs/architecture.md lists: along files that exist, short and complete.

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
WALKS = re.findall(r"^- \*\*(an? .+?):\*\*(.*?)(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)


@each_row(("subject", "item"), WALKS)
def test_a_walk_is_short_and_goes_from_the_route_to_the_rows_along_imports(subject: str, item: str) -> None:
    walk: list[str] = []
    for name in re.findall(r"`([a-z0-9_/]+)`", item):
        folder = walk[-1].rpartition("/")[0] if walk else ""
        walk.append(name if "/" in name else f"{folder}/{name}")

    assert walk[0].endswith("/routes"), subject
    assert walk[-1].endswith(("store", "wallet/signing"))
    assert len(walk) <= 6
    for above, below in pairwise(walk):
        # A socket gets the function that answers its calls as an argument.
        if (above, below) != ("pubsub/v2_sockets", "pubsub/v2_calls"):
            module = f"bridge_server.{below.replace('/', '.')}"
            assert module in IMPORTS[f"bridge_server/{above}.py"], (above, below)
