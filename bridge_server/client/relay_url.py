"""The URL of a relay of generation 2.x."""

from bridge_server.client.session.errors import BadPairingError
from bridge_server.client.session.pairing import sound_bridge_url

_SPELLINGS = {"wss://": "https://", "ws://": "http://"}


def sound_relay_url(url: str) -> str:
    """The URL without a slash at its end: ws, wss, http or https. Raises BadPairingError."""
    for socket, web in _SPELLINGS.items():
        if url.startswith(socket):
            return socket + sound_bridge_url(url.replace(socket, web, 1)).removeprefix(web)
    return sound_bridge_url(url)


def required_relay_url(url: str | None) -> str:
    """The URL, which a pairing URI of generation 2.x does not have. Raises BadPairingError without one."""
    if url is None:
        raise BadPairingError("A pairing URI of generation 2.x names no relay: give relay_url.")
    return sound_relay_url(url)
