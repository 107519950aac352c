"""The page `/inbox/`, where an account reads its notifications, and the web component that pages embed."""

import base64
import hashlib
import re
from pathlib import Path
from string import Template

from aiohttp import web

from bridge_server.inbox.widget_file import widget_script
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.web.answers import ready_made
from bridge_server.web.page_headers import page_headers
from bridge_server.web.whole_answer import WholeAnswer

_TEMPLATE = Template((Path(__file__).parent / "page.html").read_text("utf-8"))
_STYLE = (
    ":root { color-scheme: light dark; } "
    "body { margin: 0; background: #f6f6f8; color: #1b1c22; font: 15px/1.5 system-ui, sans-serif; } "
    "main { max-width: 44rem; margin: 0 auto; padding: 1rem; } "
    "h1 { font-size: 1.25rem; margin: 0 0 1rem; } "
    "@media (prefers-color-scheme: dark) { body { background: #14151a; color: #e8e9ef; } }"
)
_PROJECT = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_DIGITS = 32


class InboxPage:
    """Answers the page and the script; both are made once."""

    def __init__(self) -> None:
        self._script = widget_script()
        self._etag = hashlib.sha256(self._script).hexdigest()[:_DIGITS]
        self._script_headers = ready_made(
            {
                "Content-Type": "text/javascript; charset=utf-8",
                "Cache-Control": "public, max-age=3600",
                "ETag": f'"{self._etag}"',
                "X-Content-Type-Options": "nosniff",
                "Cross-Origin-Resource-Policy": "cross-origin",  # the script of pages of other origins
            }
        )
        style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
        self._page_headers = page_headers(
            style_src=f"'sha256-{style}'", img_src="data:", form_action="'none'"
        )

    async def script(self, request: web.Request) -> web.StreamResponse:
        """The web component; 304 for a browser that has it."""
        known = request.if_none_match or ()
        if any(tag.value in (self._etag, "*") for tag in known):
            return web.Response(status=304, headers=self._script_headers)
        return WholeAnswer(body=self._script, headers=self._script_headers)

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The inbox of one project with `?project=`, else of all projects."""
        project = request.query.get("project")
        if project and not _PROJECT.fullmatch(project):
            fault = Fault("#/project", "must be the id of a project: a-z, 0-9 and hyphens")
            raise InvalidInputError("The query has parameters that cannot be read.", [fault])
        attribute = f' project="{project}"' if project else ""
        body = _TEMPLATE.substitute(style=_STYLE, project=attribute).encode()
        return WholeAnswer(body=body, headers=self._page_headers)
