"""Paths of rows as the document spells them, with their parameters."""

import re
from collections.abc import Mapping
from typing import Any

from bridge_server.web.description import Operation, Parameter
from bridge_server.web.routes import Route

_SESSION = "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"
_CALL = "0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8"
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"

_PARAMETER = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}")

_MEANINGS: Mapping[str, tuple[str, str]] = {
    "session_id": ("The id of a session, from `POST /session/new`.", _SESSION),
    "call_id": ("The id of a call, from `POST /session/{session_id}/call/new`.", _CALL),
    "project_id": ("The id of a project.", "example-app"),
    "type_id": ("The id of a notification type.", "price-alert"),
    "account": ("An account id (CAIP-10).", _ACCOUNT),
    "device_id": ("The id of a device.", "0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d"),
    "handle": ("The handle of a session, from the list of sessions.", "s4Jd0cRk"),
    "call": ("The handle of a call, from the record of requests.", "c9Xw2LmQ"),
}
"""The meaning of each parameter in a path, with an example. An operation may describe it otherwise."""


def spelled(path: str) -> str:
    """The path with its parameters' names alone."""
    return _PARAMETER.sub(lambda found: f"{{{found[1]}}}", path)


def path_parameters(row: Route, operation: Operation) -> list[dict[str, Any]]:
    """The parameters in the row's path."""
    own = {each.name: each for each in operation.parameters if each.place == "path"}
    return [_path_parameter(name, pattern, own.get(name)) for name, pattern in _PARAMETER.findall(row.path)]


def other_parameter(parameter: Parameter) -> dict[str, Any]:
    """A parameter of the query, or a header field."""
    spelled_example = {} if parameter.example is None else {"example": _value(parameter)}
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.text,
        "schema": dict(parameter.schema),
        **spelled_example,
    }


def _value(parameter: Parameter) -> Any:
    kind = parameter.schema.get("type")
    if parameter.example is not None and kind == "integer":
        return int(parameter.example)
    return parameter.example


def _path_parameter(name: str, pattern: str, own: Parameter | None) -> dict[str, Any]:
    if own is not None:
        meaning, example = own.text, own.example
    else:
        meaning, example = _MEANINGS[name]
    schema = {"type": "string", "pattern": f"^{pattern}$"} if pattern else {"type": "string"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": meaning,
        "schema": schema,
        "example": example,
    }
