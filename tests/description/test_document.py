"""The OpenAPI document: valid, whole, with examples of their own shapes; and where it is read."""

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
from tests.support.described import description, every_failure
from tests.support.inbox_client import sign_in
from tests.support.needs import slow
from tests.support.push_client import PushClient
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver

DOCUMENT = description().document
OPERATIONS_BY_ID: dict[str, Any] = {
    operation["operationId"]: operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
}
WEBHOOKS: dict[str, Any] = DOCUMENT["webhooks"]
HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"]


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


def test_an_operation_says_what_it_does_and_its_examples_are_of_their_shapes() -> None:
    tags = {tag["name"] for tag in DOCUMENT["tags"]}

    def errors(described: dict[str, Any]) -> list[Any]:
        return list(description().validator(described["schema"]).iter_errors(described["example"]))

    for name, operation in OPERATIONS_BY_ID.items():
        assert 0 < len(operation["summary"]) <= 60, name
        assert not operation["summary"].endswith("."), name
        assert operation["description"].endswith("."), name
        assert "\n" not in operation["description"], name
        assert set(operation["tags"]) <= tags, name
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description", "x").endswith((".", "`")), (name, parameter["name"])
            assert "example" in parameter or parameter["in"] != "path", name
            assert "example" not in parameter or errors(parameter) == [], (name, parameter["name"])
        for body in (operation.get("requestBody", {}), *operation["responses"].values()):
            for content in body.get("content", {}).values():
                assert "example" not in content or errors(content) == [], name


def test_every_problem_of_an_operation_is_a_response_with_its_code() -> None:
    responses, schemas = DOCUMENT["components"]["responses"], DOCUMENT["components"]["schemas"]
    own = {kind.code for row in every_route() if row.about is not None for kind in row.about.problems}
    assert own | {code for code, _ in REFUSALS.values()} <= responses.keys()
    for code, response in responses.items():
        reference = response["content"]["application/problem+json"]["schema"]["$ref"]
        schema = schemas[reference.rpartition("/")[2]]
        assert schema["properties"]["type"]["const"] == f"urn:bridge-server:problem:{code}"
    assert set(responses) - {kind.code for kind in every_failure()} == {  # what no room answers
        "bad-request", "target-too-long", "header-field-too-long", "method-not-allowed", "server-error"
    }  # fmt: skip


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"admin_token": ADMIN_TOKEN, "console": True, "allow_private_webhooks": True}


def test_a_message_has_its_shape() -> None:
    call = write_push_notice(
        SessionId("s"), CallId("c"), PushDetails("fcm", "t", "https://a.example"), "Shop"
    )
    sent: list[tuple[Any, bytes]] = [(NewCallMessage, call), (TopicMessage, write_topic_notice("s"))]
    subscription = Subscription("test:chain:a", (TypeId("news"),), 0, follows_all=True)
    for change in SubscriptionChange:
        event = SubscriptionEvent(change, ProjectId("shop"), subscription, 7, 0)
        sent.append((SubscriptionMessage, write_event(event)))
    for shape, message in sent:
        assert TypeAdapter(shape).validate_json(message) == orjson.loads(message)


async def test_a_message_to_a_device_has_its_shape(server: RunningServer, receiver: WebhookReceiver) -> None:
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


async def test_the_document_may_be_kept_asked_about_and_read_by_any_page(server: RunningServer) -> None:
    path = "/openapi.json"
    first = await ask(server, "GET", path, headers={"Origin": "https://docs.example.org"})
    again = await ask(server, "GET", path, headers={"If-None-Match": first.headers["ETag"]})
    other = await ask(server, "GET", path, headers={"If-None-Match": '"another"'})
    head = await ask(server, "HEAD", path)
    assert first.headers["Cache-Control"] == again.headers["Cache-Control"] == "no-cache"
    assert first.headers["Access-Control-Allow-Origin"] == "*"
    assert first.json["openapi"] == "3.1.0"
    assert (again.status, again.body, other.body) == (304, b"", first.body)
    assert (head.status, head.body) == (200, b"")
    assert first.headers["ETag"] == again.headers["ETag"] == head.headers["ETag"]
    assert int(head.headers["Content-Length"]) == len(first.body)


async def test_the_document_has_the_routes_of_the_settings(server: RunningServer, tmp_path: Path) -> None:
    full = (await ask(server, "GET", "/openapi.json")).json
    async with running_server(tmp_path / "data") as without_operator:
        plain = (await ask(without_operator, "GET", "/openapi.json")).json
    admins = ["/admin/projects" in document["paths"] for document in (plain, full)]
    assert admins == [False, True]
    assert "adminToken" not in plain["components"]["securitySchemes"]
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
