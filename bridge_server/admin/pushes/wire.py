"""JSON of a push's test and of its preview."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from bridge_server.admin.pushes.service import PushPreview, TestedPush
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.outgoing.outcome import Verdict
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check

_LONGEST_TEXT = 1024


class PushTestShape(Shape):
    """The body of POST /admin/pushes/test."""

    topic: Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]


def read_topic(document: JsonObject) -> str:
    """Read the topic whose client gets the push."""
    return check(PushTestShape, document.values).topic


def read_preview(query: Mapping[str, str]) -> tuple[str, str]:
    """Read the query parameters `peer_name` and `language`. Raises InvalidInputError."""
    texts = query.get("peer_name", ""), query.get("language", "")
    if max(map(len, texts)) > _LONGEST_TEXT:
        raise InvalidInputError(f"peer_name and language have at most {_LONGEST_TEXT} characters.")
    return texts


def tested_fields(tested: TestedPush) -> dict[str, Any]:
    """Whether the provider took the push, its status, the time it took, and why it failed."""
    outcome = tested.outcome
    return {
        "delivered": outcome.verdict is Verdict.DELIVERED,
        "status": outcome.status,
        "milliseconds": round(tested.milliseconds, 1),
        "failure": outcome.reason or None,
    }


def preview_fields(preview: PushPreview) -> dict[str, Any]:
    """The texts as a phone shows them."""
    return {
        "title": preview.title,
        "body": preview.body,
        "language": preview.language,
        "direction": "rtl" if preview.is_right_to_left else "ltr",
    }
