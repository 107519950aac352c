"""Access to the admin API: only for the bearer of the admin token, never for a web page."""

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.admin.table import ANSWERS_WITHOUT_ROWS, ENDPOINTS, PROJECT, ROUTES, VALID_BODIES
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import Answer, ask
from tests.support.raw_http import ask_raw, spell
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

BEARER = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture(scope="module")
async def server_without_token(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    """A server that has no admin token, for tests that change nothing in it."""
    async with running_server(tmp_path_factory.mktemp("closed") / "data") as server:
        yield server


async def attempt(
    server: RunningServer, method: str, path: str, headers: dict[str, str] | None = None
) -> Answer:
    fields = VALID_BODIES.get((method, path))
    return await ask(server, method, path, None if fields is None else orjson.dumps(fields), headers)


@each_row(("method", "path"), ENDPOINTS, empties=True)
async def test_every_request_without_the_token_gets_an_identical_401(
    admin: AdminClient, method: str, path: str
) -> None:
    secret = await admin.create("app", "news")
    before = (await admin.get(PROJECT)).body
    nothing = (await attempt(admin.server, "GET", "/admin/projects")).problem(401)

    for sent in (None, "Bearer wrong", f"Bearer {secret}", f"Bearer {ADMIN_TOKEN}x", ADMIN_TOKEN, "Bearer"):
        headers = {} if sent is None else {"Authorization": sent}
        answer = await attempt(admin.server, method, path, headers)

        assert {**answer.problem(401), "instance": ""} == {**nothing, "instance": ""}
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert (await admin.get(PROJECT)).body == before


@each_row(("method", "path"), sorted(ENDPOINTS, key=lambda endpoint: endpoint == ("POST", "/admin/projects")))
@pytest.mark.own_server
async def test_the_bearer_of_the_token_is_let_in(admin: AdminClient, method: str, path: str) -> None:
    answer = await attempt(admin.server, method, path, BEARER)

    is_there = path in ANSWERS_WITHOUT_ROWS
    assert answer.status == (200 if is_there else 404)


@each_row(("method", "path"), ENDPOINTS)
async def test_a_server_without_the_token_has_no_admin_api(
    server_without_token: RunningServer, method: str, path: str
) -> None:
    answer = await attempt(server_without_token, method, path, BEARER)

    assert answer.problem(404)["type"].endswith(":not-found")


@each_row(("path", "methods"), ROUTES.items())
async def test_a_method_that_a_path_does_not_take_is_405_with_the_methods_that_it_takes(
    admin: AdminClient, path: str, methods: set[str]
) -> None:
    allowed = methods | ({"HEAD"} if "GET" in methods else set())

    for method in sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - methods):
        answer = await ask(admin.server, method, path, b"{}", BEARER)

        answer.problem(405)
        assert answer.headers["Allow"] == ", ".join(sorted(allowed))


async def test_no_web_page_may_read_an_answer(admin: AdminClient) -> None:
    answer = await ask(
        admin.server, "GET", "/admin/projects", headers={**BEARER, "Origin": "https://page.example"}
    )

    assert answer.json == {"projects": []}
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@each_row(("method", "path"), VALID_BODIES)
async def test_a_body_may_be_as_large_as_the_setting_says(tmp_path: Path, method: str, path: str) -> None:
    fields = orjson.dumps(VALID_BODIES[method, path])
    async with running_server(tmp_path, admin_token=ADMIN_TOKEN, notify_body_limit=200) as server:
        fits = await ask(server, method, path, fields.ljust(200), BEARER)
        larger = await ask(server, method, path, fields.ljust(201), BEARER)

    assert fits.status in (200, 404)
    larger.problem(413)


@each_row(
    "path",
    [
        "/admin/projects/%ff%fe",
        "/admin/projects/%ed%a0%80",
        "/admin/projects/%00",
        "/admin/projects/a%2Fb",
        "/admin/projects/app%0A",
        "/admin/projects/{app}",
        "/admin/projects/" + "a" * 128,
        "/admin/projects/" + "a" * 129,
        "/admin/projects/%ff/types/%ff",
        "/admin/projects/app/types/%ed%a0%80",
        "/admin/projects/app/secrets/999999999999999999",
        "/admin/projects/app/secrets/9999999999999999999",
        "/admin/projects/app/secrets/-1",
        "/admin/projects/app/secrets/%D9%A1",
        "/admin/projects/app/secrets/one",
        "/admin/projects/app/subscribers/" + "a" * 500,
    ],
    empties=True,
)
async def test_ids_that_nothing_has_are_404(admin: AdminClient, path: str) -> None:
    await admin.create("app", "news")

    (await admin.delete(path)).problem(404)


async def test_a_path_of_bytes_that_are_no_text_names_nothing(admin: AdminClient) -> None:
    request = spell("GET", "/admin/projects/PLACE", b"", f"Authorization: Bearer {ADMIN_TOKEN}".encode())

    for odd in (b"\xff\xfe", b"\xed\xa0\x80", "é😀".encode()):
        answer = await ask_raw(admin.server, request.replace(b"PLACE", odd))

        assert answer.status in (400, 404)
