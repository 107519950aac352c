"""The encryption of generation 2.x: ChaCha20-Poly1305 (RFC 8439) in a Base64 envelope.

    type 0:  00 | nonce (12 bytes) | ciphertext and tag                                both sides have the key
    type 1:  01 | sender's public key (32 bytes) | nonce | ciphertext and tag          the receiver derives it

There are no associated data. Source: `encrypt` and `decrypt` of the published @walletconnect/utils 2.25.
"""

import base64
import binascii
from hashlib import sha256
from secrets import token_bytes
from typing import Any

import orjson
from Crypto.Cipher import ChaCha20_Poly1305

from bridge_server.client.session.errors import BadPayloadError
from bridge_server.client.v2.keys import KEY_BYTES, KeyPair

_NONCE_BYTES = 12
_TAG_BYTES = 16
_TYPE_0 = b"\x00"
_TYPE_1 = b"\x01"


class TopicKey:
    """A symmetric key and its topic."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must be {KEY_BYTES} bytes, not {len(key)}")
        self.key = key
        self.topic = sha256(key).hexdigest()

    def seal(self, content: Any) -> str:
        """Encrypt a content, any JSON value, as an envelope of type 0. Raises TypeError."""
        return _encoded(_TYPE_0 + _encrypted(self.key, content))

    def open(self, envelope: object) -> Any:
        """Decrypt an envelope of type 0; returns its content. Raises BadPayloadError."""
        kind, rest = _decoded(envelope)
        if kind != _TYPE_0:
            raise BadPayloadError(f"The envelope is of type {kind.hex()}, and this topic takes type 00.")
        return _decrypted(self.key, rest)


class OwnResponses:
    """The topic of the responses that anybody may seal for a public key; its owner opens them."""

    def __init__(self, own: KeyPair) -> None:
        self._own = own
        self.topic = response_topic(own.public)

    def open(self, envelope: object) -> Any:
        """Decrypt an envelope of type 1; returns its content. Raises BadPayloadError."""
        return open_from_sender(self._own, envelope)[1]


class PeerResponses:
    """The topic of the responses to another side's public key."""

    def __init__(self, own: KeyPair, peer_public: bytes) -> None:
        self._own, self._peer_public = own, peer_public
        self.topic = response_topic(peer_public)

    def seal(self, content: Any) -> str:
        """Encrypt a content as an envelope of type 1. Raises TypeError, BadPayloadError."""
        return seal_from(self._own, self._peer_public, content)


def response_topic(public: bytes) -> str:
    """The topic of the responses to a public key."""
    return sha256(public).hexdigest()


def seal_from(sender: KeyPair, receiver_public: bytes, content: Any) -> str:
    """Encrypt a content as an envelope of type 1. Raises TypeError, BadPayloadError."""
    key = sender.symmetric_key(receiver_public)
    return _encoded(_TYPE_1 + sender.public + _encrypted(key, content))


def open_from_sender(receiver: KeyPair, envelope: object) -> tuple[bytes, Any]:
    """Decrypt an envelope of type 1; returns the sender's public key and the content.

    Raises BadPayloadError.
    """
    kind, rest = _decoded(envelope)
    if kind != _TYPE_1 or len(rest) < KEY_BYTES:
        raise BadPayloadError("The envelope is not of type 01, which names its sender's public key.")
    sender_public = rest[:KEY_BYTES]
    return sender_public, _decrypted(receiver.symmetric_key(sender_public), rest[KEY_BYTES:])


def _encrypted(key: bytes, content: Any) -> bytes:
    nonce = token_bytes(_NONCE_BYTES)
    ciphertext, tag = ChaCha20_Poly1305.new(key=key, nonce=nonce).encrypt_and_digest(orjson.dumps(content))
    return nonce + ciphertext + tag


def _decrypted(key: bytes, sealed: bytes) -> Any:
    nonce, ciphertext, tag = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:-_TAG_BYTES], sealed[-_TAG_BYTES:]
    if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
        raise BadPayloadError("The envelope is too short to hold a nonce and a tag.")
    try:
        text = ChaCha20_Poly1305.new(key=key, nonce=nonce).decrypt_and_verify(ciphertext, tag)
    except ValueError as error:
        raise BadPayloadError("The envelope was sealed with another key, or touched on its way.") from error
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadPayloadError("The envelope holds something else than JSON.") from error


def _encoded(envelope: bytes) -> str:
    return base64.b64encode(envelope).decode()


def _decoded(envelope: object) -> tuple[bytes, bytes]:
    """The type of an envelope, and its other bytes."""
    if not isinstance(envelope, str):
        raise BadPayloadError("An envelope must be a string.")
    try:
        raw = base64.b64decode(envelope, validate=True)
    except (binascii.Error, ValueError):
        raise BadPayloadError("An envelope must be Base64, with its padding.") from None
    return raw[:1], raw[1:]
