"""Answers of the server, held against its description: no status, media type or member that it lacks."""

import importlib
import json
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator

import bridge_server
from bridge_server.assembly.application import every_route
from bridge_server.description.document import openapi_document, spelled
from bridge_server.kernel.errors import BridgeError

_ANYWHERE = {
    "bad-request", "target-too-long", "header-field-too-long", "server-error", "ordered-fault", "not-found",
    "method-not-allowed",
}  # fmt: skip
"""Codes of problems that any path may have: `not-found` where a route is turned off, for example."""
_ENOUGH = 25
"""So many answers of one kind are examined by each process of tests: a burst of polls is one answer."""


class Description:
    """The document of every route, and strict validators of its schemas."""

    def __init__(self) -> None:
        rows = every_route()
        self.document = openapi_document(rows)
        self._components = _strict(self.document["components"])
        self._validators: dict[str, Draft202012Validator] = {}
        self._seen: Counter[tuple[str, str, int]] = Counter()
        paths = self.document["paths"]
        self._operations = [
            (row, _pattern(row.path), paths[spelled(row.path)][row.method.lower()]["responses"])
            for row in sorted(rows, key=lambda row: row.path.count("{"))
            if row.about is not None
        ]

    def check(self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Assert that the answer is one that the description has. Other routes pass."""
        wanted = "GET" if method == "HEAD" else method
        bare = path.partition("?")[0]
        parts = ["*" if len(part) > 16 else part for part in bare.split("/")]  # longer ones are ids
        kind = method, "/".join(parts), status
        self._seen[kind] += 1
        if self._seen[kind] > _ENOUGH:
            return
        found = [(row, responses) for row, pattern, responses in self._operations if pattern.fullmatch(bare)]
        for row, responses in found:
            if row.method == wanted and row.path.count("{") == found[0][0].path.count("{"):
                self._check(row.name, responses, method, status, headers, body)
                return

    def validator(self, schema: Mapping[str, Any]) -> Draft202012Validator:
        """A validator of a schema in the document, which knows no other members than it has."""
        key = orjson.dumps(schema).decode()
        if key not in self._validators:
            self._validators[key] = Draft202012Validator({**_strict(schema), "components": self._components})
        return self._validators[key]

    def _check(
        self, name: str, responses: Any, method: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        where = f"{method} {name} {status}"
        media_type = headers.get("Content-Type", "").partition(";")[0]
        has_problem = media_type == "application/problem+json" and body
        if has_problem and str(orjson.loads(body)["type"]).rpartition(":")[2] in _ANYWHERE:
            return
        if method == "HEAD" and status == 405:
            return
        response = responses.get(str(status))
        assert response is not None, f"{where} is not described: {body[:300]!r}"
        components = self.document["components"]
        if "$ref" in response:
            response = components["responses"][response["$ref"].rpartition("/")[2]]
        for name, header in response.get("headers", {}).items():
            required = components["headers"][header["$ref"].rpartition("/")[2]].get("required")
            assert not required or name in headers, f"{where} lacks {name}"
        content = response.get("content")
        if content is None or method == "HEAD":
            assert body == b"", where
            return
        assert media_type in content, f"{where} is {media_type}, and should be one of {list(content)}"
        if media_type.endswith("json"):
            errors = list(self.validator(content[media_type]["schema"]).iter_errors(_read(body)))
            assert not errors, f"{where}: {errors[0]}"


@cache
def description() -> Description:
    return Description()


def _pattern(path: str) -> re.Pattern[str]:
    """Of paths of a route: a parameter has the form that it names, or is any part of a path."""
    texts = re.split(r"(\{\w+(?::(?:[^{}]|\{[^{}]*\})*)?\})", path)
    for place, parameter in enumerate(texts):
        form = parameter[1:-1].partition(":")[2] or "[^/]+"
        texts[place] = f"(?:{form})" if place % 2 else re.escape(parameter)
    return re.compile("".join(texts))


def _strict(schema: Any) -> Any:
    """The schema with no other members of an object than it names."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _strict(each) for name, each in schema.items()}
    if kept.get("type") == "object" and "properties" in kept:
        kept.setdefault("additionalProperties", False)
    return kept


def _read(body: bytes) -> Any:
    """The JSON of an answer. Python reads no whole number of more than 4,300 digits: it is cut off."""
    return json.loads(body, parse_int=lambda digits: int(digits[:4_000]))


def every_failure() -> list[type[BridgeError]]:
    """All subclasses of the kernel's kinds, and the kinds; every module is imported for it."""
    for module in pkgutil.walk_packages(bridge_server.__path__, "bridge_server."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    return [kind for kind in _descendants(BridgeError) if kind.__module__.startswith("bridge_server.")]


def _descendants(kind: type[BridgeError]) -> Iterator[type[BridgeError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
