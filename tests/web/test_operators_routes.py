"""What operators ask: is it alive, is it ready, what has it counted; the last for the bearer of a token."""

import pytest
from multidict import CIMultiDict

from tests.support.asking import Answer, ask
from tests.support.figures import METRICS_TOKEN
from tests.support.raw_http import ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer


async def metrics(server: RunningServer, *authorizations: str) -> Answer:
    headers = CIMultiDict([("Authorization", value) for value in authorizations])
    return await ask(server, "GET", "/metrics", headers=headers)


@each_row(("path", "word"), [("/livez", b"alive\n"), ("/readyz", b"ready\n")])
async def test_a_server_that_works_says_so(server: RunningServer, path: str, word: bytes) -> None:
    answer = await ask(server, "GET", path)

    assert (answer.status, answer.body) == (200, word)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.own_server
async def test_the_bearer_of_the_token_reads_the_metrics(server: RunningServer, scheme: str) -> None:
    await ask(server, "GET", "/nope")

    answer = await metrics(server, f"{scheme} {METRICS_TOKEN}")

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert 'bridge_http_requests_total{route="unrouted",status="404"} 1.0\n' in answer.body.decode()


@each_row(
    "authorizations",
    [
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
        ["Bearer wrong"],
        [METRICS_TOKEN],
        [f"Basic {METRICS_TOKEN}"],
        [f"Bearer{METRICS_TOKEN}"],
        [f"Bearer {METRICS_TOKEN}x"],
        [f"Bearer {METRICS_TOKEN[:-1]}"],
        [f"Bearer {METRICS_TOKEN.upper()}"],
        [f"Bearer, {METRICS_TOKEN}"],
        [f"Bearer {METRICS_TOKEN}, Bearer {METRICS_TOKEN}"],
        [f'Bearer "{METRICS_TOKEN}"'],
        ["Bearer é😀"],
        [f"Bearer {METRICS_TOKEN}", f"Bearer {METRICS_TOKEN}"],
        ["Bearer wrong", f"Bearer {METRICS_TOKEN}"],
        [f"Bearer {METRICS_TOKEN}", "Bearer wrong"],
    ],
)
async def test_every_other_authorization_has_an_equal_answer(
    server: RunningServer, authorizations: list[str]
) -> None:
    nothing = (await metrics(server)).problem(401)

    answer = await metrics(server, *authorizations)

    assert {**answer.problem(401), "instance": ""} == {**nothing, "instance": ""}
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_token_of_bytes_that_are_no_text_is_wrong(server: RunningServer) -> None:
    answer = await ask_raw(server, spell("GET", "/metrics", b"", b"Authorization: Bearer \xff\xfe"))

    answer.problem(401)


async def test_without_a_token_in_the_settings_there_are_no_metrics(other_server: RunningServer) -> None:
    (await metrics(other_server, f"Bearer {METRICS_TOKEN}")).problem(404)
