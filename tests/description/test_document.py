"""The OpenAPI document: valid, whole, with examples of their own shapes; and where it is read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import TypeAdapter

from bridge_server.assembly.application import every_route
from bridge_server.cli.commands import commands
from bridge_server.description.document import (
    NewCallMessage,
    NotificationNotice,
    RequestNotice,
    SubscriptionMessage,
    TopicMessage,
    WebhookTestMessage,
)
from bridge_server.kernel.errors import BridgeError
from bridge_server.projects.models import (
    ProjectId,
    Subscription,
    SubscriptionChange,
    SubscriptionEvent,
    TypeId,
)
from bridge_server.projects.subscriptions import write_event
from bridge_server.relay.models import CallId, PushDetails, SessionId
from bridge_server.relay.wire import write_push_notice, write_topic_notice
from bridge_server.web.problems import REFUSALS
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import ask
from tests.support.described import description
from tests.support.inbox_client import sign_in
from tests.support.needs import slow
from tests.support.push_client import PushClient
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver

DOCUMENT = description().document
OPERATIONS_BY_ID: dict[str, Any] = {
    operation["operationId"]: operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
}
WEBHOOKS: dict[str, Any] = description().document["webhooks"]
SUBSCRIPTION = Subscription("test:chain:a", (TypeId("news"),), 0, follows_all=True)
PUSH = PushDetails("fcm", "t", "https://a.example")
HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"]


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
    paths = [*DOCUMENT["paths"].values(), *WEBHOOKS.values()]
    every = [operation["operationId"] for path in paths for operation in path.values()]

    assert sorted(OPERATIONS_BY_ID) == sorted(names)
    assert len(every) == len(set(every))


@each_row("name", OPERATIONS_BY_ID)
def test_an_operation_says_what_it_does(name: str) -> None:
    operation, tags = OPERATIONS_BY_ID[name], {tag["name"] for tag in DOCUMENT["tags"]}

    assert 0 < len(operation["summary"]) <= 60
    assert not operation["summary"].endswith(".")
    assert operation["description"].endswith(".")
    assert "\n" not in operation["description"]
    assert all(each.get("description", "x").endswith((".", "`")) for each in operation.get("parameters", ()))
    assert set(operation["tags"]) <= tags


def test_an_example_is_of_its_shape() -> None:
    def errors(schema: Any, example: object) -> list[Any]:
        return list(description().validator(schema).iter_errors(example))

    for name, operation in OPERATIONS_BY_ID.items():
        for content in contents(operation):
            assert errors(content["schema"], content["example"]) == [], name
        for parameter in operation.get("parameters", ()):
            assert "example" in parameter or parameter["in"] != "path", name
            if "example" in parameter:
                assert errors(parameter["schema"], parameter["example"]) == [], (name, parameter["name"])


def test_every_problem_of_an_operation_is_a_response_with_its_code() -> None:
    responses, schemas = DOCUMENT["components"]["responses"], DOCUMENT["components"]["schemas"]
    own = {kind.code for row in every_route() if row.about is not None for kind in row.about.problems}

    assert own <= responses.keys()
    assert {code for code, _ in REFUSALS.values()} <= responses.keys()
    for code, response in responses.items():
        reference = response["content"]["application/problem+json"]["schema"]["$ref"]
        schema = schemas[reference.rpartition("/")[2]]
        assert schema["properties"]["type"]["const"] == f"urn:bridge-server:problem:{code}"


def test_a_described_room_names_only_failures_that_http_answers() -> None:
    codes = {kind.code for kind in subclasses(BridgeError)}

    assert set(DOCUMENT["components"]["responses"]) - codes == {
        "bad-request", "target-too-long", "header-field-too-long", "method-not-allowed", "server-error"
    }  # fmt: skip


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"admin_token": ADMIN_TOKEN, "console": True, "allow_private_webhooks": True}


@each_row(
    ("shape", "sent"),
    [
        (NewCallMessage, write_push_notice(SessionId("s"), CallId("c"), PUSH, "Shop")),
        (TopicMessage, write_topic_notice("s")),
        *((SubscriptionMessage, write_event(SubscriptionEvent(change, ProjectId("shop"), SUBSCRIPTION, 7, 0)))
          for change in SubscriptionChange),
    ],
)  # fmt: skip
def test_a_message_has_its_shape(shape: type, sent: bytes) -> None:
    assert TypeAdapter(shape).validate_json(sent) == orjson.loads(sent)


async def test_a_message_to_a_device_or_of_a_test_has_its_shape(
    server: RunningServer, receiver: WebhookReceiver
) -> None:
    admin, push, inbox = AdminClient(server), PushClient(server), await sign_in(server)
    await push.register(type="webhook", token=receiver.url("/request"))
    await push.push()
    secret = await admin.create("shop", "news")
    await inbox.subscribe("shop")
    await inbox.add_device("webhook", receiver.url("/notification"))
    await admin.notify("shop", secret, "news", inbox.account)
    await admin.post("/admin/webhooks/test", {"url": receiver.url("/test")})
    await receiver.got(3)

    for path, shape in (
        ("/request", RequestNotice), ("/notification", NotificationNotice), ("/test", WebhookTestMessage),
    ):  # fmt: skip
        [sent] = [each for each in receiver.requests if each.path == path]
        assert TypeAdapter(shape).validate_json(sent.body) == orjson.loads(sent.body)
        assert {*HEADERS[:2]} <= {name.lower() for name in sent.headers}


def test_each_webhook_has_an_example_and_the_header_fields_of_standard_webhooks() -> None:
    assert list(WEBHOOKS) == [
        "new-call", "new-call-of-topic", "subscription-changed", "request-push", "notification-push",
        "webhook-test",
    ]  # fmt: skip
    for webhook in WEBHOOKS.values():
        (content,) = webhook["post"]["requestBody"]["content"].values()
        parameters = webhook["post"]["parameters"]
        assert content["example"]
        assert [parameter["name"] for parameter in parameters] == HEADERS
        assert [parameter["required"] for parameter in parameters] == [True, True, False]


async def test_the_document_may_be_kept_must_be_asked_about_and_read_by_any_page(
    server: RunningServer,
) -> None:
    path = "/openapi.json"
    first = await ask(server, "GET", path, headers={"Origin": "https://docs.example.org"})
    again = await ask(server, "GET", path, headers={"If-None-Match": first.headers["ETag"]})
    other = await ask(server, "GET", path, headers={"If-None-Match": '"another"'})
    head = await ask(server, "HEAD", path)

    assert first.headers["Cache-Control"] == again.headers["Cache-Control"] == "no-cache"
    assert first.headers["Access-Control-Allow-Origin"] == "*"
    assert first.json["openapi"] == "3.1.0"
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert other.body == first.body
    assert (head.status, head.body, head.headers["ETag"]) == (200, b"", first.headers["ETag"])
    assert int(head.headers["Content-Length"]) == len(first.body)


async def test_the_document_has_the_routes_that_the_settings_turn_on(
    server: RunningServer, tmp_path: Path
) -> None:
    full = (await ask(server, "GET", "/openapi.json")).json
    async with running_server(tmp_path / "data") as without_operator:
        plain = (await ask(without_operator, "GET", "/openapi.json")).json

    assert "/session/new" in plain["paths"]
    assert "/admin/projects" not in plain["paths"]
    assert "adminToken" not in plain["components"]["securitySchemes"]
    assert "/admin/projects" in full["paths"]
    assert [path for path in full["paths"] if path.startswith("/console")] == []
    assert plain["paths"]["/session/new"]["post"]["security"] == []
    notify = plain["paths"]["/{project_id}/notify"]["post"]
    assert notify["security"] == [{"projectSecret": []}]
    assert notify["responses"].keys() >= {"200", "400", "401", "413", "415", "429", "503"}


def test_the_command_prints_every_route_without_server_and_settings(tmp_path: Path) -> None:
    environment = {"BRIDGE_PORT": "no port", "BRIDGE_DATA_DIR": str(tmp_path / "data")}

    result = CliRunner(env=environment).invoke(commands, ["openapi"])

    assert (result.exit_code, list(tmp_path.iterdir())) == (0, [])
    assert orjson.loads(result.output) == description().document
