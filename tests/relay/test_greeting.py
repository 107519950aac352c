"""What the server says of itself."""

import re

from tests.support.bridge_client import BridgeClient


async def test_the_greeting_names_a_version_1(bridge: BridgeClient) -> None:
    answer = await bridge.get("/hello")

    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert re.fullmatch(rb"Hello World, this is Bridge Server v1\.\d+\.\d+", answer.body)


async def test_the_information_has_the_greetings_version(bridge: BridgeClient) -> None:
    greeting = (await bridge.get("/hello")).body.decode()

    information = (await bridge.get("/info")).json

    assert list(information) == ["name", "repository", "version"]
    assert information["name"] == "Bridge Server"
    assert information["repository"].startswith("https://")
    assert greeting.endswith(f" v{information['version']}")
