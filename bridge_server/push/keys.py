"""Keys and credentials of push services, their checks, and the JSON Web Tokens (RFC 7519) made with them.

A ValueError that a check raises quotes nothing that is secret. This module is imported when one of the
services is on: elliptic curves and RSA take 4 MiB of memory.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import orjson
from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC, RSA
from Crypto.Signature import DSS, pkcs1_15
from yarl import URL

from bridge_server.kernel import base64url, fields
from bridge_server.kernel.values import dataclass

_PRIVATE_KEY_BYTES = 32
_PUBLIC_KEY_BYTES = 65

_LIFETIME_SECONDS = 12 * 3_600
"""Half of the allowed 24 hours (RFC 8292, section 2), so that clocks may differ by 12 hours."""

_RENEWED_AFTER_MS = (_LIFETIME_SECONDS - 3_600) * 1_000
_REMEMBERED_AUDIENCES = 256
_Header: TypeAlias = Mapping[str, str]
_Claims: TypeAlias = Mapping[str, str | int]

_MAIL = re.compile(r"mailto:[^\s@<>?]+@([^\s@<>?]+)")
_UNREACHABLE = re.compile(r"(.*\.)?(localhost|local|invalid|test|example|internal)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VapidKeys:
    """A key pair as base64url of the raw keys: `public_key` (65 bytes) is the `applicationServerKey` with
    which a page subscribes, `private_key` (32 bytes) the setting `vapid_private_key`.
    """

    public_key: str
    private_key: str = field(repr=False)


class VapidIdentity:
    """Makes and caches the header by which this server identifies itself to each push service. `subject` is a
    contact of this server's operator: `mailto:` and an address, or an https URL. Raises ValueError if the key
    or the subject is malformed. Not thread-safe.
    """

    def __init__(self, private_key: str, subject: str) -> None:
        self._key = read_private_key(private_key)
        self.public_key = base64url.encode(raw_public_key(self._key))
        self._subject = checked_subject(subject)
        self._headers: OrderedDict[str, tuple[str, int]] = OrderedDict()  # each with the time it was made

    def authorization(self, audience: str, now_ms: int) -> str:
        """The Authorization header for the push service with the origin `audience`."""
        header, made_at_ms = self._headers.pop(audience, ("", 0))
        # After the clock was set back a token may last longer than allowed.
        if not header or not 0 <= now_ms - made_at_ms < _RENEWED_AFTER_MS:
            expires_at = now_ms // 1_000 + _LIFETIME_SECONDS
            claims: _Claims = {"aud": audience, "exp": expires_at, "sub": self._subject}
            header = f"vapid t={es256({'typ': 'JWT'}, claims, self._key)}, k={self.public_key}"
            made_at_ms = now_ms
        self._headers[audience] = header, made_at_ms
        if len(self._headers) > _REMEMBERED_AUDIENCES:
            self._headers.popitem(last=False)
        return header


def checked_subject(text: str) -> str:
    """The subject, if push services accept it. Raises ValueError, also for a host that is not public."""
    if mail := _MAIL.fullmatch(text):
        host = mail[1]
    else:
        try:
            parts = urlsplit(fields.http_url(text))
        except ValueError:
            parts = None
        if parts is None or parts.scheme != "https":
            raise ValueError("the VAPID subject must be mailto: and an address, or an https URL")
        host = parts.hostname or ""
    if "." not in host or _UNREACHABLE.fullmatch(host):
        raise ValueError(
            "the VAPID subject must name a host that can be reached from outside: Apple refuses others"
        )
    return text


def new_vapid_keys(random_bytes: Callable[[int], bytes]) -> VapidKeys:
    """Generate a key pair. Subscriptions stay bound to the pair with which they were made."""
    key = ECC.generate(curve="P-256", randfunc=random_bytes)
    private = int(key.d).to_bytes(_PRIVATE_KEY_BYTES, "big")
    return VapidKeys(base64url.encode(raw_public_key(key)), base64url.encode(private))


def read_private_key(text: str) -> ECC.EccKey:
    """Read a private key in base64url. Raises ValueError, whose text does not quote the key."""
    try:
        raw = base64url.decode(text)
    except ValueError as error:
        raise ValueError(f"the VAPID private key {error}") from None
    if len(raw) != _PRIVATE_KEY_BYTES:
        raise ValueError(
            f"the VAPID private key must hold {_PRIVATE_KEY_BYTES} bytes, and holds {len(raw)}"
            + (" (the public key?)" if len(raw) == _PUBLIC_KEY_BYTES else "")
        )
    try:
        return ECC.construct(curve="P-256", d=int.from_bytes(raw, "big"))
    except ValueError:
        raise ValueError("the VAPID private key is not a scalar of the curve P-256") from None


def raw_public_key(key: ECC.EccKey) -> bytes:
    """The public key as an uncompressed point: the byte 4, then x and y, 65 bytes in all."""
    point = key.public_key().export_key(format="raw")
    assert isinstance(point, bytes)
    return point


def rs256(header: _Header, claims: _Claims, key: RSA.RsaKey) -> str:
    """A token signed with RSA and SHA-256 (RFC 7518, 3.3); `alg` is added to the header."""
    return _signed("RS256", header, claims, lambda text: pkcs1_15.new(key).sign(SHA256.new(text)))


def es256(header: _Header, claims: _Claims, key: ECC.EccKey) -> str:
    """A token signed with ECDSA on P-256 and SHA-256 (RFC 7518, 3.4); `alg` is added to the header. The
    signature is r and s, 32 bytes each, and deterministic (RFC 6979): equal claims give equal tokens.
    """
    signer = DSS.new(key, "deterministic-rfc6979", "binary")
    return _signed("ES256", header, claims, lambda text: signer.sign(SHA256.new(text)))


def _signed(algorithm: str, header: _Header, claims: _Claims, signature: Callable[[bytes], bytes]) -> str:
    parts = orjson.dumps({"alg": algorithm, **header}), orjson.dumps(dict(claims))
    text = ".".join(base64url.encode(part) for part in parts)
    return f"{text}.{base64url.encode(signature(text.encode()))}"


# The credentials of APNs and FCM.

_P8_FILE = "it is the AuthKey_….p8 file of the Apple developer account, with its first and last line"

_APNS_URLS = {"production": "https://api.push.apple.com", "sandbox": "https://api.sandbox.push.apple.com"}

_APNS_ID = re.compile(r"[A-Z0-9]{10}")
_BUNDLE_ID = re.compile(r"[A-Za-z0-9.-]{1,255}")

# Project ids have 6 to 30 characters; some old ones begin with a domain, as in example.com:project.
_PROJECT_ID = re.compile(r"[a-z0-9][a-z0-9.:-]{2,99}")
_EMAIL = re.compile(r"[^\s@]{1,128}@[^\s@]{1,128}")
_LEAST_KEY_BITS = 2_048
_HOW_TO_MAKE_THE_FILE = (
    "make one in the Firebase console: project settings, service accounts, generate new private key"
)


@dataclass(frozen=True, slots=True)
class ApnsSettings:
    """Settings of APNs. `key` is the text of the .p8 file, `topic` the app's bundle id. For tests against a
    local server, `endpoint` replaces the environment's URL, and `ca_file` replaces the system's certificates.
    `timeout_seconds` covers a whole attempt. Raises ValueError, which names every fault without quoting the
    key.
    """

    key: str = field(repr=False)
    key_id: str
    team_id: str
    topic: str
    environment: str = "production"
    endpoint: str | None = None
    ca_file: Path | str | None = None
    timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise ValueError(f"the APNs settings are not usable: {'; '.join(faults)}")

    @property
    def url(self) -> URL:
        """Scheme, host and port of the service."""
        return URL(self.endpoint or _APNS_URLS[self.environment])

    def _faults(self) -> Iterator[str]:
        try:
            signing_key(self.key)
        except ValueError as error:
            yield str(error)
        for name, value, where in (
            ("apns_key_id", self.key_id, "it is part of the name of the .p8 file: AuthKey_….p8"),
            ("apns_team_id", self.team_id, "it is on the membership page of the Apple developer account"),
        ):
            if not _APNS_ID.fullmatch(value):
                yield f"{name} must be 10 upper-case letters and digits: {where}"
        if not _BUNDLE_ID.fullmatch(self.topic):
            yield "apns_topic must be the app's bundle id, such as com.example.wallet"
        if self.environment not in _APNS_URLS:
            yield "apns_environment must be production or sandbox"
        if self.endpoint is not None and not _is_https_origin(_url(self.endpoint)):
            yield "apns_endpoint must be an https URL without a path, such as https://127.0.0.1:8443"
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            yield "apns_ca_file names no file"
        if self.timeout_seconds <= 0:
            yield "timeout_seconds must be more than 0"


def signing_key(pem: str) -> ECC.EccKey:
    """The private key in the text of a .p8 file. Raises ValueError, whose text does not quote the key."""
    if "-----BEGIN" not in pem:
        raise ValueError(
            f"the key must be a PEM text that begins with -----BEGIN PRIVATE KEY-----: {_P8_FILE}"
        )
    try:
        key = ECC.import_key(pem)
    except (ValueError, IndexError, TypeError):
        raise ValueError(f"the key is no elliptic curve key in PEM: {_P8_FILE}") from None
    if not key.has_private():
        raise ValueError(f"the key is a public one; the private one is needed: {_P8_FILE}")
    if key.curve != "NIST P-256":
        raise ValueError(f"the key is on the curve {key.curve}, and APNs takes P-256: {_P8_FILE}")
    return key


def _url(text: str) -> URL:
    """The URL in a text; an empty one where it is malformed."""
    try:
        return URL(text)
    except ValueError:
        return URL()


def _is_https_origin(url: URL) -> bool:
    return bool(url.scheme == "https" and url.raw_host and url.raw_path == "/" and not url.raw_query_string)


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account by which this server authenticates to Google. `repr` does not show its key."""

    project_id: str
    client_email: str
    token_uri: str
    private_key_id: str | None
    private_key: RSA.RsaKey = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read an account from the JSON of its key file. Raises ValueError, which names every fault."""
        document = _document(text)
        if faults := list(_account_faults(document)):
            raise ValueError(f"the service account file is not usable: {'; '.join(faults)}")
        key_id = document.get("private_key_id")
        return cls(
            document["project_id"],
            document["client_email"],
            document["token_uri"],
            key_id if isinstance(key_id, str) and key_id else None,
            _rsa_key(document["private_key"]),
        )


@lru_cache(maxsize=1)
def _rsa_key(pem: str) -> RSA.RsaKey:
    """The key of a PEM text. It is kept: a start reads the text four times, and proves the key for 30 ms."""
    return RSA.import_key(pem)


def _document(text: str | bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ValueError(f"the service account file is not JSON; {_HOW_TO_MAKE_THE_FILE}") from None
    if not isinstance(document, dict):
        raise ValueError(f"the service account file must hold a JSON object; {_HOW_TO_MAKE_THE_FILE}")
    return document


def _account_faults(document: Mapping[str, Any]) -> Iterator[str]:
    texts = {name: value for name, value in document.items() if isinstance(value, str)}
    if texts.get("type") != "service_account":
        is_app = document.get("type") is None
        hint = " (google-services.json is the app's file, not the server's)" if is_app else ""
        yield f'type must be "service_account"{hint}; {_HOW_TO_MAKE_THE_FILE}'
    if not _PROJECT_ID.fullmatch(texts.get("project_id", "")):
        yield "project_id must be the id of a Google Cloud project, such as my-app-12345"
    if (fault := _private_key_fault(texts.get("private_key", ""))) is not None:
        yield fault
    if not _EMAIL.fullmatch(texts.get("client_email", "")):
        yield "client_email must be an address, as name@project.iam.gserviceaccount.com"
    url = _url(texts.get("token_uri", ""))
    if url.scheme not in {"http", "https"} or not url.raw_host:
        yield "token_uri must be an absolute http(s) URL, usually https://oauth2.googleapis.com/token"


def _private_key_fault(pem: str) -> str | None:
    if "-----BEGIN" not in pem:
        return "private_key must be a PEM text that begins with -----BEGIN PRIVATE KEY-----"
    if "\\n" in pem:
        return r"private_key has \n spelled out twice: keep the line breaks as the file had them"
    try:
        key = _rsa_key(pem)
    except (ValueError, IndexError, TypeError):
        return "private_key is no RSA key in PEM: copy it whole, with its first and last line, unencrypted"
    if not key.has_private():
        return "private_key holds a public key; the private one is needed"
    if key.size_in_bits() < _LEAST_KEY_BITS:
        return f"private_key has {key.size_in_bits()} bits; at least {_LEAST_KEY_BITS} are needed"
    return None
