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
BUILD_FILES = ("setup.cfg", "pyproject.toml")


def imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_every_module_stands_on_a_floor() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = configuration["tool"]["importlinter"]["contracts"][0]
    on_floors = {name.strip() for layer in contract["layers"] for name in re.split("[|:]", layer)}

    top_names = {name.split("/")[1].removesuffix(".py") for name in TEXTS} - {"__init__"}

    assert {f"bridge_server.{name}" for name in top_names} - on_floors == set()


def test_the_parts_of_web_do_not_import_the_middleware_or_the_application() -> None:
    upward = [
        (name, node.module)
        for name, tree in TREES.items()
        if name.startswith("bridge_server/web/") and not name.endswith("/serving.py")
        for node in imports(tree)
        if isinstance(node, ast.ImportFrom)
        and re.match(r"bridge_server\.web\.(middleware|serving)", str(node.module))
    ]

    assert upward == []


def test_files_do_not_import_one_another_in_a_circle() -> None:
    """A module whose name is a string in another, which loads it later, counts as imported."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in TEXTS}
    imported: dict[str, set[str]] = {}
    for name, tree in TREES.items():
        importer = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        found = set(re.findall(r'"(bridge_server[\w.]+)(?::\w+)?"', TEXTS[name]))
        for node in imports(tree):
            if isinstance(node, ast.ImportFrom):
                found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
            else:
                found |= {alias.name for alias in node.names}
        imported[importer] = found & modules - {importer}

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
    texts = TEXTS | {name: (ROOT / name).read_text("utf-8") for name in BUILD_FILES}

    assert [name for name, text in texts.items() if VERSION in text] == ["bridge_server/kernel/version.py"]


def test_only_storage_speaks_to_the_database() -> None:
    others = {
        name
        for name, tree in TREES.items()
        for node in imports(tree)
        if not name.startswith("bridge_server/storage/")
        and {alias.name for alias in node.names} & {"sqlite3", "aiosqlite"}
    }

    # these tell of a database that cannot be opened
    assert others <= {f"bridge_server/cli/{name}.py" for name in ("server_run", "database_command", "backup")}


# What a server loads only when it is asked for it, and what programs that use its parts never load.

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


def test_a_server_does_not_load_what_structlog_finds_installed(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("")

    loaded = printed(LOADS_THE_COMMAND, tmp_path)[-1]

    assert "structlog.dev" in loaded
    assert "rich" not in loaded


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


# The walks that docs/architecture.md lists: along files that exist, short and complete.

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MOST_FILES = 6
CALLED_BACK = ("pubsub/v2_sockets", "pubsub/v2_calls")
"""A socket gets the function that answers its calls as an argument."""


def walk_of(subject: str) -> list[str]:
    """The files of an item. A name without a folder is in the folder of the name before it."""
    (item,) = re.findall(rf"^- \*\*{re.escape(subject)}:\*\*(.*?)(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)
    files: list[str] = []
    for name in re.findall(r"`([a-z0-9_/]+)`", item):
        folder = files[-1].rpartition("/")[0] if files else ""
        files.append(name if "/" in name else f"{folder}/{name}")
    return files


def imported_by(file: str) -> set[str]:
    """The package's modules that a file imports, as paths."""
    tree = ast.parse((PACKAGE / f"{file}.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names = {str(node.module) for node in imports}
    names |= {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    return {name.removeprefix("bridge_server.").replace(".", "/") for name in names}


SUBJECTS = re.findall(r"^- \*\*(an? .+?):\*\*", PAGE, re.MULTILINE)


@each_row("subject", SUBJECTS)
def test_a_walk_is_short_and_goes_from_the_route_to_the_rows_along_imports(subject: str) -> None:
    walk = walk_of(subject)

    assert walk[0].endswith("/routes")
    assert walk[-1].endswith(("store", "wallet/signing"))
    assert len(walk) <= MOST_FILES
    for above, below in pairwise(walk):
        if (above, below) != CALLED_BACK:
            assert below in imported_by(above), (above, below)
