"""The files of `docs/`: Markdown pages by their names, and pictures by their paths.

A wheel has them beside this module. A checkout has a symbolic link there, which a system without symbolic
links checks out as a file: then the checkout's own folder is read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BESIDE = Path(__file__).parent / "pages"
_OF_CHECKOUT = Path(__file__).parents[2] / "docs"
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}

_FIRST = (
    "quickstart", "dapp", "wallet", "testing", "operate", "notify", "reference", "troubleshooting", "moving",
)  # fmt: skip
"""The order of the pages in the navigation; others follow by their titles."""


@dataclass(frozen=True, slots=True)
class Library:
    """Every file that may be answered. Nothing else is ever read, whatever a path says."""

    pages: Mapping[str, Path]
    """The pages by their paths without `.md`, such as `wallet` and `decisions/README`."""
    pictures: Mapping[str, Path]
    """The pictures by their paths, such as `images/inbox.png`."""

    def titles(self) -> list[tuple[str, str]]:
        """Name and title of each page that is in no folder, in the order of the navigation."""
        names = [name for name in self.pages if "/" not in name]
        known = {name: place for place, name in enumerate(_FIRST)}
        titled = [(name, title_of(self.pages[name].read_text("utf-8"), name)) for name in names]
        return sorted(titled, key=lambda each: (known.get(each[0], len(known)), each[1].casefold()))


def open_library(folders: tuple[Path, ...] = (_BESIDE, _OF_CHECKOUT)) -> Library:
    """The files of the first of these folders that exists; none without any."""
    folder = next((each for each in folders if each.is_dir()), None)
    if folder is None:
        return Library({}, {})
    files = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    return Library(
        {name.removesuffix(".md"): path for name, path in files.items() if path.suffix == ".md"},
        {name: path for name, path in files.items() if path.suffix in _TYPES},
    )


def picture_type(path: Path) -> str:
    """The media type of a picture."""
    return _TYPES[path.suffix]


def title_of(text: str, name: str) -> str:
    """The first heading of a page; its name if there is none."""
    lines = (line for line in text.splitlines() if line.startswith("# "))
    return next(lines, name).removeprefix("# ").replace("`", "").strip()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path
