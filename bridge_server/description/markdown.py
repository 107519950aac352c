"""The files of `docs/`: their place in the navigation, and their Markdown as HTML and as words."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bridge_server.kernel.values import dataclass
from bridge_server.kernel.version import REPOSITORY
from bridge_server.web.connection import PAGES_PATH

# Markdown pages by their names, and pictures by their paths.
#
# A wheel has them beside this module. A checkout has a symbolic link there, which a system without symbolic
# links checks out as a file: then the checkout's own folder is read.

_BESIDE = Path(__file__).parent / "pages"
_OF_CHECKOUT = Path(__file__).parents[2] / "docs"
PICTURE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
"""The media types of pictures, by the endings of their files."""

_DOORS: Mapping[str, tuple[str, ...]] = {
    "Build": ("quickstart", "connect", "notify", "wallet", "test"),
    "Run": ("operate", "admin", "processes", "troubleshooting", "moving"),
    "Look up": ("api", "methods", "errors", "try", "reference", "protocol"),
    "The project": ("architecture", "speed"),
}
"""The navigation: pages by what readers come for. A page that is not named here is in the last part;
records of decisions are listed by a page of theirs."""
_RECORD = re.compile(r"/[0-9]{4}-")
MADE = {"api": "Operations", "methods": "Wallet methods", "errors": "Errors", "try": "Try operations"}
"""The titles of pages that no file holds."""


@dataclass(frozen=True, slots=True)
class Library:
    """Every file that may be answered. Nothing else is ever read, whatever a path says."""

    pages: Mapping[str, Path]
    """The pages by their paths without `.md`, such as `wallet` and `decisions/README`."""
    pictures: Mapping[str, Path]
    """The pictures by their paths, such as `images/inbox.png`."""

    def doors(self) -> dict[str, list[tuple[str, str]]]:
        """Name and title of each page of the navigation, by its heading there."""
        named = {name for names in _DOORS.values() for name in names}
        others = sorted(name for name in self.pages if name not in named and not _RECORD.search(name))
        last = list(_DOORS)[-1]
        return {
            heading: [
                (name, self.title(name))
                for name in (*names, *(others if heading == last else ()))
                if name in MADE or name in self.pages
            ]
            for heading, names in _DOORS.items()
        }

    def title(self, name: str) -> str:
        """The title of a page."""
        return MADE[name] if name in MADE else title_of(self.pages[name].read_text("utf-8"), name)


def open_library(folders: tuple[Path, ...] = (_BESIDE, _OF_CHECKOUT)) -> Library:
    """The files of the first of these folders that exists; none without any."""
    folder = next((each for each in folders if each.is_dir()), None)
    if folder is None:
        return Library({}, {})
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    files = {path.relative_to(folder).as_posix(): path for path in found}
    return Library(
        {name.removesuffix(".md"): path for name, path in files.items() if path.suffix == ".md"},
        {name: path for name, path in files.items() if path.suffix in PICTURE_TYPES},
    )


def title_of(text: str, name: str) -> str:
    """The first heading of a page; its name if there is none."""
    lines = (line for line in text.splitlines() if line.startswith("# "))
    return next(lines, name).removeprefix("# ").replace("`", "").strip()


# Markdown as HTML: headings have the anchors that GitHub makes, and links lead to the pages at `/docs/`.

_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_FIRST_SENTENCE = re.compile(r"(?:\([^)]*\)|[^(])*?[.:](?=\s|$)")
_TABLE = '<div class="scrolls" role="group" aria-label="Table" tabindex="0">'


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a page, with the words below it up to the next heading."""

    level: int
    anchor: str
    heading: str
    words: str


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """A page as HTML, its sections, and the first sentence below its title, if one stands there."""

    text: str
    sections: Sequence[Section]
    lead: str


class Markdown:
    """Renders pages of the library, and texts without links of their own."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        rules = self._parser.renderer.rules  # type: ignore[attr-defined]
        rules["table_open"] = lambda *_: f"{_TABLE}<table>\n"
        rules["table_close"] = lambda *_: "</table></div>\n"

    def text(self, text: str) -> str:
        """A text of the description of the server."""
        return self._written(self._parser.parse(text))

    def page(self, name: str) -> MarkdownPage:
        """The page of this name."""
        tokens = self._parser.parse(self._library.pages[name].read_text("utf-8"))
        _number_headings(tokens)
        for token in tokens:
            for child in token.children or ():
                for attribute in ("href", "src"):
                    target = child.attrGet(attribute)
                    if isinstance(target, str):
                        child.attrSet(attribute, self._led(name, target))
        return MarkdownPage(self._written(tokens), list(_sections(tokens)), _lead(tokens))

    def _written(self, tokens: Sequence[Token]) -> str:
        written: str = self._parser.renderer.render(tokens, self._parser.options, {})
        return written

    def _led(self, page: str, target: str) -> str:
        """The target of a link in a page, as a path of this server or a URL."""
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or not parts.path:
            return target
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), parts.path))
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        if path.endswith(".md") and path.removesuffix(".md") in self._library.pages:
            return f"{PAGES_PATH}/{path.removesuffix('.md')}{anchor}"
        if path in self._library.pictures:
            return f"{PAGES_PATH}/{path}"
        inside = path.removeprefix("../") if path.startswith("../") else f"docs/{path}"
        return f"{REPOSITORY}/blob/main/{inside}{anchor}"


def anchor_of(heading: str) -> str:
    """The anchor of a heading as GitHub makes it."""
    return _NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")


def _number_headings(tokens: Sequence[Token]) -> None:
    """Give each heading its anchor; a repeated one gets a number."""
    seen: dict[str, int] = {}
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        anchor = anchor_of(_words(inline))
        count = seen[anchor] = seen.get(anchor, -1) + 1
        token.attrSet("id", f"{anchor}-{count}" if count else anchor)


def _words(inline: Token) -> str:
    words = (
        child.content if child.type in ("text", "code_inline") else " " for child in inline.children or ()
    )
    return " ".join("".join(words).split()) if inline.children else inline.content


def _sections(tokens: Sequence[Token]) -> Iterator[Section]:
    heading, words = None, list[str]()
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            if heading is not None:
                yield Section(*heading, " ".join(words))
            heading, words = (int(before.tag[1:]), str(before.attrGet("id")), _words(token)), []
        elif token.type in ("inline", "fence"):
            words.append(_words(token))
    if heading is not None:
        yield Section(*heading, " ".join(words))


def _lead(tokens: Sequence[Token]) -> str:
    for before, token, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if before.type == "heading_close":
            words = _words(inline).replace("( ", "(").replace(" )", ")")
            sentence = _FIRST_SENTENCE.match(words) if token.type == "paragraph_open" else None
            return "" if sentence is None else sentence[0].removesuffix(":")
    return ""
