"""Every page at `/docs/`: the files of `docs/` and the pages made of operations, methods and problems."""

import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from multidict import CIMultiDictProxy

from bridge_server.console.rendering import STYLESHEET
from bridge_server.kernel.fields import near_words
from bridge_server.kernel.values import dataclass
from bridge_server.version import NAME, REPOSITORY, VERSION
from bridge_server.wallet.rpc.openrpc import MEANING_OF_CODE, openrpc_document
from bridge_server.web.answers import StaticFiles, page_headers, ready_made
from bridge_server.web.connection import PAGES_PATH, TYPE_PREFIX

# The operations of an OpenAPI document, as the page about them shows them.

Document: TypeAlias = Mapping[str, Any]

_METHODS = ("get", "post", "put", "patch", "delete")
_SCHEMAS = "#/components/schemas/"
_RESPONSES = "#/components/responses/"


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """One answer of an operation: its meaning, and of a problem the codes."""

    status: str
    meaning: str
    shapes: Sequence[str]
    example: str
    codes: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownParameter:
    """A parameter in the path, the query or a header field."""

    name: str
    place: str
    is_required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """A method of a path."""

    anchor: str
    method: str
    path: str
    summary: str
    text: str
    tokens: Sequence[str]
    parameters: Sequence[ShownParameter]
    body_shapes: Sequence[str]
    body_example: str
    answers: Sequence[ShownAnswer]


@dataclass(frozen=True, slots=True)
class Tag:
    """Operations that belong together."""

    name: str
    text: str
    operations: Sequence[ShownOperation]


def tags_of(document: Document) -> list[Tag]:
    """All operations by tag, in the order of the document."""
    by_tag: dict[str, list[ShownOperation]] = {tag["name"]: [] for tag in document.get("tags", ())}
    for path, methods in document["paths"].items():
        for method in (name for name in _METHODS if name in methods):
            fields = methods[method]
            tag = next(iter(fields.get("tags", ())), "Others")
            by_tag.setdefault(tag, []).append(_operation(path, method, fields, document))
    texts = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    return [Tag(name, texts.get(name, ""), each) for name, each in by_tag.items() if each]


def messages_of(document: Document) -> list[ShownOperation]:
    """The messages that the server sends to webhooks, in the order of the document."""
    return [
        _operation(name, method, fields, document)
        for name, methods in document.get("webhooks", {}).items()
        for method, fields in methods.items()
    ]


def shapes_of(document: Document) -> dict[str, str]:
    """The JSON Schema of each shape that is no problem, by name."""
    schemas: Document = document.get("components", {}).get("schemas", {})
    return {name: indented(each) for name, each in schemas.items() if not name.endswith("Problem")}


def indented(value: Any) -> str:
    """A JSON value for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _operation(path: str, method: str, fields: Document, document: Document) -> ShownOperation:
    body: Document = next(iter(fields.get("requestBody", {}).get("content", {}).values()), {})
    return ShownOperation(
        anchor=fields.get("operationId", f"{method}-{path}"),
        method=method.upper(),
        path=path,
        summary=fields.get("summary", ""),
        text=fields.get("description", ""),
        tokens=[name for each in fields.get("security", ()) for name in each],
        parameters=[_parameter(_resolved(each, document)) for each in fields.get("parameters", ())],
        body_shapes=_shape_names(body.get("schema", {})),
        body_example=_example(body),
        answers=[_answer(status, each, document) for status, each in fields["responses"].items()],
    )


def _parameter(fields: Document) -> ShownParameter:
    return ShownParameter(
        fields["name"], fields["in"], fields.get("required", False), fields.get("description", "")
    )


def _answer(status: str, fields: Document, document: Document) -> ShownAnswer:
    found = _resolved(fields, document)
    content: Document = next(iter(found.get("content", {}).values()), {})
    codes = _codes(fields, content.get("schema", {}))
    shapes = [] if codes else _shape_names(content.get("schema", {}))
    return ShownAnswer(status, found.get("description", ""), shapes, _example(content), codes)


def _codes(response: Document, schema: Document) -> list[str]:
    """The codes of the problems that a response may have."""
    reference = response.get("$ref", "")
    if reference.startswith(_RESPONSES):
        return [reference.removeprefix(_RESPONSES)]
    mapping = schema.get("discriminator", {}).get("mapping", {})
    return [name.removeprefix(TYPE_PREFIX) for name in mapping if name.startswith(TYPE_PREFIX)]


def _resolved(fields: Document, document: Document) -> Document:
    """The part of the document that a reference names; other fields as they are."""
    reference = fields.get("$ref")
    if reference is None:
        return fields
    found: Any = document
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    resolved: Document = found
    return resolved


def _example(content: Document) -> str:
    if "example" in content:
        return indented(content["example"])
    first = next(iter(content.get("examples", {}).values()), None)
    return "" if first is None else indented(first["value"])


def _shape_names(schema: Any) -> list[str]:
    return list(dict.fromkeys(_references(schema)))


def _references(schema: Any) -> Iterator[str]:
    """The names of the shapes in a schema."""
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith(_SCHEMAS):
            yield reference.removeprefix(_SCHEMAS)
        for each in schema.values():
            yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


# The pages about problems: the meaning of each code, its cause and its cure.

_FILE = Path(__file__).parent / "problems.toml"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem by its code, with the HTTP status that it has."""

    code: str
    group: str
    status: int
    title: str
    meaning: str
    cause: str
    cure: str


def every_problem() -> Mapping[str, Problem]:
    """All problems by code, in the order of the pages."""
    written = tomllib.loads(_FILE.read_text("utf-8"))
    return {code: Problem(code=code, **fields) for code, fields in written.items()}


# swagger-ui-dist, with which a reader tries operations in the browser. It is on npm alone: `scripts/build`
# and, where npm is there, `scripts/serve` put it with its licence beside this module.

FOLDER = Path(__file__).parent / "swagger"
_NAMES = ("swagger-ui.css", "swagger-ui-bundle.js")


def swagger_ui_files(folder: Path) -> list[Path]:
    """The stylesheet and the script; none if one is missing."""
    files = [folder / name for name in _NAMES]
    return files if all(file.is_file() for file in files) else []


# The files of `docs/`: Markdown pages by their names, and pictures by their paths.
#
# A wheel has them beside this module. A checkout has a symbolic link there, which a system without symbolic
# links checks out as a file: then the checkout's own folder is read.

_BESIDE = Path(__file__).parent / "pages"
_OF_CHECKOUT = Path(__file__).parents[2] / "docs"
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}

_FIRST = (
    "quickstart", "connect", "notify", "wallet", "test", "operate", "admin", "processes", "reference",
    "protocol", "troubleshooting", "moving",
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


# Markdown as HTML: headings have the anchors that GitHub makes, and links lead to the pages at `/docs/`.

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


_FOLDER = Path(__file__).parent
_STATIC = _FOLDER / "static"
_MOST_KEPT = 64
_MOST_NEAR = 4
_LONGEST_SHOWN = 100
_ERRORS = "errors"

_PLAIN = page_headers(script_src="'none'", connect_src="'none'", form_action="'none'")
_WITH_SCRIPTS = page_headers(form_action="'none'")
"""The headers of pages with scripts: only this server's scripts run, and none inside the page."""
_FRONT = page_headers(connect_src="'none'", form_action="'none'")


@dataclass(frozen=True, slots=True)
class MadePage:
    """A page or a picture, with the headers of its answer."""

    body: bytes = field(repr=False)
    headers: CIMultiDictProxy[str]
    status: int = 200


class Site:
    """The pages. `describe` makes the OpenAPI document of the server."""

    def __init__(self, library: Library, describe: Callable[[], Document], swagger_ui: Path = FOLDER) -> None:
        self._library = library
        self._describe = describe
        self._markdown = Markdown(library)
        self._problems = every_problem()
        self._swagger_ui = swagger_ui_files(swagger_ui)
        self.static_files = StaticFiles(f"{PAGES_PATH}/static", [STYLESHEET, *sorted(_STATIC.iterdir())])
        """The stylesheets and the script of the pages."""
        self._makers: Mapping[str, Callable[[], MadePage]] = {
            "": self._start,
            "api": self._api,
            "methods": self._methods,
            _ERRORS: self._errors,
            "try": self._try,
        }
        self._kept = lru_cache(maxsize=_MOST_KEPT)(self._made)

    @cached_property
    def tried_files(self) -> StaticFiles:
        """The files of Swagger UI, which are read when its page is asked for."""
        return StaticFiles(f"{PAGES_PATH}/try", self._swagger_ui)

    def page(self, path: str) -> MadePage:
        """The page of a path below `/docs/`. Of an unknown path it is a 404 that names similar ones."""
        name = path.removesuffix(".md").rstrip("/")
        if f"{name}/README" in self._library.pages:
            name = f"{name}/README"
        return self._kept(name) if self._has(name) else self._missing(path)

    def front(self, facts: Mapping[str, Any]) -> MadePage:
        """The page at the root, with the addresses of a visit."""
        return self._filled("front.html", NAME, None, facts, headers=_FRONT)

    def _has(self, name: str) -> bool:
        known: tuple[Mapping[str, object], ...] = (
            self._makers, self._library.pages, self._library.pictures,
        )  # fmt: skip
        return any(name in each for each in known) or self._problem(name) is not None

    def _problem(self, name: str) -> Problem | None:
        """The problem whose page has this name."""
        folder, _, code = name.rpartition("/")
        return self._problems.get(code) if folder == _ERRORS else None

    def _made(self, name: str) -> MadePage:
        if (maker := self._makers.get(name)) is not None:
            return maker()
        if (picture := self._library.pictures.get(name)) is not None:
            return _picture(picture)
        if (problem := self._problem(name)) is not None:
            return self._filled("problem.html", problem.title, _ERRORS, {"problem": problem})
        title = title_of(self._library.pages[name].read_text("utf-8"), name)
        return self._filled("markdown.html", title, name, {"text": self._markdown.page(name)})

    def _start(self) -> MadePage:
        others = sorted(name for name in self._library.pages if "/" in name)
        titled = [(name, title_of(self._library.pages[name].read_text("utf-8"), name)) for name in others]
        return self._filled("start.html", "Documentation", "", {"others": titled})

    def _api(self) -> MadePage:
        document = self._describe()
        webhooks, shapes = messages_of(document), shapes_of(document)
        fields = {"tags": tags_of(document), "webhooks": webhooks, "shapes": shapes}
        return self._filled("api.html", "Operations", "api", fields)

    def _methods(self) -> MadePage:
        return self._filled("methods.html", "Wallet methods", "methods", {"document": openrpc_document()})

    def _errors(self) -> MadePage:
        groups: dict[str, list[Problem]] = {}
        for problem in self._problems.values():
            groups.setdefault(problem.group, []).append(problem)
        fields = {"groups": groups, "codes": MEANING_OF_CODE}
        return self._filled("errors.html", "Errors", _ERRORS, fields)

    def _try(self) -> MadePage:
        title, files = "Try operations", self.tried_files.paths
        if not files:
            return self._filled("no_swagger_ui.html", title, "try", {})
        return self._filled("try.html", title, "try", {"files": files}, headers=_WITH_SCRIPTS)

    def _missing(self, path: str) -> MadePage:
        known = [*self._makers, *self._library.pages, *(f"{_ERRORS}/{code}" for code in self._problems)]
        near = near_words(path[:_LONGEST_SHOWN].lower(), filter(None, known), _MOST_NEAR)
        fields = {"asked": path[:_LONGEST_SHOWN], "near": near}
        return self._filled("missing.html", "No such page", None, fields, status=404)

    def _filled(
        self,
        template: str,
        title: str,
        name: str | None,
        fields: Mapping[str, Any],
        status: int = 200,
        headers: CIMultiDictProxy[str] = _PLAIN,
    ) -> MadePage:
        """The template with these fields. `name` is the page's own, for the navigation."""
        text = self._templates.get_template(template).render(title=title, name=name, **fields)
        return MadePage(text.encode(), headers, status)

    @cached_property
    def _templates(self) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(_FOLDER / "layout"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters.update(markdown=self._markdown.text, json=indented)
        environment.globals.update(
            root=PAGES_PATH,
            static=self.static_files.paths,
            guides=self._library.titles(),
            product=NAME,
            version=VERSION,
        )
        return environment


def _picture(path: Path) -> MadePage:
    headers = {
        "Content-Type": picture_type(path),
        "Cache-Control": "public, max-age=3600",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    return MadePage(path.read_bytes(), ready_made(headers))
