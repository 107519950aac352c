"""Compares the size of the package's folders with the table `[tool.budgets]` of pyproject.toml.

A folder's row is `[files, lines]` of its Python modules, with its subfolders. A folder that grew needs a
higher number in the table, which the diff shows; one that shrank by more than a twentieth needs a lower one.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "bridge_server"
_SLACK = 0.05


def _size(folder: Path) -> tuple[int, int]:
    modules = list(folder.rglob("*.py"))
    return len(modules), sum(module.read_text("utf-8").count("\n") for module in modules)


def _faults(budgets: dict[str, list[int]], modules_in_a_folder: int) -> Iterator[str]:
    folders = {path.name: path for path in _PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    for name in sorted(folders.keys() ^ budgets.keys()):
        yield f"{name}: stands in the table or in the package, but not in both"
    for name in sorted(folders.keys() & budgets.keys()):
        sizes = zip(("files", "lines"), _size(folders[name]), budgets[name], strict=True)
        for unit, size, budget in sizes:
            if size > budget:
                yield f"{name}: {size} {unit}, and its budget is {budget}"
            elif size < budget * (1 - _SLACK) - 1:
                yield f"{name}: {size} {unit}; lower its budget, which is {budget}"
    for folder in {module.parent for module in _PACKAGE.rglob("*.py")}:
        count = len(list(folder.glob("*.py")))
        if count > modules_in_a_folder:
            yield f"{folder.relative_to(_PACKAGE)}: {count} modules, and at most {modules_in_a_folder} may be"


def main() -> int:
    """Print each fault; 1 if there is any."""
    table = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["budgets"]
    faults = list(_faults(table["folders"], table["modules_in_a_folder"]))
    for fault in faults:
        print(f"[tool.budgets] {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
