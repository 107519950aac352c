"""A dapp's request that the wallet signs in (EIP-4361, CAIP-122), as generation 2.x carries it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from bridge_server.client.session import recaps
from bridge_server.client.session.cacaos import message_of
from bridge_server.client.session.errors import BadPayloadError

_NONCE = re.compile(r"[A-Za-z0-9]{8,128}")
_ONE_LINE = re.compile(r"[^\r\n]*")
_ASCII_LINE = re.compile(r"[ -~]*")
_CHAIN = re.compile(r"eip155:[0-9]{1,19}")
_ACCOUNT = re.compile(r"(eip155:[0-9]{1,19}):(0x[0-9A-Fa-f]{40})")
_OPTIONAL = {"statement": "statement", "exp": "expires_at", "nbf": "not_before", "requestId": "request_id"}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Authentication:
    """A sign-in that a dapp of generation 2.x asks for along with its session.

    `domain` and `uri` name the dapp's page, `chains` are CAIP-2 ids of Ethereum, `methods` the methods
    that the wallet allows by its signature (ReCaps). Times are texts of RFC 3339.
    """

    domain: str
    uri: str
    chains: tuple[str, ...] = ("eip155:1",)
    statement: str | None = None
    methods: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    nonce: str = field(default_factory=lambda: token_hex(16))
    issued_at: str = field(default_factory=_now)
    expires_at: str | None = None
    not_before: str | None = None
    request_id: str | None = None

    def message(self, account: str) -> str:
        """The text that the account, a CAIP-10 id, signs with `personal_sign` to allow all that is asked.

        Raises ValueError for an account on a chain that is not asked for.
        """
        return message_of(self._payload(account))

    def cacao(self, account: str, signature: str) -> dict[str, Any]:
        """The signed answer for `approve(cacaos=...)`: `signature` is the account's, of `message(account)`.

        Raises ValueError.
        """
        signed = {"t": "eip191", "s": signature}
        return {"h": {"t": "caip122"}, "p": self._payload(account), "s": signed}

    def _payload(self, account: str) -> dict[str, Any]:
        found = _ACCOUNT.fullmatch(account)
        if found is None or found[1] not in self.chains:
            raise ValueError(f"{account!r} must be a CAIP-10 account on one of {', '.join(self.chains)}")
        resources = recaps.granted(recaps.requested(self.resources, self.methods), self.chains)
        recap = recaps.read_recap(resources)
        asked = write_authentication(self)
        del asked["chains"], asked["type"]
        if recap is not None:
            asked["statement"] = recaps.stated(self.statement or "", recap)
        if resources:
            asked["resources"] = resources
        return {"iss": f"did:pkh:{account}", **asked}


def sound_authentication(asked: Authentication) -> Authentication:
    """Check a sign-in that a dapp asks for. Raises ValueError with the reason."""
    if not asked.chains or not all(map(_CHAIN.fullmatch, asked.chains)):
        raise ValueError("chains of an authentication must be CAIP-2 ids of Ethereum, such as eip155:1")
    if not _NONCE.fullmatch(asked.nonce):
        raise ValueError("the nonce of an authentication must be 8 to 128 letters and digits (EIP-4361)")
    if not asked.domain or not asked.uri:
        raise ValueError("an authentication must have the domain and the uri of the dapp's page")
    texts = [asked.domain, asked.uri, asked.statement or "", *asked.resources, asked.request_id or ""]
    if not all(map(_ASCII_LINE.fullmatch, texts)):
        raise ValueError("texts of an authentication must be one line of ASCII (EIP-4361)")
    for time in (asked.issued_at, asked.expires_at, asked.not_before):
        if time is not None and datetime.fromisoformat(time).tzinfo is None:
            raise ValueError(f"{time!r} must be a time with its zone, such as 2026-01-01T00:00:00Z")
    return asked


def write_authentication(asked: Authentication) -> dict[str, Any]:
    """The request as JSON: an entry of a proposal's `requests.authentication`, or an `authPayload`."""
    resources = recaps.requested(asked.resources, asked.methods)
    optional = {name: getattr(asked, attribute) for name, attribute in _OPTIONAL.items()}
    return {
        "type": "caip122",
        "chains": list(asked.chains),
        "domain": asked.domain,
        "aud": asked.uri,
        "version": "1",
        "nonce": asked.nonce,
        "iat": asked.issued_at,
        **{name: value for name, value in optional.items() if value is not None},
        **({"resources": resources} if resources else {}),
    }


def read_authentication(content: Any) -> Authentication:
    """Read a request. A recap stays among its resources. Raises BadPayloadError."""
    said = content if isinstance(content, dict) else {}
    resources, chains = said.get("resources") or [], said.get("chains")
    if not isinstance(resources, list) or not isinstance(chains, list) or not chains:
        raise BadPayloadError("The authentication must have chains, and perhaps resources.")
    texts = tuple(map(_line, resources))
    recaps.read_recap(texts)
    return Authentication(
        _line(said.get("domain")),
        _line(said.get("aud") or said.get("uri")),
        tuple(map(_line, chains)),
        statement=_optional_line(said.get("statement")),
        resources=texts,
        nonce=_line(said.get("nonce")),
        issued_at=_line(said.get("iat")),
        expires_at=_optional_line(said.get("exp")),
        not_before=_optional_line(said.get("nbf")),
        request_id=_optional_line(said.get("requestId")),
    )


def read_authentications(proposal: Mapping[str, Any]) -> tuple[Authentication, ...]:
    """The sign-ins that a proposal asks for. Raises BadPayloadError."""
    requests = proposal.get("requests")
    asked = requests.get("authentication") if isinstance(requests, dict) else None
    return tuple(map(read_authentication, asked)) if isinstance(asked, list) else ()


def _line(value: Any) -> str:
    """A text without line breaks, which would forge further lines of the message."""
    if not isinstance(value, str) or not _ONE_LINE.fullmatch(value):
        raise BadPayloadError("The authentication lacks a member, or one is not a single line of text.")
    return value


def _optional_line(value: Any) -> str | None:
    return _line(value) if value else None
