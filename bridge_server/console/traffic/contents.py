"""What a request and its answer contain, as the page of a request shows it."""

from collections.abc import Mapping
from typing import Any

import orjson

from bridge_server.web.exchanges import FIRST_FAILURE


def problem_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The problem that answered a failed request; None if its answer is not kept, or is none."""
    if fields["status"] is None or fields["status"] < FIRST_FAILURE:
        return None
    try:
        document = orjson.loads(fields.get("answer", {}).get("body", ""))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or "title" not in document:
        return None
    return {name: document.get(name, "") for name in ("title", "detail", "errors")}


def readable(body: str) -> str:
    """JSON with its members on lines of their own; another body as it is."""
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return body
