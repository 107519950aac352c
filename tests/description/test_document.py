"""The OpenAPI document: it is valid, every route is in it, and its examples are of their own shapes."""

import re
from collections.abc import Iterator
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator

from bridge_server.assembly.application import every_route
from bridge_server.kernel.errors import BridgeError
from bridge_server.web.problems import REFUSALS
from tests.support.described import description
from tests.support.rows import each_row
from tests.support.slow import slow

DOCUMENT = description().document
OPERATIONS_BY_ID: dict[str, Any] = {
    operation["operationId"]: operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
}


def contents(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each content of a body or an answer that has an example."""
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for body in bodies:
        yield from (each for each in body.get("content", {}).values() if "example" in each)


def subclasses(kind: type[BridgeError]) -> Iterator[type[BridgeError]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


@slow
def test_the_document_is_openapi_3_1() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []


def test_every_route_is_described_once_and_nothing_else_is() -> None:
    names = [row.name for row in every_route() if row.who != "reader"]

    assert sorted(OPERATIONS_BY_ID) == sorted(names)


def test_every_schema_has_a_plain_name_of_its_own() -> None:
    names = DOCUMENT["components"]["schemas"]

    assert [name for name in names if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []


@each_row("name", OPERATIONS_BY_ID)
def test_an_operation_says_what_it_does(name: str) -> None:
    operation = OPERATIONS_BY_ID[name]

    assert 0 < len(operation["summary"]) <= 60
    assert not operation["summary"].endswith(".")
    assert operation["description"].endswith(".")
    assert "\n" not in operation["description"]
    assert all(each.get("description", "x").endswith((".", "`")) for each in operation.get("parameters", ()))
    assert all(
        each["name"] in {tag["name"] for tag in DOCUMENT["tags"]}
        for each in [{"name": t} for t in operation["tags"]]
    )


@each_row("name", OPERATIONS_BY_ID)
def test_an_example_is_of_its_shape(name: str) -> None:
    for content in contents(OPERATIONS_BY_ID[name]):
        errors = list(description().validator(content["schema"]).iter_errors(content["example"]))
        assert errors == []


@each_row("name", OPERATIONS_BY_ID)
def test_an_example_of_a_parameter_is_of_its_shape(name: str) -> None:
    parameters = OPERATIONS_BY_ID[name].get("parameters", ())

    for parameter in parameters:
        assert "example" in parameter or parameter["in"] != "path"
        if "example" in parameter:
            assert list(description().validator(parameter["schema"]).iter_errors(parameter["example"])) == []


def test_every_problem_of_an_operation_is_a_response_with_its_code() -> None:
    responses, schemas = DOCUMENT["components"]["responses"], DOCUMENT["components"]["schemas"]
    own = {kind.code for row in every_route() if row.about is not None for kind in row.about.problems}

    assert own <= responses.keys()
    assert {code for code, _ in REFUSALS.values()} <= responses.keys()
    for code, response in responses.items():
        reference = response["content"]["application/problem+json"]["schema"]["$ref"]
        schema = schemas[reference.rpartition("/")[2]]
        assert schema["properties"]["type"]["const"] == f"urn:bridge-server:problem:{code}"


def test_problems_that_two_rooms_name_alike_have_one_status() -> None:
    kinds: dict[str, set[int]] = {}
    for operation in OPERATIONS_BY_ID.values():
        for status, response in operation["responses"].items():
            if "$ref" in response:
                kinds.setdefault(response["$ref"].rpartition("/")[2], set()).add(int(status))

    assert [code for code, statuses in kinds.items() if len(statuses) > 1] == []


def test_a_described_room_names_only_failures_that_http_answers() -> None:
    codes = {kind.code for kind in subclasses(BridgeError)}

    assert set(DOCUMENT["components"]["responses"]) - codes == {
        "bad-request", "target-too-long", "header-field-too-long", "method-not-allowed", "server-error"
    }  # fmt: skip
