"""Ids in paths: capabilities of up to 128 characters; what does not look like one names nothing."""

from tests.support.asking import ask
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row

PLACES = [
    ("GET", "/session/{}"),
    ("PUT", "/session/{}"),
    ("DELETE", "/session/{}"),
    ("GET", "/session/{}/calls"),
    ("POST", "/session/{}/call/new"),
    ("GET", "/session/{}/call/0192"),
    ("GET", "/session/KNOWN/call/{}"),
    ("GET", "/call-status/{}"),
    ("POST", "/call-status/{}/new"),
]
ODD_IDS = [
    "",
    "%00",
    "%ff",
    "%2f",
    "%2e%2e",
    "%20",
    "%0a",
    "a%0a",
    "%0d%0aX-Injected:%201",
    "%F0%9F%98%80",
    "%C3%A9",
    "%D9%A3",
    "..",
    ".",
    "{x}",
    "%7Bx%7D",
    "*",
    "a;b",
    "a.b",
    "%",
    "%zz",
    "a%2Fcalls",
    "'%20OR%201=1--",
]


@each_row(("method", "place"), PLACES)
async def test_an_id_that_names_nothing_is_404_at_every_length(
    bridge: BridgeClient, session_id: str, method: str, place: str
) -> None:
    for length in (1, 128, 129, 2000):
        path = place.replace("KNOWN", session_id).format("a" * length)

        answer = await ask(bridge.server, method, path, b'{"encryptionPayload":"","dappName":"Dapp"}')

        answer.problem(404)


@each_row("odd_id", ODD_IDS)
async def test_a_malformed_id_is_answered_with_a_problem(
    bridge: BridgeClient, session_id: str, odd_id: str
) -> None:
    for method, place in PLACES:
        path = place.replace("KNOWN", session_id).format(odd_id)

        answer = await ask(bridge.server, method, path, b'{"encryptionPayload":"","dappName":"Dapp"}')

        assert answer.status == 404 or odd_id == ""  # then slashes merge, and «new» may be the id
        answer.problem(405 if answer.status == 405 else 404)


async def test_an_id_of_128_characters_is_looked_up_and_a_longer_one_is_no_route(
    bridge: BridgeClient,
) -> None:
    looked_up = (await bridge.session("a" * 128)).problem(404)
    no_route = (await bridge.session("a" * 129)).problem(404)

    assert looked_up["type"].endswith(":session-not-found")
    assert no_route["type"].endswith(":not-found")


async def test_an_id_may_be_percent_encoded(bridge: BridgeClient, session_id: str) -> None:
    encoded = "".join(f"%{ord(letter):02x}" for letter in session_id)

    assert (await bridge.session(encoded)).status == 204


async def test_the_case_of_an_id_matters(bridge: BridgeClient) -> None:
    session_id = next(i for i in [await bridge.open_session() for _ in range(20)] if i.upper() != i)

    (await bridge.session(session_id.upper())).problem(404)


async def test_a_call_is_found_under_its_own_session_only(bridge: BridgeClient) -> None:
    own, other = await bridge.open_session(), await bridge.open_session()
    call_id = await bridge.request_call(own)

    (await bridge.call(other, call_id)).problem(404)
    (await bridge.call("0192", call_id)).problem(404)
    assert (await bridge.call(own, call_id)).status == 200
