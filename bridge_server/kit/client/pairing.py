"""The pairing of a dapp and a wallet: its URI (ERC-1328) in both forms, and the encryption with its key.

    ethereum:wc-{session id}@1?name={dapp}&bridge={url}&symKey={key in Base64}     clients of generation 0.7
    wc:{session id}@1?bridge={url}&key={key in hexadecimal}                        later clients

The published parser of the first form (eth-parse-uri) decodes the whole URI before it splits it, and then
each value again. So the characters `&`, `%` and line breaks in a value are percent-encoded twice, and values
are decoded twice.
"""

import base64
import binascii
import hmac
import re
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import orjson
from Crypto.Cipher import AES
from Crypto.Util.Padding import pad, unpad

from bridge_server.kernel.fields import http_url
from bridge_server.kit.client.errors import BadPairingError, BadPayloadError
from bridge_server.kit.client.payloads import read_object

KEY_BYTES = 32
NAME_MAX_CHARACTERS = 255

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_HEX_KEY = re.compile(rf"[0-9A-Fa-f]{{{2 * KEY_BYTES}}}")
_DECODED_TOO_SOON = re.compile(r"[%&\n\r\u2028\u2029]")
_LEFT_ALONE = "!'()*"  # JavaScript's encodeURIComponent leaves them as they are; quote does not
_BLOCK_BYTES = 16
_PARTS = {
    "data": re.compile(r"(?:[0-9A-Fa-f]{32})+"),
    "hmac": re.compile(r"[0-9A-Fa-f]{64}"),
    "iv": re.compile(r"[0-9A-Fa-f]{32}"),
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """The shared data of both sides of a session. It is a secret: anybody who has it can take part.

    `bridge_url` is an absolute http or https URL, `key` has 32 bytes, `name` is the dapp's name (None or not
    empty). Raises BadPairingError.
    """

    bridge_url: str
    session_id: str
    key: bytes = field(repr=False)
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bridge_url", sound_bridge_url(self.bridge_url))
        if not _SESSION_ID.fullmatch(self.session_id):
            raise BadPairingError("The session id must be 1 to 128 letters, digits, hyphens and underscores.")
        if len(self.key) != KEY_BYTES:
            raise BadPairingError(f"The key must be {KEY_BYTES} bytes, not {len(self.key)}.")
        if self.name is not None:
            sound_name(self.name)

    @property
    def uri(self) -> str:
        """The URI in the form of generation 0.7. Raises BadPairingError if there is no name."""
        if self.name is None:
            raise BadPairingError("The ethereum:wc- URI must have the dapp's name, and there is none.")
        key = base64.b64encode(self.key).decode()
        path = f"ethereum:wc-{self.session_id}@1"
        return f"{path}?name={_written(self.name)}&bridge={_written(self.bridge_url)}&symKey={key}"

    @property
    def wc_uri(self) -> str:
        """The URI in the later form, which has no name."""
        return f"wc:{self.session_id}@1?bridge={_written(self.bridge_url)}&key={self.key.hex()}"


def parse_pairing(uri: str) -> Pairing:
    """Read a URI in either form; unknown parameters are ignored. Raises BadPairingError."""
    path, _, query = uri.strip().partition("?")
    scheme, _, rest = path.partition(":")
    if scheme == "ethereum" and rest.startswith("wc-"):
        parameters = _parameters(query, "name", "bridge", "symKey")
        session_id, key = _session_id(rest.removeprefix("wc-")), _base64_key(parameters["symKey"])
        return Pairing(_read(parameters["bridge"]), session_id, key, _read(parameters["name"]))
    if scheme == "wc":
        parameters = _parameters(query, "bridge", "key")
        session_id, key_text = _session_id(rest), parameters["key"]
        if not _HEX_KEY.fullmatch(key_text):
            raise BadPairingError(f"The parameter key must be {2 * KEY_BYTES} hexadecimal digits.")
        return Pairing(_read(parameters["bridge"]), session_id, bytes.fromhex(key_text))
    raise BadPairingError("A pairing URI begins with ethereum:wc- or with wc: (ERC-1328).")


def sound_bridge_url(url: str) -> str:
    """Check the URL of a bridge; returns it without a trailing slash. Raises BadPairingError."""
    try:
        parts = urlsplit(http_url(url))
    except ValueError as error:
        raise BadPairingError(f"The bridge's URL {error}.") from error
    if parts.query or parts.fragment or parts.username is not None or url[-1] in "?#":
        raise BadPairingError("The bridge's URL may have a path, but no user, query or fragment.")
    return url.rstrip("/")


def sound_name(name: str) -> str:
    """Check that every bridge accepts the dapp's name; returns it. Raises BadPairingError."""
    if not 1 <= len(name) <= NAME_MAX_CHARACTERS:
        raise BadPairingError(f"The dapp's name must have 1 to {NAME_MAX_CHARACTERS} characters.")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadPairingError("The dapp's name holds half of a surrogate pair.") from None
    return name


def _session_id(text: str) -> str:
    session_id, _, version = text.partition("@")
    if version != "1":
        raise BadPairingError("The session id is followed by @1: this client speaks version 1, and no other.")
    return session_id


def _parameters(query: str, *wanted: str) -> dict[str, str]:
    """The wanted parameters, still percent-encoded. Raises BadPairingError."""
    pairs = [pair.partition("=")[::2] for pair in query.split("&")]
    for name in wanted:
        values = [value for found, value in pairs if found == name]
        if len(values) != 1 or not values[0]:
            raise BadPairingError(f"The URI must have the parameter {name} once, and not empty.")
    return {name: value for name, value in pairs if name in wanted}


def _base64_key(text: str) -> bytes:
    try:
        return base64.b64decode(unquote(text), validate=True)
    except (binascii.Error, ValueError):
        raise BadPairingError("The parameter symKey must be Base64, with its padding.") from None


def _written(value: str) -> str:
    return quote(_DECODED_TOO_SOON.sub(lambda found: quote(found[0]), value), safe=_LEFT_ALONE)


def _read(text: str) -> str:
    return unquote(unquote(text))


# The end-to-end encryption between a dapp and a wallet.
#
# Source: `encrypt` and `decrypt` of the published js-walletconnect-core 0.7.28. AES-256-CBC over the JSON
# text `{"data": content}`, then HMAC-SHA256 with the same key over the *hexadecimal text* of ciphertext and
# IV.


class Cipher:
    """Encrypts and decrypts payloads with the key of one session."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must be {KEY_BYTES} bytes, not {len(key)}")
        self._key = key

    def seal(self, content: Any) -> dict[str, str]:
        """Encrypt a content, any JSON value, as an `encryptionPayload`. Raises TypeError."""
        iv = token_bytes(_BLOCK_BYTES)
        padded = pad(self._text(content), _BLOCK_BYTES)
        data = AES.new(self._key, AES.MODE_CBC, iv).encrypt(padded).hex()
        mac = hmac.digest(self._key, self._authenticated(data, iv), sha256)
        return {"data": data, "hmac": mac.hex(), "iv": iv.hex()}

    def open(self, payload: object) -> Any:
        """Decrypt an `encryptionPayload`; returns its content. Raises BadPayloadError."""
        data, mac, iv = _parts(payload)
        if not hmac.compare_digest(hmac.digest(self._key, self._authenticated(data, iv), sha256), mac):
            raise BadPayloadError("The payload was sealed with another key, or touched on its way.")
        padded = AES.new(self._key, AES.MODE_CBC, iv).decrypt(bytes.fromhex(data))
        try:
            return self._content(unpad(padded, _BLOCK_BYTES))
        except (ValueError, TypeError, KeyError) as error:
            raise BadPayloadError("The payload holds something else than this generation puts in.") from error

    def _text(self, content: Any) -> bytes:
        return orjson.dumps({"data": content})

    def _content(self, text: bytes) -> Any:
        return orjson.loads(text)["data"]

    def _authenticated(self, data: str, iv: bytes) -> bytes:
        return (data + iv.hex()).encode()


def _parts(payload: object) -> tuple[str, bytes, bytes]:
    """The ciphertext in hexadecimal, the HMAC and the IV of a payload, an object or its JSON text."""
    fields = read_object(payload) if isinstance(payload, str) else payload
    parts = fields if isinstance(fields, dict) else {}
    for name, form in _PARTS.items():
        part = parts.get(name)
        if not isinstance(part, str) or not form.fullmatch(part):
            raise BadPayloadError(f"The payload is not {{data, hmac, iv}} in hexadecimal: see its {name}.")
    return parts["data"], bytes.fromhex(parts["hmac"]), bytes.fromhex(parts["iv"])
