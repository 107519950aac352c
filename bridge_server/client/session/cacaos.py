"""CACAOs (CAIP-74): the message that an account signs to sign in, and the check of its signature.

    {"h": {"t": "caip122"}, "p": {"iss": "did:pkh:eip155:1:0x...", "domain", ...}, "s": {"t": "eip191", "s"}}

Source: `formatMessage`, `validateSignedCacao` and `isCacaoBoundToRequest` of @walletconnect/utils 2.25.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bridge_server.client.session.errors import BadPayloadError
from bridge_server.client.session.recaps import chains_of, methods_of, read_recap, stated
from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.recovery import SignatureError, recover_address

_ISSUER = re.compile(r"did:pkh:(eip155:([0-9]{1,19})):(0x[0-9A-Fa-f]{40})")
_HEADERS = ("caip122", "eip4361")
_EVENTS = ["chainChanged", "accountsChanged"]
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
        raise BadPayloadError(
            f"The sign-in is of the kind {header}, {kind}: only EIP-191 can be verified here."
        )
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
    return {"eip155": {**scope, "events": _EVENTS}}


def _issuer(payload: Mapping[str, Any]) -> "re.Match[str]":
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
            raise BadPayloadError(
                f"The sign-in answers another request: its {name} is not the one asked for."
            )
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
