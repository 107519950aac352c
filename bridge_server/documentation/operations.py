"""The operations of an OpenAPI document, as the page about them shows them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bridge_server.web.problem_links import TYPE_PREFIX

Document: TypeAlias = Mapping[str, Any]

_METHODS = ("get", "post", "put", "patch", "delete")
_SCHEMAS = "#/components/schemas/"
_RESPONSES = "#/components/responses/"


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """One answer of an operation: its meaning, and of a problem the codes."""

    status: str
    meaning: str
    shapes: Sequence[str]
    example: str
    codes: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownParameter:
    """A parameter in the path, the query or a header field."""

    name: str
    place: str
    is_required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """A method of a path."""

    anchor: str
    method: str
    path: str
    summary: str
    text: str
    tokens: Sequence[str]
    parameters: Sequence[ShownParameter]
    body_shapes: Sequence[str]
    body_example: str
    answers: Sequence[ShownAnswer]


@dataclass(frozen=True, slots=True)
class Tag:
    """Operations that belong together."""

    name: str
    text: str
    operations: Sequence[ShownOperation]


def tags_of(document: Document) -> list[Tag]:
    """All operations by tag, in the order of the document."""
    by_tag: dict[str, list[ShownOperation]] = {tag["name"]: [] for tag in document.get("tags", ())}
    for path, methods in document["paths"].items():
        for method in (name for name in _METHODS if name in methods):
            fields = methods[method]
            tag = next(iter(fields.get("tags", ())), "Others")
            by_tag.setdefault(tag, []).append(_operation(path, method, fields, document))
    texts = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    return [Tag(name, texts.get(name, ""), each) for name, each in by_tag.items() if each]


def messages_of(document: Document) -> list[ShownOperation]:
    """The messages that the server sends to webhooks, in the order of the document."""
    return [
        _operation(name, method, fields, document)
        for name, methods in document.get("webhooks", {}).items()
        for method, fields in methods.items()
    ]


def shapes_of(document: Document) -> dict[str, str]:
    """The JSON Schema of each shape that is no problem, by name."""
    schemas: Document = document.get("components", {}).get("schemas", {})
    return {name: indented(each) for name, each in schemas.items() if not name.endswith("Problem")}


def indented(value: Any) -> str:
    """A JSON value for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _operation(path: str, method: str, fields: Document, document: Document) -> ShownOperation:
    body: Document = next(iter(fields.get("requestBody", {}).get("content", {}).values()), {})
    return ShownOperation(
        anchor=fields.get("operationId", f"{method}-{path}"),
        method=method.upper(),
        path=path,
        summary=fields.get("summary", ""),
        text=fields.get("description", ""),
        tokens=[name for each in fields.get("security", ()) for name in each],
        parameters=[_parameter(_resolved(each, document)) for each in fields.get("parameters", ())],
        body_shapes=_shape_names(body.get("schema", {})),
        body_example=_example(body),
        answers=[_answer(status, each, document) for status, each in fields["responses"].items()],
    )


def _parameter(fields: Document) -> ShownParameter:
    return ShownParameter(
        fields["name"], fields["in"], fields.get("required", False), fields.get("description", "")
    )


def _answer(status: str, fields: Document, document: Document) -> ShownAnswer:
    found = _resolved(fields, document)
    content: Document = next(iter(found.get("content", {}).values()), {})
    codes = _codes(fields, content.get("schema", {}))
    shapes = [] if codes else _shape_names(content.get("schema", {}))
    return ShownAnswer(status, found.get("description", ""), shapes, _example(content), codes)


def _codes(response: Document, schema: Document) -> list[str]:
    """The codes of the problems that a response may have."""
    reference = response.get("$ref", "")
    if reference.startswith(_RESPONSES):
        return [reference.removeprefix(_RESPONSES)]
    mapping = schema.get("discriminator", {}).get("mapping", {})
    return [name.removeprefix(TYPE_PREFIX) for name in mapping if name.startswith(TYPE_PREFIX)]


def _resolved(fields: Document, document: Document) -> Document:
    """The part of the document that a reference names; other fields as they are."""
    reference = fields.get("$ref")
    if reference is None:
        return fields
    found: Any = document
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    resolved: Document = found
    return resolved


def _example(content: Document) -> str:
    if "example" in content:
        return indented(content["example"])
    first = next(iter(content.get("examples", {}).values()), None)
    return "" if first is None else indented(first["value"])


def _shape_names(schema: Any) -> list[str]:
    return list(dict.fromkeys(_references(schema)))


def _references(schema: Any) -> Iterator[str]:
    """The names of the shapes in a schema."""
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith(_SCHEMAS):
            yield reference.removeprefix(_SCHEMAS)
        for each in schema.values():
            yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)
