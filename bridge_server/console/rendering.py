"""Templates become answers. Whatever a field holds is shown as text, its unseen characters made visible."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from bridge_server.console.words import count_of, duration_of, moment_of, seen, seen_lines
from bridge_server.web.page_headers import page_headers
from bridge_server.web.whole_answer import WholeAnswer

_FOLDER = Path(__file__).parent
HEADERS = page_headers()
"""The headers of every page: it runs this server's scripts alone, in no frame, and stays in no cache."""


class Rendering:
    """The templates in the folders of the pages, and in `layout`."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters.update(
            count=_count, duration=duration_of, exact=escape, lines=_lines, moment=moment_of
        )
        self._templates.globals.update(constants)

    def page(self, template: str, fields: Mapping[str, Any], status: int = 200) -> web.Response:
        """The template with these fields."""
        text = self._templates.get_template(template).render(fields)
        return WholeAnswer(body=text.encode(), status=status, headers=HEADERS)


def _count(number: int) -> Markup:
    """A number whose thousands are kept apart by spaces, which are no text of a stranger."""
    return escape(count_of(number))


def _lines(text: str) -> Markup:
    """A text of several lines with its unseen characters made visible."""
    return escape(seen_lines(text))


def _shown(value: Any) -> Any:
    """The output of an expression: texts with unseen characters made visible, and markup as it is.

    The fields of forms are filled with `|exact`, so that a form that is sent unchanged changes nothing.
    """
    if value is None:
        return ""
    return seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value
