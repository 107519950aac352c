"""The ids of JSON-RPC requests that are numbers, as they were spelled.

A client may look an answer up by the text that it sent, and no parser keeps that: 1e2, 100.0 and 100 are one
value, -0 and 0 are too, and 1e400 is beyond every float.
"""

import re

_SPACE = rb"[ \t\n\r]*+"
_NUMBER = rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_STRING = rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'  # also a string that does not end

# A member "id" with a number; a string; what opens, closes or separates.
_TOKEN = re.compile(
    rb'"id"' + _SPACE + b":" + _SPACE + b"(" + _NUMBER + rb")(?=[ \t\n\r,}])|" + _STRING + b"|[][{},]",
    re.DOTALL,
)
_BATCH = re.compile(_SPACE + rb"\[")


def number_ids(body: bytes) -> tuple[dict[int, bytes], bytes]:
    """The numbers that are ids, by the place of their request; and the body with 0 in their stead.

    A text that is not JSON stays as it is. The time that it takes grows with the body's length alone.
    """
    is_batch = _BATCH.match(body) is not None
    texts: dict[int, bytes] = {}
    parts: list[bytes] = []
    depth = place = end = 0
    for token in _TOKEN.finditer(body):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif text == b",":
            place += is_batch and depth == 1
        elif token[1] is not None and depth == 1 + is_batch:
            texts[place] = token[1]
            parts += (body[end : token.start(1)], b"0")
            end = token.end()
    return texts, b"".join((*parts, body[end:]))
