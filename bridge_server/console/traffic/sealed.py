"""The encrypted payloads in a request and in its answer. The server cannot read them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bridge_server.admin.handles import shortened

_PAYLOAD = "encryptionPayload"
_ENVELOPE = "data"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A payload as it was sent, and its place."""

    place: str
    text: str


def sealed_payloads(fields: Mapping[str, Any]) -> list[Sealed]:
    """The payloads of a request as the admin API answers it; none where no bodies are kept."""
    return [
        payload
        for message, place in (("request", "sent"), ("answer", "answered"))
        for payload in _in_body(fields.get(message, {}).get("body", ""), place)
    ]


def _in_body(body: str, place: str) -> Iterator[Sealed]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:  # no JSON, or only its beginning is kept
        return
    if not isinstance(document, dict):
        return
    inner = document.get(_ENVELOPE)
    holder = inner if isinstance(inner, dict) else document
    if _PAYLOAD in holder:
        yield Sealed(place, _text(holder[_PAYLOAD]))
        return
    for call_id, call in holder.items():
        if isinstance(call, dict) and _PAYLOAD in call:
            yield Sealed(f"call {shortened(call_id)}", _text(call[_PAYLOAD]))


def _text(payload: Any) -> str:
    return payload if isinstance(payload, str) else orjson.dumps(payload).decode()
