"""The type of a problem, and the link to the page that explains it (RFC 9457, RFC 8288)."""

TYPE_PREFIX = "urn:bridge-server:problem:"
"""Before the code, in the member `type` of a problem."""
HELP_PATH = "/docs/errors"
"""The path of the pages about problems; each has a page by its code."""


def help_link(code: str) -> str:
    """The Link header field of a problem: the page about its code."""
    return f'<{HELP_PATH}/{code}>; rel="help"'
