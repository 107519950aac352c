"""Markdown as HTML: headings have the anchors that GitHub makes, and links lead to the pages at `/docs/`."""

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bridge_server.documentation.library import Library
from bridge_server.version import REPOSITORY
from bridge_server.web.problem_links import PAGES_PATH

_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_TABLE = '<div class="scrolls" role="region" aria-label="Table" tabindex="0">'


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

    def page(self, name: str) -> str:
        """The page of this name."""
        tokens = self._parser.parse(self._library.pages[name].read_text("utf-8"))
        _number_headings(tokens)
        for token in tokens:
            for child in token.children or ():
                for attribute in ("href", "src"):
                    target = child.attrGet(attribute)
                    if isinstance(target, str):
                        child.attrSet(attribute, self._led(name, target))
        return self._written(tokens)

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
        words = (child.content for child in inline.children or () if child.type in ("text", "code_inline"))
        anchor = anchor_of("".join(words))
        count = seen[anchor] = seen.get(anchor, -1) + 1
        token.attrSet("id", f"{anchor}-{count}" if count else anchor)
