"""Answers of a running server."""

from typing import Any

import orjson


def json_of(content: bytes) -> Any:
    """The JSON of an answer's body; None if it is none, as from a proxy or another program."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
