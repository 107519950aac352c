"""Rules for the ids and names of projects and notification types."""

import re
import unicodedata
from collections.abc import Set as AbstractSet
from itertools import chain, count

from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.projects.models import ProjectId, TypeId

NAME_MAX_CHARACTERS = 64
RESERVED_PROJECT_IDS = frozenset(
    {"admin", "call-status", "compat", "console", "docs", "hello", "inbox", "info", "livez", "metrics", "new"}
    | {
        "notify",
        "openapi.json",
        "openrpc.json",
        "push",
        "readyz",
        "rpc",
        "session",
        "subscribe",
        "subscribers",
    }
    | {"v1"}
)
"""The first segments of this server's paths, present and planned; a project id would collide with them."""

_PROJECT_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_TYPE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_TYPE_ID_MAX_CHARACTERS = 64
_NOT_IN_MADE_IDS = re.compile(r"[^a-z0-9]+")


def checked_project_id(text: str) -> ProjectId:
    """Check the id of a new project. Raises InvalidInputError."""
    if not _PROJECT_ID.fullmatch(text):
        raise _invalid("project_id", "must be 1 to 64 lower-case letters a-z, digits and hyphens")
    if text in RESERVED_PROJECT_IDS:
        raise _invalid("project_id", "is reserved for a path of this server")
    return ProjectId(text)


def checked_type_id(text: str) -> TypeId:
    """Check the id of a new notification type. Raises InvalidInputError."""
    if not _TYPE_ID.fullmatch(text):
        raise _invalid("type_id", "must be 1 to 64 letters (A-Z, a-z), digits, dots, underscores, hyphens")
    return TypeId(text)


def type_id_of_name(name: str, taken: AbstractSet[TypeId]) -> TypeId:
    """An unused id that is made from a type's name, such as `price-alerts`, or else `price-alerts-2`."""
    plain = unicodedata.normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
    made = _NOT_IN_MADE_IDS.sub("-", plain)[:_TYPE_ID_MAX_CHARACTERS].strip("-") or "type"
    others = (f"{made[: _TYPE_ID_MAX_CHARACTERS - 5]}-{number}" for number in count(2))
    return next(TypeId(each) for each in chain([made], others) if each not in taken)


def checked_name(text: str) -> str:
    """Check a displayed name: 1 to 64 characters without control characters. Raises InvalidInputError."""
    if not 1 <= len(text) <= NAME_MAX_CHARACTERS:
        raise _invalid("name", f"must have 1 to {NAME_MAX_CHARACTERS} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text):
        raise _invalid("name", "must not contain control characters")
    return text


def _invalid(field: str, detail: str) -> InvalidInputError:
    return InvalidInputError(f"The {field} {detail}.", [Fault(f"#/{field}", detail)])
