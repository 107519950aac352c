"""The OpenAPI document of a server, made from its rows."""

from collections.abc import Sequence
from typing import Any

from bridge_server.description.operations import described
from bridge_server.description.paths import other_parameter, path_parameters, spelled
from bridge_server.description.problems import (
    by_status,
    every_kind,
    problem_components,
    problem_response,
    problems_of,
)
from bridge_server.description.shapes import Schemas, example_of
from bridge_server.description.texts import HEADERS, INTRODUCTION, SECURITY, TAGS, WAIT_PARAMETERS
from bridge_server.description.webhooks import SHAPES, webhooks_of
from bridge_server.version import NAME, REPOSITORY, VERSION
from bridge_server.web.description import JSON, DescribedAnswer, Operation
from bridge_server.web.routes import Route

OPENAPI_VERSION = "3.1.0"


def openapi_document(rows: Sequence[Route]) -> dict[str, Any]:
    """The document of these rows, as JSON values."""
    pairs = [(row, operation) for row in rows if (operation := described(row)) is not None]
    schemas = Schemas([*_shapes(operation for _, operation in pairs), *SHAPES])
    paths: dict[str, Any] = {}
    for row, operation in pairs:
        paths.setdefault(spelled(row.path), {})[row.method.lower()] = _operation(row, operation, schemas)
    kinds = every_kind(problems_of(row, operation) for row, operation in pairs)
    problem_schemas, responses = problem_components(kinds)
    used_tags = {operation.tag for _, operation in pairs}
    used_schemes = {scheme for row, _ in pairs for scheme in _schemes(row)}
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": NAME,
            "version": VERSION,
            "description": INTRODUCTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "externalDocs": {"description": "The source, with all documentation.", "url": REPOSITORY},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used_tags],
        "paths": paths,
        "webhooks": webhooks_of(schemas),
        "components": {
            "schemas": {**schemas.components, **problem_schemas},
            "responses": responses,
            "headers": HEADERS,
            "securitySchemes": {name: each for name, each in SECURITY.items() if name in used_schemes},
        },
    }


def _shapes(operations: Any) -> list[Any]:
    found = []
    for operation in operations:
        found += [operation.body, *(answer.shape for answer in operation.answers)]
    return [shape for shape in found if shape is not None]


def _operation(row: Route, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    kinds = problems_of(row, operation)
    failures = {str(status): problem_response(codes, kinds) for status, codes in by_status(kinds).items()}
    fields: dict[str, Any] = {
        "operationId": row.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.text,
    }
    if parameters := _parameters(row, operation):
        fields["parameters"] = parameters
    if operation.body is not None:
        fields["requestBody"] = _request_body(operation, schemas)
    fields["responses"] = {**_answers(row, operation, schemas), **failures}
    fields["security"] = [{name: []} for name in _schemes(row)]
    return fields | dict(operation.extensions)


def _parameters(row: Route, operation: Operation) -> list[dict[str, Any]]:
    others = [each for each in operation.parameters if each.place != "path"]
    waits = WAIT_PARAMETERS if operation.polls else ()
    return [*path_parameters(row, operation), *map(other_parameter, (*others, *waits))]


def _request_body(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    content = {"schema": schemas.of(operation.body), "example": operation.body_example}
    return {"required": not operation.body_is_optional, "content": {JSON: content}}


def _answers(row: Route, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    return {str(answer.status): _answer(answer, row, operation, schemas) for answer in operation.answers}


def _answer(answer: DescribedAnswer, row: Route, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    names = ["X-Request-ID"]
    if row.limits or row.caller_limits:
        names += ("RateLimit", "RateLimit-Policy")
    if operation.polls:
        names.append("Preference-Applied")
    fields: dict[str, Any] = {
        "description": answer.meaning,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
    }
    if answer.shape is not None:
        schema = schemas.of(answer.shape)
        content = {"schema": schema, "example": example_of(schema, schemas.components)}
        fields["content"] = {answer.media_type: content}
    return fields


def _schemes(row: Route) -> tuple[str, ...]:
    """The names of the tokens of which a request needs one."""
    if row.bearer is None and row.identify is None:
        return ()
    return (_SCHEME_OF.get(row.who, "metricsToken"),)


_SCHEME_OF = {
    "backend": "projectSecret",
    "app": "inboxToken",
    "operator": "adminToken",
    "rpc": "rpcToken",
    "test": "testToken",
}
