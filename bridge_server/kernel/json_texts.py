"""The JSON text of each member of an object, or of each element of an array, as its author wrote it."""

import json
import re
from collections import Counter
from typing import Any

_SPACE = r"[ \t\n\r]*"
_OPENING_BRACE = re.compile(_SPACE + "{" + _SPACE)
_OPENING_BRACKET = re.compile(_SPACE + r"\[" + _SPACE)
_COLON = re.compile(_SPACE + ":" + _SPACE)
_BETWEEN = re.compile(_SPACE + ",?" + _SPACE)


class DuplicateNameError(ValueError):
    """An object has two members of one name, which the error's text quotes."""


def why_not_json(reason: str) -> str:
    """The reason that orjson gives. It speaks of surrogates where a text is not UTF-8."""
    return "it is not UTF-8" if reason.startswith("str is not valid UTF-8") else reason


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object, for `object_pairs_hook`. Raises DuplicateNameError."""
    names = dict(pairs)
    if len(names) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise DuplicateNameError(repr(counts.most_common(1)[0][0]))
    return names


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Numbers are not read: their digits stay as they are.
_decode_at = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant).raw_decode
_decode_unique_at = json.JSONDecoder(
    object_pairs_hook=unique_members, parse_int=str, parse_float=str, parse_constant=_no_constant
).raw_decode


def member_texts(text: str, *, are_unique: bool = False) -> dict[str, str]:
    """The text of each member of an object; raises ValueError when the text is no object. Of two members of
    one name the last counts, unless names `are_unique`: then DuplicateNameError is raised for every object
    that has a name twice, however deep.
    """
    decode_at = _decode_unique_at if are_unique else _decode_at
    texts: dict[str, str] = {}
    position = _end_of(_OPENING_BRACE, text, 0)
    while not text.startswith("}", position):
        if not text.startswith('"', position):
            raise ValueError(f"no name of a member at character {position}")
        name, position = decode_at(text, position)
        start = _end_of(_COLON, text, position)
        _, end = decode_at(text, start)
        if are_unique and name in texts:
            raise DuplicateNameError(repr(name))
        texts[name] = text[start:end]
        position = _end_of(_BETWEEN, text, end)
    _require_end(text, position)
    return texts


def element_texts(text: str) -> list[str]:
    """The text of each element of an array; raises ValueError when the text is no array."""
    texts: list[str] = []
    position = _end_of(_OPENING_BRACKET, text, 0)
    while not text.startswith("]", position):
        _, end = _decode_at(text, position)
        texts.append(text[position:end])
        position = _end_of(_BETWEEN, text, end)
    _require_end(text, position)
    return texts


def _end_of(token: re.Pattern[str], text: str, position: int) -> int:
    found = token.match(text, position)
    if found is None:
        raise ValueError(f"unexpected text at character {position}")
    return found.end()


def _require_end(text: str, closing: int) -> None:
    if text[closing + 1 :].strip(" \t\n\r"):
        raise ValueError(f"more text behind character {closing}")
