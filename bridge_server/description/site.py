"""Every page at `/docs/`: the files of `docs/` and the pages made of operations, methods and problems."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from multidict import CIMultiDictProxy

from bridge_server.description.markdown import MADE, PICTURE_TYPES, Library, Markdown, anchor_of
from bridge_server.kernel.fields import near_words
from bridge_server.kernel.values import dataclass
from bridge_server.kernel.version import NAME, VERSION
from bridge_server.wallet.rpc.openrpc import MEANING_OF_CODE, openrpc_document
from bridge_server.web.answers import STYLESHEET, StaticFiles, page_headers, ready_made
from bridge_server.web.connection import PAGES_PATH, TYPE_PREFIX

# The operations of an OpenAPI document, as the page about them shows them.

Document: TypeAlias = Mapping[str, Any]

_FOLDER = Path(__file__).parent
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
class ShownOperation:
    """A method of a path, or a message to a webhook."""

    anchor: str
    heading: str
    summary: str
    text: str
    tokens: Sequence[str]
    parameters: Sequence[Document]
    shapes: Sequence[str]
    example: str
    answers: Sequence[ShownAnswer]


_WEBHOOKS = "Messages that this server sends, each as a POST to the URL of a webhook."


@dataclass(frozen=True, slots=True)
class Tag:
    """Operations that belong together, and have a page."""

    name: str
    text: str
    operations: Sequence[ShownOperation]

    def shapes(self, document: Document) -> dict[str, str]:
        """The JSON Schema of each shape that these operations name, by name, with the shapes in it."""
        schemas: Document = document.get("components", {}).get("schemas", {})
        waiting: list[str] = []
        for operation in self.operations:
            waiting += [*operation.shapes, *(name for each in operation.answers for name in each.shapes)]
        found: dict[str, str] = {}
        while waiting:
            name = waiting.pop(0)
            if name not in found:
                found[name] = indented(schemas[name])
                waiting += _shape_names(schemas[name])
        return found


def tags_of(document: Document) -> list[Tag]:
    """All operations by tag, in the order of the document, and what is sent to webhooks."""
    by_tag: dict[str, list[ShownOperation]] = {tag["name"]: [] for tag in document.get("tags", ())}
    for path, methods in document.get("paths", {}).items():
        for method in (name for name in _METHODS if name in methods):
            fields = methods[method]
            tag = next(iter(fields.get("tags", ())), "Others")
            heading = f"{method.upper()} {path}"
            anchor = fields.get("operationId", f"{method}-{path}")
            by_tag.setdefault(tag, []).append(_operation(anchor, heading, fields, document))
    texts = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    messages = [
        _operation(fields.get("operationId", name), name, fields, document)
        for name, methods in document.get("webhooks", {}).items()
        for fields in methods.values()
    ]
    tags = [Tag(name, texts.get(name, ""), each) for name, each in by_tag.items()]
    return [tag for tag in (*tags, Tag("Webhooks", _WEBHOOKS, messages)) if tag.operations]


def indented(value: Any) -> str:
    """A JSON value for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _operation(anchor: str, heading: str, fields: Document, document: Document) -> ShownOperation:
    body: Document = next(iter(fields.get("requestBody", {}).get("content", {}).values()), {})
    return ShownOperation(
        anchor=anchor,
        heading=heading,
        summary=fields.get("summary", ""),
        text=fields.get("description", ""),
        tokens=[name for each in fields.get("security", ()) for name in each],
        parameters=[_resolved(parameter, document) for parameter in fields.get("parameters", ())],
        shapes=_shape_names(body.get("schema", {})),
        example=_example(body),
        answers=[_answer(status, each, document) for status, each in fields["responses"].items()],
    )


def _answer(status: str, fields: Document, document: Document) -> ShownAnswer:
    found = _resolved(fields, document)
    content: Document = next(iter(found.get("content", {}).values()), {})
    codes = _codes(fields, content.get("schema", {}))
    shapes = [] if codes else _shape_names(content.get("schema", {}))
    return ShownAnswer(status, found.get("description", ""), shapes, _example(content), codes)


def _codes(response: Document, schema: Document) -> list[str]:
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
    for name in reference.removeprefix("#/").split("/"):
        document = document[name]
    return document


def _example(content: Document) -> str:
    if "example" in content:
        return indented(content["example"])
    examples = [each["value"] for each in content.get("examples", {}).values()]
    return indented(examples[0]) if examples else ""


def _shape_names(schema: Any) -> list[str]:
    return list(dict.fromkeys(_references(schema)))


def _references(schema: Any) -> Iterator[str]:
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
    written = tomllib.loads((_FOLDER / "problems.toml").read_text("utf-8"))
    return {code: Problem(code=code, **fields) for code, fields in written.items()}


# swagger-ui-dist, with which a reader tries operations in the browser. It is on npm alone: `scripts/build`
# and, where npm is there, `scripts/serve` put it with its licence beside this module.

FOLDER = _FOLDER / "swagger"
_NAMES = ("swagger-ui.css", "swagger-ui-bundle.js")


def swagger_ui_files(folder: Path) -> list[Path]:
    """The stylesheet and the script; none if one is missing."""
    files = [folder / name for name in _NAMES]
    return files if all(file.is_file() for file in files) else []


# The pages.

_MOST_KEPT = 64
_MOST_NEAR = 4
_LONGEST_SHOWN = 100
_ERRORS = "errors"
_API = "api"
_LISTED_LEVEL = 2
"""Of the headings that the table of contents lists."""
_LEADS = {
    "api": "Every HTTP endpoint with an example.",
    "methods": "JSON-RPC at POST /rpc: parameters, results, errors.",
    "errors": "Every problem by its code, with cause and cure.",
    "try": "Send requests to this server from the page.",
    "reference": "Every route, setting, limit, error code, metric and command.",
}
"""What a line says of pages without a first sentence."""

_HEADERS = page_headers(form_action="'none'")
"""Only this server's scripts run, and none inside the page."""
_INDEX_HEADERS = ready_made(
    {"Content-Type": "application/json", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
)


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
        files = [STYLESHEET, *sorted((_FOLDER / "static").iterdir())]
        self.static_files = StaticFiles(f"{PAGES_PATH}/static", files)
        """The stylesheets and the script of the pages."""
        self._makers: Mapping[str, Callable[[], MadePage]] = {
            "": self._start,
            _API: lambda: self._filled("api.html", MADE[_API], _API, {"tags": self._tags}),
            "search.json": self._search,
            "methods": lambda: self._filled(
                "methods.html", MADE["methods"], "methods", {"document": openrpc_document()}
            ),
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
        return self._missing(path) if self._maker(name) is None else self._kept(name)

    def front(self, facts: Mapping[str, Any]) -> MadePage:
        """The page at the root, with the addresses of a visit."""
        return self._filled("front.html", NAME, "", facts)

    def _maker(self, name: str) -> Callable[[], MadePage] | None:
        folder, _, code = name.rpartition("/")
        if (maker := self._makers.get(name)) is not None:
            return maker
        if (picture := self._library.pictures.get(name)) is not None:
            return partial(_picture, picture)
        if folder == _ERRORS and (problem := self._problems.get(code)) is not None:
            return partial(self._filled, "problem.html", problem.title, name, {"problem": problem})
        if folder == _API and (tag := self._tags.get(name)) is not None:
            return partial(self._operations, tag, name)
        return partial(self._guide, name) if name in self._library.pages else None

    @cached_property
    def _document(self) -> Document:
        return self._describe()

    @cached_property
    def _tags(self) -> Mapping[str, Tag]:
        return {f"{_API}/{anchor_of(tag.name)}": tag for tag in tags_of(self._document)}

    @cached_property
    def _order(self) -> Sequence[tuple[str, str]]:
        """Name and title of every page that another follows."""
        order = [page for pages in self._library.doors().values() for page in pages]
        after_api = [name for name, _ in order].index(_API) + 1
        order[after_api:after_api] = [(page, tag.name) for page, tag in self._tags.items()]
        return order

    def _made(self, name: str) -> MadePage:
        maker = self._maker(name)
        assert maker is not None, "only pages that exist are kept"
        return maker()

    def _operations(self, tag: Tag, name: str) -> MadePage:
        return self._filled("tag.html", tag.name, name, {"tag": tag, "shapes": tag.shapes(self._document)})

    def _guide(self, name: str) -> MadePage:
        page = self._markdown.page(name)
        contents = [each for each in page.sections if each.level == _LISTED_LEVEL]
        fields = {"text": page.text, "contents": contents}
        return self._filled("markdown.html", self._library.title(name), name, fields)

    def _start(self) -> MadePage:
        leads = {name: self._markdown.page(name).lead for name in self._library.pages}
        return self._filled("start.html", "Documentation", "", {"leads": leads | _LEADS})

    def _errors(self) -> MadePage:
        groups: dict[str, list[Problem]] = {}
        for problem in self._problems.values():
            groups.setdefault(problem.group, []).append(problem)
        fields = {"groups": groups, "codes": MEANING_OF_CODE}
        return self._filled("errors.html", MADE[_ERRORS], _ERRORS, fields)

    def _try(self) -> MadePage:
        files = self.tried_files.paths
        template = "try.html" if files else "no_swagger_ui.html"
        return self._filled(template, MADE["try"], "try", {"files": files})

    def _search(self) -> MadePage:
        """Every heading of every page, for the search in the browser: path, page, heading, words."""
        rows = [
            (f"{PAGES_PATH}/{name}#{each.anchor}", self._library.title(name), each.heading, each.words)
            for name in self._library.pages
            for each in self._markdown.page(name).sections
        ]
        rows += (
            (f"{PAGES_PATH}/{name}#{each.anchor}", tag.name, each.heading, f"{each.summary} {each.text}")
            for name, tag in self._tags.items()
            for each in tag.operations
        )
        rows += (
            (f"{PAGES_PATH}/methods#{each['name']}", MADE["methods"], each["name"], each["summary"])
            for each in openrpc_document()["methods"]
        )
        place = f"{PAGES_PATH}/{_ERRORS}"
        rows += (
            (f"{place}/{code}", MADE[_ERRORS], code, f"{each.title}. {each.meaning} {each.cause}")
            for code, each in self._problems.items()
        )
        return MadePage(json.dumps(rows, ensure_ascii=False).encode(), _INDEX_HEADERS)

    def _missing(self, path: str) -> MadePage:
        known = {
            *(name for name, _ in self._order), *self._library.pages,
            *(f"{_ERRORS}/{code}" for code in self._problems),
        }  # fmt: skip
        near = near_words(path[:_LONGEST_SHOWN].lower(), known, _MOST_NEAR)
        fields = {"asked": path[:_LONGEST_SHOWN], "near": near}
        return self._filled("missing.html", "No such page", "", fields, status=404)

    def _filled(
        self, template: str, title: str, name: str, fields: Mapping[str, Any], status: int = 200
    ) -> MadePage:
        """The template with these fields. `name` is the page's own, for the navigation."""
        places = [place for place, _ in self._order]
        at = places.index(name) if name in places else None
        around = {
            "previous": self._order[at - 1] if at else None,
            "next": self._order[at + 1] if at is not None and at + 1 < len(places) else None,
            "current": name if name in self._shown else name.partition("/")[0],
        }
        text = self._templates.get_template(template).render(title=title, **around, **fields)
        return MadePage(text.encode(), _HEADERS, status)

    @cached_property
    def _shown(self) -> set[str]:
        return {name for pages in self._library.doors().values() for name, _ in pages}

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
            doors=self._library.doors(),
            product=NAME,
            version=VERSION,
        )
        return environment


def _picture(path: Path) -> MadePage:
    headers = {
        "Content-Type": PICTURE_TYPES[path.suffix],
        "Cache-Control": "public, max-age=3600",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    return MadePage(path.read_bytes(), ready_made(headers))
