"""Problems in the document: a schema and a response for each code."""

from collections.abc import Mapping, Sequence
from typing import Any

from bridge_server.kernel import errors
from bridge_server.kernel.errors import BridgeError
from bridge_server.web.connection import TYPE_PREFIX
from bridge_server.web.problems import REFUSALS, status_of_kind
from bridge_server.web.routes import About, Route

_PROBLEM_JSON = "application/problem+json"

_REQUEST_ID = "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"
_FAULTS = {
    "type": "array",
    "description": "Every fault of the body or the query at once, each with its place.",
    "items": {
        "type": "object",
        "properties": {
            "pointer": {
                "type": "string",
                "description": "A JSON Pointer (RFC 6901) as a URI fragment.",
                "examples": ["#/encryptionPayload"],
            },
            "detail": {"type": "string", "examples": ["must be a string or an object"]},
        },
        "required": ["pointer", "detail"],
    },
}
_EVERYWHERE = {
    **{code: (status, f"{title}. No route was looked for.") for status, (code, title) in REFUSALS.items()},
    "method-not-allowed": (405, "The path exists, but not for this method: see the header field Allow."),
    "server-error": (500, "The server failed, which is a bug. Its log has the reason beside the request id."),
}
"""Problems that any request may get."""


def problems_of(row: Route, about: About) -> dict[str, type[BridgeError]]:
    """The failures that a request of the row may have, by code: the row's, and the operation's own."""
    has_query = any(parameter.place == "query" for parameter in about.parameters)
    has_input = about.body is not None or about.polls or has_query or row.body_limit_bytes
    may_fail: Sequence[tuple[type[BridgeError], object]] = (
        (errors.ForbiddenError, row.access.guard is not None),
        (errors.NotAuthenticatedError, row.access.takes_token),
        (errors.NotFoundError, "{" in row.path),
        (errors.UnsupportedMediaError, about.body is not None),
        (errors.InvalidInputError, has_input),
        (errors.TooLargeError, row.body_limit_bytes),
        (errors.TooSlowError, row.body_limit_bytes),
        (errors.LimitError, row.limits or row.caller_limits),
        (errors.UnavailableError, about.needs_database),
        (errors.DatabaseFullError, about.needs_database and row.method != "GET"),
    )
    kinds = [*about.problems, *(kind for kind, applies in may_fail if applies)]
    return {kind.code: kind for kind in kinds}


def problem_responses(kinds: Mapping[str, type[BridgeError]]) -> dict[str, Any]:
    """The responses of these failures by status: a reference, or all that the codes of a status may mean."""
    codes: dict[int, list[str]] = {}
    for code, kind in kinds.items():
        codes.setdefault(status_of_kind(kind), []).append(code)
    return {str(status): _response(status, each, kinds) for status, each in sorted(codes.items())}


def _response(status: int, codes: Sequence[str], kinds: Mapping[str, type[BridgeError]]) -> dict[str, Any]:
    if len(codes) == 1:
        return {"$ref": f"#/components/responses/{codes[0]}"}
    references = {f"{TYPE_PREFIX}{code}": f"#/components/schemas/{schema_name(code)}" for code in codes}
    schema = {
        "oneOf": [{"$ref": each} for each in references.values()],
        "discriminator": {"propertyName": "type", "mapping": references},
    }
    return {
        "description": " ".join(f"`{code}`: {_meaning(kinds[code])}" for code in codes),
        "headers": _headers(status),
        "content": {_PROBLEM_JSON: {"schema": schema}},
    }


def problem_components(kinds: Mapping[str, type[BridgeError]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas and the responses of these failures, and of failures that any request may have."""
    meanings = {code: (status_of_kind(kind), _meaning(kind)) for code, kind in kinds.items()} | _EVERYWHERE
    schemas: dict[str, Any] = {}
    responses: dict[str, Any] = {}
    for code, (status, meaning) in sorted(meanings.items()):
        name = schema_name(code)
        schemas[name] = _schema(code, status, meaning)
        responses[code] = {
            "description": meaning,
            "headers": _headers(status),
            "content": {_PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}},
        }
    return schemas, responses


def schema_name(code: str) -> str:
    """The name of the schema of a problem: `SessionNotFoundProblem` of `session-not-found`."""
    return "".join(word.capitalize() for word in code.split("-")) + "Problem"


def _meaning(kind: type[BridgeError]) -> str:
    """The first paragraph of the docstring of the class that has named the code."""
    named = next(each for each in kind.__mro__ if "code" in vars(each))
    return " ".join((named.__doc__ or "").split("\n\n")[0].split())


def _schema(code: str, status: int, meaning: str) -> dict[str, Any]:
    properties = {
        "type": {"type": "string", "const": f"{TYPE_PREFIX}{code}"},
        "title": {"type": "string", "description": "The kind of problem in words, always the same."},
        "status": {"type": "integer", "const": status},
        "detail": {"type": "string", "description": "What is wrong here, and what can be done."},
        "instance": {
            "type": "string",
            "description": "The request id, as in `X-Request-ID` and the server's log.",
            "examples": [_REQUEST_ID],
        },
    }
    if code == errors.InvalidInputError.code:
        properties["errors"] = _FAULTS
    required = ["type", "title", "status", "detail", "instance"]
    return {"type": "object", "description": meaning, "properties": properties, "required": required}


def _headers(status: int) -> dict[str, Any]:
    names = {
        401: ["WWW-Authenticate"],
        405: ["Allow"],
        429: ["Retry-After", "RateLimit", "RateLimit-Policy"],
        503: ["Retry-After"],
    }.get(status, [])
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-ID", "Link", *names)}
