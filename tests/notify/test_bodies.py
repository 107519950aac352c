"""Bodies of the notification service: JSON of at most 512 KiB, and nothing that a client sends is an error
of the server's.
"""

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import Answer, ask
from tests.support.project import METHODS, App, a_notification, account, look, opened_app
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.web import inputs

LIMIT = 524_288
A = account(1)
WITH_A_BODY = ["notify", "lookup"]
TABLES = ["notifications", "sendings", "deliveries", "covered_accounts", "account_buckets", "outbox"]
in_module = pytest.mark.asyncio(loop_scope="module")


def body_of(size: int) -> bytes:
    """A body that either endpoint takes, of exactly so many bytes."""
    fields = {"notification": a_notification(), "accounts": [A], "ignored": ""}
    return orjson.dumps({**fields, "ignored": "x" * (size - len(orjson.dumps(fields)))})


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


async def post(app: App, endpoint: str, body: bytes, content_type: str | None, **headers: str) -> Answer:
    sent = {"Authorization": f"Bearer {app.secret}", **headers}
    return await ask(app.server, "POST", app.paths[endpoint], body, sent, content_type=content_type)


@each_row("endpoint", WITH_A_BODY)
@each_row(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413), (1_000_000, 413)])
async def test_a_body_has_at_most_512_kib(app: App, endpoint: str, size: int, status: int) -> None:
    declared = await post(app, endpoint, body_of(size), "application/json")
    headers = {"Authorization": f"Bearer {app.secret}", "Content-Type": "application/json"}
    url = app.server.url + app.paths[endpoint]
    async with app.server.client.post(url, data=pieces(body_of(size)), headers=headers) as response:
        assert "Transfer-Encoding" in response.request_info.headers
        in_chunks = response.status

    assert (declared.status, in_chunks) == (status, status)
    if status == 413:
        assert str(LIMIT) in declared.problem(413)["detail"]


async def test_unauthenticated_large_body_is_401_not_413(app: App) -> None:
    for endpoint in WITH_A_BODY:
        answer = await ask(app.server, METHODS[endpoint], app.paths[endpoint], bytes(LIMIT + 1))

        answer.problem(401)


async def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    async with running_server(tmp_path, notify_body_limit=1_000) as server, opened_app(server) as app:
        statuses = [(await post(app, "notify", body_of(size), None)).status for size in (1_000, 1_001)]

    assert statuses == [200, 413]


@each_row("endpoint", WITH_A_BODY)
async def test_a_body_is_json_whatever_it_is_declared_as(app: App, endpoint: str) -> None:
    declared = [None, "application/json", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""]

    assert {(await post(app, endpoint, body_of(200), each)).status for each in declared} == {200}
    (await post(app, endpoint, b"title=text", "text/plain")).problem(400)


@each_row("endpoint", WITH_A_BODY)
async def test_an_encoded_body_is_415(app: App, endpoint: str) -> None:
    encoding = {"Content-Encoding": "gzip"}

    answer = await post(app, endpoint, gzip.compress(body_of(200)), "application/json", **encoding)

    answer.problem(415)


@each_row("endpoint", WITH_A_BODY)
@each_row(
    "body",
    [
        b"", b"null", b"[]", b'"x"', b"{", b'{"accounts":NaN}', b'{"accounts":[],"accounts":[]}',
        b'{"accounts":["\xff"]}', b'{"x":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
        b'{"x":' + b"9" * 100_000 + b"}", b"[" * 500_000,
    ],
)  # fmt: skip
async def test_body_other_than_a_strict_json_object_is_400(app: App, endpoint: str, body: bytes) -> None:
    answer = await post(app, endpoint, body, "application/json")

    assert "errors" not in answer.problem(400)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """One project for all that is sent here."""
    async with running_server(tmp_path_factory.mktemp("any") / "data") as server, opened_app(server) as app:
        await app.subscribe(A)
        yield app


contents = st.fixed_dictionaries(
    {
        "type": st.one_of(st.just("news"), inputs.values),
        "title": st.one_of(st.text(min_size=1, max_size=70), inputs.values),
        "body": st.one_of(st.text(min_size=1, max_size=300), inputs.values),
    },
    optional={"url": st.one_of(st.just("https://example.org/"), inputs.values)},
)
requests = st.fixed_dictionaries(
    {
        "notification": st.one_of(contents, contents, inputs.values),
        "accounts": st.one_of(
            st.lists(st.one_of(st.just(A), st.text(max_size=60)), max_size=4), st.just([A]), inputs.values
        ),
    },
    optional={"notification_id": st.one_of(st.none(), st.text(max_size=4), inputs.values)},
)
bodies = st.one_of(
    requests.map(lambda fields: json.dumps(fields).encode()),
    requests.map(lambda fields: json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    inputs.bodies,
)


def rows(app: App) -> list[tuple[Any, ...]]:
    return [look(app.server, f"SELECT count(*) FROM {table}")[0] for table in TABLES]


@in_module
@given(body=bodies, endpoint=st.sampled_from(WITH_A_BODY))
async def test_any_body_is_answered_well_and_stores_nothing_if_it_is_refused(
    busy_app: App, body: bytes, endpoint: str
) -> None:
    busy_app.server.clock.advance(3_600)
    before = rows(busy_app)

    answer = await post(busy_app, endpoint, body, "application/json")

    if answer.status != 200:
        answer.problem(400)
        assert rows(busy_app) == before
    elif endpoint == "notify":
        fields = orjson.loads(body)
        lists = answer.json
        told = [*lists["sent"], *lists["not_found"], *(failure["account"] for failure in lists["failed"])]
        assert sorted(told) == sorted(set(fields["accounts"]))
