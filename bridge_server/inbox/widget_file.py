"""The web component as one file: the modules of the folder `widget`, joined in the order of imports."""

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "widget"
_IMPORT = re.compile(r"^import \{[^}]*\} from '\./(\w+)\.js'\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|class|function|async)", re.MULTILINE)
_ENTRY = "component"
_HEADER = (
    "// Bridge Server's inbox for web pages, <bridge-inbox>: docs/inbox.md. Joined from several modules.\n"
)


def widget_script() -> bytes:
    """The script. The names that modules export share one scope."""
    names: list[str] = []
    _collect(_ENTRY, names)
    bodies = [_EXPORT.sub("", _IMPORT.sub("", _source(name))) for name in names]
    return "\n".join([_HEADER, *bodies]).encode()


def _collect(name: str, names: list[str]) -> None:
    """Append the module after the modules that it imports."""
    for imported in _IMPORT.findall(_source(name)):
        if imported not in names:
            _collect(imported, names)
    names.append(name)


def _source(name: str) -> str:
    return (_FOLDER / f"{name}.js").read_text("utf-8")
