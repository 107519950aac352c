"""The example of every operation is sent to a server that has what it names."""

from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from tests.description.test_document import DOCUMENT
from tests.description.world import WORLD_SETTINGS, World, made_world, signed_message
from tests.support.asking import ask
from tests.support.server import RunningServer

ENDING = {
    "end-session", "v0.7-end-session", "end-shown-session", "inbox-logout", "inbox-unsubscribe",
    "unsubscribe-account", "delete-project", "revoke-secret", "remove-type", "approve", "reject",
    "drop-message", "retry-message", "test-reset",
}  # fmt: skip
"""Operations after whose example other examples fail."""
NEW_VALUES = {"create-project": {"example-app": "another-app"}, "add-type": {"price-alert": "new-type"}}
"""What exists already, and so must be named otherwise."""

CALLS = [
    pytest.param(
        path, method, id=operation["operationId"],
        marks=[pytest.mark.own_server] * (operation["operationId"] in ENDING),
    )
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]  # fmt: skip


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """A server in test mode with all that its settings can turn on."""
    return WORLD_SETTINGS


@pytest.fixture
def _emptied_server(_shared_server: RunningServer) -> RunningServer:
    """The examples share one world, which no reset empties."""
    return _shared_server


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    """The world of each server, which is made once."""
    return {}


@pytest.fixture
async def world(server: RunningServer, worlds: dict[str, World]) -> World:
    if server.url not in worlds:
        worlds[server.url] = await made_world(server)
    return worlds[server.url]


def put_in(value: Any, values: dict[str, str]) -> Any:
    """The value of an example with those that the server has."""
    if isinstance(value, dict):
        return {name: put_in(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [put_in(each, values) for each in value]
    return values.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize(("path", "method"), CALLS)
async def test_the_example_is_answered_as_it_is_described(world: World, path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    name = operation["operationId"]
    values = {**world.values, **NEW_VALUES.get(name, {})}
    sent: dict[str, Any] = {"path": {}, "query": {}, "header": {}}
    for parameter in operation.get("parameters", ()):
        if "example" in parameter:
            sent[parameter["in"]][parameter["name"]] = put_in(parameter["example"], values)
    if name in world.numbers:
        sent["path"]["number"] = world.numbers[name]
    for parameter, value in sent["path"].items():
        path = path.replace(f"{{{parameter}}}", quote(value, safe=":"))
    tokens = [world.tokens[each] for scheme in operation["security"] for each in scheme if each != "rpcToken"]
    headers = {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    body = None if content is None else put_in(content["example"], values)
    if name == "inbox-login":
        body = await signed_message(world)
    query = f"?{urlencode(sent['query'])}" if sent["query"] else ""

    if "x-event-stream" in operation:
        async with world.server.client.get(f"{world.server.url}{path}{query}", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
        return
    answer = await ask(
        world.server, method.upper(), path + query, None if body is None else orjson.dumps(body), headers
    )

    assert answer.status in (200, 204), answer
