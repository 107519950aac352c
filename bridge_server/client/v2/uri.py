"""The pairing URI of generation 2.x.

    wc:{topic}@2?relay-protocol=irn&symKey={key}&expiryTimestamp={seconds}[&methods={names}]

It names no relay: both sides must know the relay's URL. Source: `parseUri` and `formatUri` of the published
@walletconnect/utils 2.25.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from bridge_server.client.session.errors import BadPairingError
from bridge_server.client.v2.envelope import TopicKey
from bridge_server.client.v2.keys import KEY_BYTES

_RELAY_PROTOCOL = "irn"
_KEY = re.compile(rf"[0-9A-Fa-f]{{{2 * KEY_BYTES}}}")
_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class RelayPairing:
    """The pairing of generation 2.x: a symmetric key, and its expiry in seconds since the epoch.

    `methods` are the methods that the dapp will ask on the pairing, such as `wc_sessionPropose`; empty when
    the URI names none. Raises BadPairingError.
    """

    key: bytes = field(repr=False)
    expires_s: int | None = None
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise BadPairingError(f"The key must be {KEY_BYTES} bytes, not {len(self.key)}.")

    @property
    def topic_key(self) -> TopicKey:
        """The key with its topic."""
        return TopicKey(self.key)

    @property
    def uri(self) -> str:
        """The pairing URI, which is a secret: its reader can act as the wallet."""
        parameters = {"relay-protocol": _RELAY_PROTOCOL, "symKey": self.key.hex()}
        if self.expires_s is not None:
            parameters["expiryTimestamp"] = str(self.expires_s)
        if self.methods:
            parameters["methods"] = ",".join(self.methods)
        return f"wc:{self.topic_key.topic}@2?{urlencode(parameters)}"


def is_relay_pairing(uri: str) -> bool:
    """Whether the URI has the version of generation 2.x."""
    return uri.strip().startswith("wc:") and uri.partition("?")[0].strip().endswith("@2")


def parse_relay_pairing(uri: str) -> RelayPairing:
    """Read a pairing URI; unknown parameters are ignored. Raises BadPairingError."""
    path, _, query = uri.strip().partition("?")
    if not is_relay_pairing(uri):
        raise BadPairingError("A pairing URI of generation 2.x begins with wc:, a topic and @2.")
    parameters = _parameters(query)
    if parameters.get("relay-protocol") != _RELAY_PROTOCOL:
        raise BadPairingError(f"The parameter relay-protocol must be {_RELAY_PROTOCOL}: no other is known.")
    key = parameters.get("symKey", "")
    if not _KEY.fullmatch(key):
        raise BadPairingError(f"The parameter symKey must be {2 * KEY_BYTES} hexadecimal digits.")
    methods = tuple(filter(None, parameters.get("methods", "").split(",")))
    pairing = RelayPairing(bytes.fromhex(key), _seconds(parameters.get("expiryTimestamp")), methods)
    if pairing.topic_key.topic != path.removeprefix("wc:").removesuffix("@2").lower():
        raise BadPairingError(
            "The topic must be the SHA-256 of symKey: part of the URI is missing or changed."
        )
    return pairing


def _parameters(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise BadPairingError("The URI has a parameter twice.")
    return parameters


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    if not _SECONDS.fullmatch(text):
        raise BadPairingError("The parameter expiryTimestamp must be a time in seconds.")
    return int(text)
