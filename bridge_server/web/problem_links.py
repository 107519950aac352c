"""The type of a problem, and the link to the page that explains it (RFC 9457, RFC 8288)."""

from aiohttp import web

TYPE_PREFIX = "urn:bridge-server:problem:"
"""Before the code, in the member `type` of a problem."""
PAGES_PATH = "/docs"
"""The path of the first page of the documentation."""
HELP_PATH = f"{PAGES_PATH}/errors"
"""The path of the pages about problems; each has a page by its code."""


HAS_PAGES = web.AppKey("has_pages", bool)
"""Whether an application has these pages. In others the link would lead nowhere: on the ports of the metrics
and of the console, on the listener for phones, in the control API of the headless wallet."""


def help_link(code: str) -> str:
    """The Link header field of a problem: the page about its code."""
    return f'<{HELP_PATH}/{code}>; rel="help"'
