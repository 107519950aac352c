"""The address of a node, as a setting."""

from urllib.parse import urlsplit

from bridge_server.kernel.fields import http_url


def node_url(text: str) -> str:
    """Return the text if it is an http or https URL, with credentials or without; raise ValueError
    otherwise, with a reason that does not repeat it.
    """
    if urlsplit(text).scheme.lower() in ("ws", "wss"):
        raise ValueError("must be the node's http or https address: WebSocket is not spoken with it")
    return http_url(text)
