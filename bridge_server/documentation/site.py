"""Every page at `/docs/`, rendered when it is first asked for. Works in any thread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from multidict import CIMultiDictProxy

from bridge_server.console.static_folder import STYLESHEET
from bridge_server.documentation.library import Library, picture_type, title_of
from bridge_server.documentation.markdown import Markdown
from bridge_server.documentation.operations import Document, indented, messages_of, shapes_of, tags_of
from bridge_server.documentation.problems import Problem, every_problem
from bridge_server.documentation.swagger_ui import FOLDER, swagger_ui_files
from bridge_server.kernel.near_words import near_words
from bridge_server.version import NAME, VERSION
from bridge_server.wallet.rpc.openrpc import MEANING_OF_CODE, openrpc_document
from bridge_server.web.answers import ready_made
from bridge_server.web.page_headers import page_headers
from bridge_server.web.problem_links import PAGES_PATH
from bridge_server.web.static_files import StaticFiles

_FOLDER = Path(__file__).parent
_STATIC = _FOLDER / "static"
_MOST_KEPT = 64
_MOST_NEAR = 4
_LONGEST_SHOWN = 100
_ERRORS = "errors"

_PLAIN = page_headers(script_src="'none'", connect_src="'none'", form_action="'none'")
_WITH_SWAGGER_UI = page_headers(form_action="'none'")
"""The headers of the one page with scripts: only this server's scripts run, and none inside the page."""


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
        return self._filled("try.html", title, "try", {"files": files}, headers=_WITH_SWAGGER_UI)

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
