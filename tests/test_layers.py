"""The shape of the package: who may import whom, where imports stand, what is said in one place only."""

import ast
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bridge_server
from bridge_server.kernel.version import VERSION

PACKAGE = Path(bridge_server.__file__).parent
ROOT = PACKAGE.parent
TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
BUILD_FILES = ("setup.cfg", "pyproject.toml")

REASONS_FOR_THE_TYPE_CHECKER = {
    "bridge_server/kernel/values.py": "it knows dataclasses by the name of the standard library's decorator",
    "bridge_server/web/shapes.py": "it knows a TypedDict by the name of the standard library's class",
}

REASONS_FOR_AN_IMPORT_INSIDE_A_FUNCTION: dict[tuple[str, str], str] = {}
"""By module and imported name. None is needed at present."""


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


def test_no_two_folders_import_each_other() -> None:
    folders = {name.rpartition("/")[0].replace("/", ".") for name in TEXTS} - {"bridge_server"}
    pairs = set()
    for name, tree in TREES.items():
        importer = name.rpartition("/")[0].replace("/", ".")
        for node in imports(tree):
            module = str(node.module) if isinstance(node, ast.ImportFrom) else node.names[0].name
            imported = module if module in folders else module.rpartition(".")[0]
            if importer in folders and imported in folders - {importer}:
                pairs.add((importer, imported))

    assert {pair for pair in pairs if pair[::-1] in pairs} == set()


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


def test_imports_stand_at_the_top() -> None:
    inside = {
        (name, alias.name)
        for name, tree in TREES.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in imports(function)
        for alias in node.names
    }

    assert inside == REASONS_FOR_AN_IMPORT_INSIDE_A_FUNCTION.keys()


def test_imports_are_absolute_and_never_for_the_type_checker_only() -> None:
    relative = [
        name
        for name, tree in TREES.items()
        for node in imports(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]

    assert relative == []
    for_the_type_checker = {name for name, text in TEXTS.items() if "TYPE_CHECKING" in text}
    assert for_the_type_checker == REASONS_FOR_THE_TYPE_CHECKER.keys()


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


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
