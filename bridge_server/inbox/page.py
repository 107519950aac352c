"""The page `/inbox/`, where an account reads its notifications, and the web component that pages embed."""

import base64
import hashlib
import re
from functools import cached_property
from pathlib import Path
from string import Template

from aiohttp import web
from multidict import CIMultiDictProxy

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.projects.models import PROJECT_ID_PATTERN
from bridge_server.web.answers import WholeAnswer, page_headers, ready_made

_PAGE = Path(__file__).parent / "page.html"
_STYLE = (
    ":root { color-scheme: light dark; } "
    "body { margin: 0; background: #f6f6f8; color: #1b1c22; font: 15px/1.5 system-ui, sans-serif; } "
    "main { max-width: 44rem; margin: 0 auto; padding: 1rem; } "
    "h1 { font-size: 1.25rem; margin: 0 0 1rem; } "
    "@media (prefers-color-scheme: dark) { body { background: #14151a; color: #e8e9ef; } }"
)
_PROJECT = re.compile(PROJECT_ID_PATTERN, re.ASCII)
_ETAG_DIGITS = 32

_FOLDER = Path(__file__).parent / "widget"
_IMPORT = re.compile(r"^import \{[^}]*\} from '\./(\w+)\.js'\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|class|function|async)", re.MULTILINE)
_ENTRY = "component"
_HEADER = (
    "// Bridge Server's inbox for web pages, <bridge-inbox>: docs/notify.md. Joined from several modules.\n"
)


class InboxPage:
    """Answers the page and the script. On the page the first development account may be offered."""

    def __init__(self, offers_development: bool) -> None:
        self._mode = " development" if offers_development else ""

    async def script(self, request: web.Request) -> web.StreamResponse:
        """An ES module without dependencies, which web pages of configured origins may load."""
        content, etag, headers = self._script
        if any(tag.value in (etag, "*") for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return WholeAnswer(body=content, headers=headers)

    async def page(self, request: web.Request) -> web.StreamResponse:
        """A page that shows an account its notifications, of one project or of all."""
        project = request.query.get("project")
        if project and not _PROJECT.fullmatch(project):
            fault = Fault("#/project", "must be the id of a project: a-z, 0-9 and hyphens")
            raise InvalidInputError("The query has parameters that cannot be read.", [fault])
        attribute = f' project="{project}"' if project else ""
        body = self._template.substitute(style=_STYLE, attributes=self._mode + attribute).encode()
        return WholeAnswer(body=body, headers=self._page_headers)

    @cached_property
    def _script(self) -> tuple[bytes, str, CIMultiDictProxy[str]]:
        """The script, its ETag, and the headers of its answer."""
        body = widget_script()
        etag = hashlib.sha256(body).hexdigest()[:_ETAG_DIGITS]
        headers = {
            "Content-Type": "text/javascript; charset=utf-8",
            "Cache-Control": "public, max-age=3600",
            "ETag": f'"{etag}"',
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "cross-origin",  # pages of other origins load the script
        }
        return body, etag, ready_made(headers)

    @cached_property
    def _template(self) -> Template:
        return Template(_PAGE.read_text("utf-8"))

    @cached_property
    def _page_headers(self) -> CIMultiDictProxy[str]:
        style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
        return page_headers(style_src=f"'sha256-{style}'", img_src="data:", form_action="'none'")


def widget_script() -> bytes:
    """The web component as one file: the modules of the folder `widget`, which share one scope."""
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
