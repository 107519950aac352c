"""The sign protocol of generation 2.x: keys, envelopes, pairing URI, methods, namespaces, one-click."""

import base64
import binascii
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_bytes
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson
from Crypto.Cipher import ChaCha20_Poly1305
from Crypto.Hash import SHA256
from Crypto.Protocol.DH import import_x25519_private_key, import_x25519_public_key, key_agreement
from Crypto.Protocol.KDF import HKDF
from Crypto.PublicKey import ECC

from bridge_server.kit.client.authentication import (
    SESSION_EVENTS,
    Authentication,
    methods_of,
    namespaces_of,
    read_authentication,
    read_recap,
    verified,
    write_authentication,
)
from bridge_server.kit.client.errors import BadPairingError, BadPayloadError
from bridge_server.kit.client.payloads import Approval, sound_accounts

# Key agreement of generation 2.x: X25519 (RFC 7748), then HKDF-SHA256 (RFC 5869).

KEY_BYTES = 32


class KeyPair:
    """An X25519 key pair, new for each session."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._private = ECC.generate(curve="Curve25519") if seed is None else import_x25519_private_key(seed)
        self.public: bytes = self._private.public_key().export_key(format="raw")

    def symmetric_key(self, peer_public: bytes) -> bytes:
        """The symmetric key shared with the owner of the public key. Raises BadPayloadError."""
        try:
            public = import_x25519_public_key(peer_public)
            return bytes(key_agreement(static_priv=self._private, static_pub=public, kdf=derived))
        except ValueError as error:
            raise BadPayloadError("The other side's public key is no X25519 key that can be used.") from error


def derived(secret: bytes) -> bytes:
    """The symmetric key of a shared secret: HKDF-SHA256 without salt and info."""
    return bytes(HKDF(secret, KEY_BYTES, b"", SHA256))


def read_public_key(text: object) -> bytes:
    """Read a public key in hexadecimal. Raises BadPayloadError."""
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadPayloadError(f"A public key must be {2 * KEY_BYTES} hexadecimal digits.")
    return key


# The encryption of generation 2.x: ChaCha20-Poly1305 (RFC 8439) in a Base64 envelope.
#
# type 0:  00 | nonce (12 bytes) | ciphertext and tag                                both sides have the key
# type 1:  01 | sender's public key (32 bytes) | nonce | ciphertext and tag          the receiver derives it
#
# There are no associated data. Source: `encrypt` and `decrypt` of the published @walletconnect/utils 2.25.

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
        self.topic = sha256(own.public).hexdigest()

    def open(self, envelope: object) -> Any:
        """Decrypt an envelope of type 1; returns its content. Raises BadPayloadError."""
        return open_from_sender(self._own, envelope)[1]


class PeerResponses:
    """The topic of the responses to another side's public key."""

    def __init__(self, own: KeyPair, peer_public: bytes) -> None:
        self._own, self._peer_public = own, peer_public
        self.topic = sha256(peer_public).hexdigest()

    def seal(self, content: Any) -> str:
        """Encrypt a content as an envelope of type 1. Raises TypeError, BadPayloadError."""
        return seal_from(self._own, self._peer_public, content)


def seal_from(sender: KeyPair, receiver_public: bytes, content: Any) -> str:
    """Encrypt a content as an envelope of type 1. Raises TypeError, BadPayloadError."""
    key = sender.symmetric_key(receiver_public)
    return _encoded(_TYPE_1 + sender.public + _encrypted(key, content))


def open_from_sender(receiver: KeyPair, envelope: object) -> tuple[bytes, Any]:
    """Open an envelope of type 1: the sender's public key and the content. Raises BadPayloadError."""
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
        padding = "=" * (-len(envelope) % 4)  # Python wallets leave it out
        raw = base64.b64decode(envelope + padding, validate=True)
    except (binascii.Error, ValueError):
        raise BadPayloadError("An envelope must be Base64.") from None
    return raw[:1], raw[1:]


# The pairing URI of generation 2.x.
#
#     wc:{topic}@2?relay-protocol=irn&symKey={key}&expiryTimestamp={seconds}[&methods={names}]
#
# It names no relay: both sides must know the relay's URL. Source: `parseUri` and `formatUri` of the published
# @walletconnect/utils 2.25.

_RELAY_PROTOCOL = "irn"
_URI_KEY = re.compile(rf"[0-9A-Fa-f]{{{2 * KEY_BYTES}}}")
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
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise BadPairingError("The URI has a parameter twice.")
    if parameters.get("relay-protocol") != _RELAY_PROTOCOL:
        raise BadPairingError(f"The parameter relay-protocol must be {_RELAY_PROTOCOL}: no other is known.")
    key = parameters.get("symKey", "")
    if not _URI_KEY.fullmatch(key):
        raise BadPairingError(f"The parameter symKey must be {2 * KEY_BYTES} hexadecimal digits.")
    expires = parameters.get("expiryTimestamp")
    if expires is not None and not _SECONDS.fullmatch(expires):
        raise BadPairingError("The parameter expiryTimestamp must be a time in seconds.")
    methods = tuple(filter(None, parameters.get("methods", "").split(",")))
    pairing = RelayPairing(bytes.fromhex(key), None if expires is None else int(expires), methods)
    if pairing.topic_key.topic != path.removeprefix("wc:").removesuffix("@2").lower():
        text = "The topic must be the SHA-256 of symKey: part of the URI is missing or changed."
        raise BadPairingError(text)
    return pairing


# The lifetime, prompt and tag of each method of the sign protocol.
#
# Source: `ENGINE_RPC_OPTS` of the published @walletconnect/sign-client 2.25.

_FIVE_MINUTES = 300
_FIFTEEN_MINUTES = 900
_DAY = 86_400

REQUEST_SECONDS = _FIFTEEN_MINUTES
"""The lifetime of a call."""
PROPOSAL_SECONDS = _FIVE_MINUTES
"""The lifetime of a proposal, and of the pairing that carries it."""
AUTHENTICATION_SECONDS = 3_600
"""The lifetime of a `wc_sessionAuthenticate`."""
SESSION_SECONDS = 7 * _DAY
"""The lifetime of a session from its approval, and again from each extension."""


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """Parameters of an `irn_publish`. With `prompt` the relay notifies a sleeping wallet."""

    ttl: int
    tag: int
    prompt: bool = False


REQUESTS = {
    "wc_sessionPropose": PublishOptions(_FIVE_MINUTES, 1100, prompt=True),
    "wc_sessionSettle": PublishOptions(_FIVE_MINUTES, 1102),
    "wc_sessionUpdate": PublishOptions(_DAY, 1104),
    "wc_sessionExtend": PublishOptions(_DAY, 1106),
    "wc_sessionRequest": PublishOptions(REQUEST_SECONDS, 1108, prompt=True),
    "wc_sessionEvent": PublishOptions(_FIVE_MINUTES, 1110, prompt=True),
    "wc_sessionDelete": PublishOptions(_DAY, 1112),
    "wc_sessionPing": PublishOptions(_DAY, 1114),
    "wc_sessionAuthenticate": PublishOptions(AUTHENTICATION_SECONDS, 1116, prompt=True),
}
RESPONSES = {method: PublishOptions(request.ttl, request.tag + 1) for method, request in REQUESTS.items()}
REJECTION = PublishOptions(_FIVE_MINUTES, 1120)
"""The response that rejects a proposal."""
AUTHENTICATION_REJECTION = PublishOptions(_FIVE_MINUTES, 1118)
"""The response that rejects a `wc_sessionAuthenticate`."""
AUTHENTICATE = "wc_sessionAuthenticate"


# Namespaces (CAIP-25): the chains, methods and events that a dapp asks for and a wallet approves.

_NAMESPACE = "[-a-z0-9]{3,8}"
_CHAIN = re.compile(rf"{_NAMESPACE}:[-_a-zA-Z0-9]{{1,32}}")
_SCOPE_KEY = re.compile(rf"{_NAMESPACE}(?::[-_a-zA-Z0-9]{{1,32}})?")
_ACCOUNT = re.compile(rf"({_NAMESPACE}:[-_a-zA-Z0-9]{{1,32}}):([-.%a-zA-Z0-9]{{1,128}})")
_ETHEREUM = "eip155"

ETHEREUM: Mapping[str, Any] = {
    _ETHEREUM: {
        "chains": ["eip155:1"],
        "methods": [
            "eth_sendTransaction",
            "eth_signTransaction",
            "eth_sign",
            "personal_sign",
            "eth_signTypedData",
            "eth_signTypedData_v4",
        ],
        "events": SESSION_EVENTS,
    }
}
"""The default namespaces of a dapp."""


def sound_proposal(namespaces: Mapping[str, Any]) -> dict[str, Any]:
    """Check the namespaces of a proposal. Raises ValueError with the reason."""
    if not namespaces:
        raise ValueError("namespaces must have an entry, such as eip155 (CAIP-25)")
    for key, scope in namespaces.items():
        _require_scope(key, scope)
        chains = _texts(scope, "chains") if "chains" in scope else [key]
        if not chains or not all(map(_CHAIN.fullmatch, chains)):
            raise ValueError(f"chains of {key} must be CAIP-2 ids such as eip155:1")
    return dict(namespaces)


def first_chain(namespaces: Mapping[str, Any]) -> str:
    """The first chain of namespaces. Raises BadPayloadError if there is none."""
    for key, scope in namespaces.items():
        for account in scope.get("accounts", ()):
            return str(account).rpartition(":")[0]
        for chain in scope.get("chains", ()):
            return str(chain)
        if ":" in key:
            return key
    raise BadPayloadError("The namespaces name no chain.")


def approved(proposal: Mapping[str, Any], accounts: Iterable[str], chain_id: int) -> dict[str, Any]:
    """The namespaces of an approval, for the parameters of a `wc_sessionPropose`.

    An account is an address, on the chain `chain_id` and on every Ethereum chain that the dapp requires, or a
    CAIP-10 id. Methods and events come from the proposal. Raises TypeError if `accounts` is no such list.
    """
    texts = sound_accounts(accounts)
    required = _merged(proposal.get("requiredNamespaces"))
    asked = _merged(proposal.get("requiredNamespaces"), proposal.get("optionalNamespaces"))
    chains = dict.fromkeys([f"{_ETHEREUM}:{chain_id}", *required.get(_ETHEREUM, {}).get("chains", ())])
    ids = [account for account in texts if _ACCOUNT.fullmatch(account)]
    ids += [f"{chain}:{account}" for chain in chains for account in texts if account not in ids]
    return {
        namespace: {
            "chains": list(dict.fromkeys(account.rpartition(":")[0] for account in own)),
            "accounts": own,
            "methods": list(asked.get(namespace, {}).get("methods", ())),
            "events": list(asked.get(namespace, {}).get("events", ())),
        }
        for namespace in dict.fromkeys(account.partition(":")[0] for account in ids)
        if (own := [account for account in ids if account.startswith(f"{namespace}:")])
    }


def read_approval(content: Mapping[str, Any]) -> Approval:
    """Read the parameters of a `wc_sessionSettle` or `wc_sessionUpdate`. Raises BadPayloadError.

    The approval's `accounts` are the addresses, each once; its `chain_id` is the first Ethereum chain's.
    """
    namespaces = content.get("namespaces")
    if not isinstance(namespaces, dict) or not namespaces:
        raise BadPayloadError("The approval has no namespaces.")
    matches = []
    try:
        for key, scope in namespaces.items():
            _require_scope(key, scope)
            for account in _texts(scope, "accounts"):
                found = _ACCOUNT.fullmatch(account)
                if found is None:
                    raise ValueError(f"{account!r} must be a CAIP-10 account such as eip155:1:0x...")
                matches.append(found)
    except ValueError as error:
        raise BadPayloadError(f"The approval cannot be read: {error}.") from error
    chains = (found[1].partition(":") for found in matches)
    references = [number for namespace, _, number in chains if namespace == _ETHEREUM]
    chain_id = int(references[0]) if references and references[0].isdecimal() else None
    return Approval(tuple(dict.fromkeys(found[2] for found in matches)), chain_id, content)


def allows_call(namespaces: Mapping[str, Any], chain: str, method: str) -> bool:
    """Whether approved namespaces have the method on the chain."""
    return any(
        method in scope.get("methods", ())
        and any(account.rpartition(":")[0] == chain for account in scope.get("accounts", ()))
        for scope in namespaces.values()
    )


def _merged(*parts: Any) -> dict[str, dict[str, list[str]]]:
    """Merge namespaces: the key `eip155:1` means `eip155` with that chain. Invalid parts are ignored."""
    merged: dict[str, dict[str, list[str]]] = {}
    for key, scope in (
        (key, scope) for part in parts if isinstance(part, dict) for key, scope in part.items()
    ):
        if not isinstance(scope, dict):
            continue
        own = merged.setdefault(key.partition(":")[0], {"chains": [], "methods": [], "events": []})
        for name, known in own.items():
            given = [key] if name == "chains" and ":" in key else scope.get(name)
            for text in given if isinstance(given, list) else ():
                if isinstance(text, str) and text not in known:
                    known.append(text)
    return merged


def _require_scope(key: Any, scope: Any) -> None:
    if not isinstance(key, str) or not _SCOPE_KEY.fullmatch(key):
        raise ValueError(f"{key!r} must be a CAIP-2 namespace such as eip155, or a chain such as eip155:1")
    if not isinstance(scope, Mapping):
        raise ValueError(f"{key} must be an object with methods and events")
    _texts(scope, "methods")
    _texts(scope, "events")


def _texts(scope: Mapping[str, Any], name: str) -> list[str]:
    texts = scope.get(name)
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a list of strings")
    return list(texts)


# `wc_sessionAuthenticate`: a sign-in and a session by one signature, in one request on the pairing's topic.
#
# The dapp's public key has a topic for the response, which is sealed for it. A proposal follows the request,
# for wallets that do not know it. Source: `authenticate` and `approveSessionAuthenticate` of sign-client
# 2.25.

METHOD_UNSUPPORTED = 10_001
"""The error code of wallets that do not know the request: they answer the proposal."""


def write_one_click(asked: Authentication, public: bytes, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the request."""
    return {
        "authPayload": {"statement": "", "resources": [], **write_authentication(asked)},
        "requester": {"publicKey": public.hex(), "metadata": metadata},
        "expiryTimestamp": int(time.time()) + AUTHENTICATION_SECONDS,
    }


def read_one_click_answer(result: Any, asked: Authentication) -> tuple[bytes, Approval]:
    """The wallet's public key and its approval, whose CACAOs are verified. Raises BadPayloadError."""
    said = result if isinstance(result, dict) else {}
    responder, cacaos = said.get("responder"), verified_cacaos(said.get("cacaos"), asked)
    if not isinstance(responder, dict):
        raise BadPayloadError("The sign-in has no responder.")
    public = read_public_key(responder.get("publicKey"))
    content = {"namespaces": namespaces_of(cacaos), "controller": responder}
    if content["namespaces"]:
        return public, replace(read_approval(content), cacaos=cacaos)
    accounts = tuple(dict.fromkeys(each["p"]["iss"].rpartition(":")[2] for each in cacaos))
    return public, Approval(accounts, None, content, cacaos)


def verified_cacaos(cacaos: Any, asked: Authentication) -> tuple[Mapping[str, Any], ...]:
    """The CACAOs, at least one, each a valid answer to the request. Raises BadPayloadError."""
    if not isinstance(cacaos, list) or not cacaos:
        raise BadPayloadError("The wallet did not sign in.")
    wanted, now = write_authentication(asked), datetime.now(UTC)
    for cacao in cacaos:
        verified(cacao, wanted, now)
    return tuple(cacaos)


@dataclass(frozen=True, slots=True)
class OneClick:
    """A request as the wallet received it."""

    request_id: Any
    requester: Mapping[str, Any]
    requester_public: bytes
    authentication: Authentication

    def responses(self, own: KeyPair) -> PeerResponses:
        """The topic of the response."""
        return PeerResponses(own, self.requester_public)

    @property
    def proposal(self) -> dict[str, Any]:
        """The request as the parameters of a proposal."""
        recap = read_recap(self.authentication.resources)
        scope = {"chains": list(self.authentication.chains), "methods": methods_of(recap) if recap else []}
        return {
            "proposer": self.requester,
            "requiredNamespaces": {},
            "optionalNamespaces": {"eip155": {**scope, "events": SESSION_EVENTS}},
            "requests": {"authentication": [write_authentication(self.authentication)]},
        }


def read_one_click(request_id: Any, asked: Mapping[str, Any]) -> OneClick:
    """Read the parameters of the request. Raises BadPayloadError."""
    requester = asked.get("requester")
    if not isinstance(requester, dict):
        raise BadPayloadError("The authentication has no requester.")
    public = read_public_key(requester.get("publicKey"))
    return OneClick(request_id, requester, public, read_authentication(asked.get("authPayload")))


def one_click_result(cacaos: Sequence[Mapping[str, Any]], own: KeyPair, metadata: Mapping[str, Any]) -> Any:
    """The result that answers the request."""
    return {"cacaos": list(cacaos), "responder": {"publicKey": own.public.hex(), "metadata": metadata}}
