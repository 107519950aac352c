"""Facts of a pairing URI before the pairing: its generation, and a name for the terminal."""

import re

from bridge_server.client import BadPairingError, Generation, parse_pairing
from bridge_server.client.v2.uri import is_relay_pairing, parse_relay_pairing
from bridge_server.headless.sessions import SessionGeneration

_SHOWN_CHARACTERS = 4
_OTHER_VERSION = re.compile(r"(?:ethereum:wc-|wc:)[^@?]*@(?!1(?:\?|$))")
_V07_PATH = "/compat/v0.7"


def generation_of(uri: str, wanted: Generation | None = None) -> SessionGeneration:
    """The generation that the URI belongs to. Raises BadPairingError, which says what is wrong with it."""
    if is_relay_pairing(uri):
        parse_relay_pairing(uri)
        return "2.x"
    if _OTHER_VERSION.match(uri.strip()):
        raise BadPairingError(
            "The URI is of no known generation: one begins with ethereum:wc-...@1, wc:...@1 or wc:...@2."
        )
    pairing = parse_pairing(uri)
    if uri.strip().startswith("wc:") and wanted in (None, "1.x"):
        return "1.x"
    if wanted in ("1.x", "2.x"):
        raise BadPairingError(f"The URI is one of a session over HTTP, not of generation {wanted}.")
    return "0.7" if pairing.bridge_url.endswith(_V07_PATH) else "plain"


def topic_of(uri: str) -> str:
    """`wc:5a26…`, which tells sessions apart and gives no key away."""
    path = uri.strip().partition("@")[0]
    topic = path.partition(":")[2].removeprefix("wc-")
    return f"wc:{topic[:_SHOWN_CHARACTERS]}…"
