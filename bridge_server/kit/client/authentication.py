"""The sign-in of generation 2.x: a dapp's request (CAIP-122), the wallet's answer (CAIP-74), and ReCaps."""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

import orjson

from bridge_server.ethereum.signing_key import SignatureError, personal_message_hash, recover_address
from bridge_server.kit.client.errors import BadPayloadError

SESSION_EVENTS = ["chainChanged", "accountsChanged"]
"""The events of a session on Ethereum, unless the dapp names others."""

Recap = dict[str, dict[str, list[Any]]]
"""The actions of each resource, such as `request/personal_sign`, each with its limits."""

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
        """The signed answer for `approve(cacaos=...)`, with the signature of `message`. Raises ValueError."""
        signed = {"t": "eip191", "s": signature}
        return {"h": {"t": "caip122"}, "p": self._payload(account), "s": signed}

    def _payload(self, account: str) -> dict[str, Any]:
        found = _ACCOUNT.fullmatch(account)
        if found is None or found[1] not in self.chains:
            raise ValueError(f"{account!r} must be a CAIP-10 account on one of {', '.join(self.chains)}")
        resources = granted(requested(self.resources, self.methods), self.chains)
        recap = read_recap(resources)
        asked = write_authentication(self)
        del asked["chains"], asked["type"]
        if recap is not None:
            asked["statement"] = stated(self.statement or "", recap)
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
    resources = requested(asked.resources, asked.methods)
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
    read_recap(texts)
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


# CACAOs (CAIP-74): the message that an account signs to sign in, and the check of its signature.
#
# {"h": {"t": "caip122"}, "p": {"iss": "did:pkh:eip155:1:0x...", "domain", ...}, "s": {"t": "eip191", "s"}}
#
# Source: `formatMessage`, `validateSignedCacao` and `isCacaoBoundToRequest` of @walletconnect/utils 2.25.

_ISSUER = re.compile(r"did:pkh:(eip155:([0-9]{1,19})):(0x[0-9A-Fa-f]{40})")
_HEADERS = ("caip122", "eip4361")
_CLOCKS_DIFFER = timedelta(minutes=5)
_TEXTS = ("domain", "version", "nonce", "iat")
_OPTIONAL_TEXTS = ("aud", "uri", "statement", "exp", "nbf", "requestId")


def message_of(payload: Mapping[str, Any]) -> str:
    """The message of EIP-4361 that a CACAO's payload stands for. Raises BadPayloadError."""
    issuer = _issuer(payload)
    resources = _sound_resources(payload)
    statement, recap = payload.get("statement") or "", read_recap(resources)
    if recap is not None:
        statement = stated(statement, recap)
    lines = [
        f"{payload['domain']} wants you to sign in with your Ethereum account:",
        issuer[3],
        "",
        *([statement] if statement else []),
        "",
        f"URI: {payload.get('aud') or payload.get('uri')}",
        f"Version: {payload['version']}",
        f"Chain ID: {issuer[2]}",
        f"Nonce: {payload['nonce']}",
        f"Issued At: {payload['iat']}",
    ]
    optional = {"Expiration Time": "exp", "Not Before": "nbf", "Request ID": "requestId"}
    lines += [f"{title}: {payload[name]}" for title, name in optional.items() if payload.get(name)]
    if payload.get("resources") is not None:
        lines += ["Resources:", *(f"- {resource}" for resource in resources)]
    if any("\n" in line or "\r" in line for line in lines):
        raise BadPayloadError("A line of the sign-in message has a line break.")
    return "\n".join(lines)


def verified(cacao: Any, asked: Mapping[str, Any], now: datetime) -> str:
    """The CAIP-10 account that signed this CACAO for the request `asked`, the JSON of an Authentication.

    Raises BadPayloadError: another request's, expired, or not signed by its account.
    """
    match cacao:
        case {"h": {"t": str(header)}, "p": dict(payload), "s": {"t": str(kind), "s": str(signature)}}:
            pass
        case _:
            raise BadPayloadError("The sign-in has no header, payload and signature (CAIP-74).")
    if header not in _HEADERS or kind != "eip191":
        text = f"The sign-in is of the kind {header}, {kind}: only EIP-191 can be verified here."
        raise BadPayloadError(text)
    issuer = _issuer(payload)
    _require_signature(message_of(payload), signature, issuer[3])
    _require_bound(payload, asked, issuer[1])
    _require_times(payload, now)
    return f"{issuer[1]}:{issuer[3]}"


def namespaces_of(cacaos: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The namespaces of a session that rests on CACAOs; empty if they allow no methods."""
    methods: dict[str, None] = {}
    accounts: dict[str, None] = {}
    for cacao in cacaos:
        issuer, recap = _issuer(cacao["p"]), read_recap(_sound_resources(cacao["p"]))
        chains = [issuer[1], *(chains_of(recap) if recap else ())]
        methods |= dict.fromkeys(methods_of(recap) if recap else ())
        accounts |= dict.fromkeys(f"{chain}:{issuer[3]}" for chain in chains if chain.startswith("eip155:"))
    if not methods:
        return {}
    chains_once = dict.fromkeys(account.rpartition(":")[0] for account in accounts)
    scope = {"chains": list(chains_once), "accounts": list(accounts), "methods": list(methods)}
    return {"eip155": {**scope, "events": SESSION_EVENTS}}


def _issuer(payload: Mapping[str, Any]) -> re.Match[str]:
    """The chain, its number and the address in `iss`, after a check of all members that are texts."""
    for name in (*_TEXTS, *_OPTIONAL_TEXTS):
        value = payload.get(name)
        if not isinstance(value, str) and (name in _TEXTS or value is not None):
            raise BadPayloadError(f"The sign-in's {name} must be a text.")
    if not (payload.get("aud") or payload.get("uri")):
        raise BadPayloadError("The sign-in must have aud, the address of the dapp's page.")
    issuer = payload.get("iss")
    found = _ISSUER.fullmatch(issuer) if isinstance(issuer, str) else None
    if found is None:
        raise BadPayloadError("The sign-in's iss must be an account such as did:pkh:eip155:1:0x...")
    return found


def _sound_resources(payload: Mapping[str, Any]) -> list[str]:
    resources = payload.get("resources")
    texts = [] if resources is None else resources
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadPayloadError("The sign-in's resources must be a list of texts.")
    return texts


def _require_signature(message: str, signature: str, address: str) -> None:
    try:
        raw = bytes.fromhex(signature.removeprefix("0x"))
        signer = recover_address(personal_message_hash(message.encode()), raw)
    except (SignatureError, ValueError) as error:
        raise BadPayloadError(f"The sign-in has no signature: {error}.") from error
    if signer.lower() != address.lower():
        raise BadPayloadError("The sign-in was signed by another account than its own.")


def _require_bound(payload: Mapping[str, Any], asked: Mapping[str, Any], chain: str) -> None:
    given = {**payload, "aud": payload.get("aud") or payload.get("uri")}
    for name in ("domain", "nonce", "aud", "version"):
        if given[name] != asked[name]:
            text = f"The sign-in answers another request: its {name} is not the one asked for."
            raise BadPayloadError(text)
    if chain not in asked["chains"]:
        raise BadPayloadError(f"The sign-in is on {chain}, which was not asked for.")


def _require_times(payload: Mapping[str, Any], now: datetime) -> None:
    if _time(payload, "iat") > now + _CLOCKS_DIFFER:
        raise BadPayloadError("The sign-in was issued in the future.")
    if payload.get("exp") and _time(payload, "exp") <= now:
        raise BadPayloadError("The sign-in has expired.")
    if payload.get("nbf") and _time(payload, "nbf") > now:
        raise BadPayloadError("The sign-in is not valid yet.")


def _time(payload: Mapping[str, Any], name: str) -> datetime:
    try:
        time = datetime.fromisoformat(payload[name])
    except ValueError:
        raise BadPayloadError(f"The sign-in's {name} must be a time (RFC 3339).") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


# ReCaps (EIP-5573): the last resource of a sign-in message, which names the methods that the dapp may call.
#
# urn:recap:{Base64 without padding of {"att": {"eip155": {"request/personal_sign": [{"chains": [...]}]}}}}
#
# The message repeats them in its statement. Source: `cacao.ts` of the published @walletconnect/utils 2.25.

_PREFIX = "urn:recap:"
_ETHEREUM = "eip155"
_ABILITY = "request"
_AUTHORIZATION = "I further authorize the stated URI to perform the following actions on my behalf: "


def requested(resources: Iterable[str], methods: Iterable[str], chains: Sequence[str] = ()) -> list[str]:
    """The resources, with a recap at their end for the methods, if there are any."""
    limits = {"chains": list(chains)} if chains else {}
    actions = {f"{_ABILITY}/{method}": [limits] for method in sorted(set(methods), key=_order)}
    return [*resources, _encoded({_ETHEREUM: actions})] if actions else list(resources)


def granted(resources: Sequence[str], chains: Sequence[str]) -> list[str]:
    """The resources as a wallet signs them: every asked method on these chains. Raises BadPayloadError."""
    recap = read_recap(resources)
    if recap is None or _ETHEREUM not in recap:
        return list(resources)
    recap[_ETHEREUM] = {action: [{"chains": list(chains)}] for action in recap[_ETHEREUM]}
    return [*resources[:-1], _encoded(recap)]


def read_recap(resources: Sequence[str]) -> Recap | None:
    """The recap among the resources of a message; None if there is none. Raises BadPayloadError."""
    if not resources or not resources[-1].startswith(_PREFIX):
        return None
    text = resources[-1].removeprefix(_PREFIX).rstrip("=")
    try:
        recap = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        raise BadPayloadError("The recap must be Base64 of JSON (EIP-5573).") from None
    attenuations = recap.get("att") if isinstance(recap, dict) else None
    if not isinstance(attenuations, dict) or not all(map(_is_sound, attenuations.values())):
        raise BadPayloadError("The recap must have actions with limits for each resource (EIP-5573).")
    return attenuations


def methods_of(recap: Recap) -> list[str]:
    """The methods of Ethereum that a recap allows."""
    return [action.partition("/")[2] for action in recap.get(_ETHEREUM, {})]


def chains_of(recap: Recap) -> list[str]:
    """The chains of a recap, each once."""
    limits = [each[0] for actions in recap.values() for each in actions.values()]
    found = [limit.get("chains") for limit in limits if isinstance(limit, dict)]
    return list(dict.fromkeys(str(chain) for chains in found if isinstance(chains, list) for chain in chains))


def stated(statement: str, recap: Recap) -> str:
    """The statement with the recap in words, which a message must have."""
    if _AUTHORIZATION in statement:
        return statement
    number, sentences = 0, []
    for resource, actions in recap.items():
        clauses = []
        for ability, names in _by_ability(actions).items():
            number += 1
            listed = "', '".join(names)
            clauses.append(f"({number}) '{ability}': '{listed}' for '{resource}'.")
        sentences.append(", ".join(clauses).replace(".,", ".", 1))
    return f"{statement} {_AUTHORIZATION}{' '.join(sentences)}".lstrip()


def _by_ability(actions: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for action in sorted(actions, key=lambda action: _order(action.partition("/")[2])):
        ability, _, name = action.partition("/")
        found.setdefault(ability, []).append(name.partition("/")[0])
    return found


def _order(name: str) -> tuple[str, str]:
    """The order of JavaScript's `localeCompare` for names of methods."""
    return name.lower().replace("_", " "), name.swapcase()


def _is_sound(actions: Any) -> bool:
    if not isinstance(actions, dict) or not actions:
        return False
    return all(isinstance(limits, list) and limits for limits in actions.values())


def _encoded(recap: Recap) -> str:
    text = base64.b64encode(orjson.dumps({"att": dict(sorted(recap.items()))})).decode()
    return _PREFIX + text.rstrip("=")
