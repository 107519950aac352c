"""Access to publishing: a live secret opens its own project, and no other."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from multidict import CIMultiDict

from bridge_server.assembly.application import build_app
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.models import RESERVED_PROJECT_IDS, checked_project_id
from bridge_server.settings.settings import Settings
from tests.support.asking import Answer, answer_others, ask, ask_raw, raw_connection, spell
from tests.support.command import run_command
from tests.support.engines import engine_environment
from tests.support.project import METHODS, App, a_notification, account, create_app, look, paths_of
from tests.support.rows import each_row

A = account(1)


async def knock(app: App, endpoint: str, project_id: str, authorizations: Sequence[str]) -> Answer:
    """A call that is well-formed but for who makes it."""
    headers = CIMultiDict([("Authorization", value) for value in authorizations])
    path = paths_of(project_id)[endpoint]
    return await ask(app.server, METHODS[endpoint], path, b'{"accounts":[]}', headers)


async def refusal(app: App, endpoint: str, project_id: str, *authorizations: str) -> dict[str, object]:
    """The problem of a caller without access, but for the id of the request."""
    answer = await knock(app, endpoint, project_id, authorizations)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    problem = answer.problem(401)
    detail = problem["detail"].replace(f"no project '{project_id}'", "no such project")
    return {**problem, "instance": "", "detail": detail}


def bearer(app: App) -> str:
    return f"Bearer {app.secret}"


async def test_a_secret_that_is_no_text_is_wrong_and_the_refusal_names_the_project(app: App) -> None:
    request = spell("POST", app.paths["notify"], b"{}", b"Authorization: Bearer \xff\xfe")
    assert (await ask_raw(app.server, request)).problem(401)["detail"] == (
        f"The secret is wrong or revoked, or there is no project '{app.project_id}': "
        "send 'Authorization: Bearer SECRET'."
    )


@pytest.mark.parametrize("endpoint", METHODS)
async def test_every_other_caller_gets_an_identical_401(app: App, other_app: App, endpoint: str) -> None:
    mine, secret = app.project_id, app.secret
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await knock(app, endpoint, mine, [f"{scheme} {secret}"])
        assert answer.status == (200 if endpoint in ("listing", "mark all") else 400), scheme
    nothing = await refusal(app, endpoint, mine)

    for authorizations in [
        [""], ["Bearer"], ["Bearer "], ["Bearer wrong"], [secret], [f"Basic {secret}"], [f"Bearer{secret}"],
        [f"Bearer {secret}x"], [f"Bearer {secret[:-1]}"], [f"Bearer {secret.swapcase()}"],
        [f'Bearer "{secret}"'], [f"Bearer {secret}, Bearer {secret}"], ["Bearer wrong", f"Bearer {secret}"],
        [f"Bearer {secret}", f"Bearer {secret}"], ["Bearer é😀"], [bearer(other_app)],
    ]:  # fmt: skip
        assert await refusal(app, endpoint, mine, *authorizations) == nothing
    others = ["0" * 32, mine[:-1], mine + "0", mine.upper(), "%00", "%F0%9F%98%80", "x" * 128]
    for project_id in (*others, other_app.project_id):
        assert await refusal(app, endpoint, project_id, bearer(app)) == nothing
    (await knock(app, endpoint, "x" * 129, [bearer(app)])).problem(404)
    deleted = await create_app(app.server, app.operator, "Deleted")
    await app.operator.projects.delete(deleted.project_id)
    assert await refusal(app, endpoint, deleted.project_id, bearer(deleted)) == nothing


async def test_both_live_secrets_open_and_a_revoked_one_none_at_the_very_next_request(app: App) -> None:
    projects, mine = app.operator.projects, app.project_id
    (first,) = (await projects.show(mine)).secrets
    second = await projects.rotate_secret(mine)

    statuses = []
    for revoked in (None, first.number, second.number):
        if revoked is not None:
            await projects.revoke_secret(mine, revoked)
        bearers = [f"Bearer {each}" for each in (app.secret, second.secret)]
        statuses += [(await knock(app, "mark all", mine, [each])).status for each in bearers]

    assert statuses == [200, 200, 401, 200, 401, 401]


async def test_a_secret_that_a_command_has_revoked_is_refused_at_the_very_next_request(app: App) -> None:
    (one,) = (await app.operator.projects.show(app.project_id)).secrets
    before = await app.notify([A])
    data_dir = app.server.settings.data_dir

    revoked = await asyncio.to_thread(
        run_command, "project", "revoke-secret", app.project_id, str(one.number), "--data-dir", data_dir,
        environment=engine_environment(data_dir),
    )  # fmt: skip

    assert (before.status, revoked.exit_code, revoked.err) == (200, 0, "")
    stranger = await refusal(app, "notify", app.project_id, "Bearer wrong")
    assert await refusal(app, "notify", app.project_id, bearer(app)) == stranger
    charged = [await knock(app, "notify", app.project_id, [bearer(app)]) for _ in range(25)]
    assert {answer.status for answer in charged} == {401}, "a revoked secret spends no limit of its project"
    assert "notify-calls" not in charged[0].headers.get("RateLimit", "")


async def test_project_sees_nothing_of_another(app: App, other_app: App) -> None:
    await app.subscribe(A)
    await app.notify([A], "x")

    assert (await other_app.listing()).json == []
    assert (await other_app.lookup([A])).json == {}
    assert (await other_app.notify([A], "x")).json["not_found"] == [A]
    assert (await other_app.mark_all()).json == {"marked": 0}
    assert (await app.listing()).json == [A]
    assert (await app.mark_all()).json == {"marked": 1}


@each_row("project_id", ["a", "-", "call-statu", "x" * 64, "subscribe-2"])
async def test_a_project_under_a_deleted_id_begins_empty(app: App, project_id: str) -> None:
    old = await create_app(app.server, app.operator, "Old", project_id)
    await old.subscribe(A)
    assert (await old.notify([A])).json["sent"] == [A]
    assert list((await old.lookup([A])).json) == [A]
    assert (await old.listing()).json == [A]
    assert (await old.mark_all()).json == {"marked": 1}
    await old.notify([A], "x", title="old")
    await app.operator.projects.delete(project_id)

    new = await create_app(app.server, app.operator, "New", project_id)

    assert (await knock(app, "notify", project_id, [bearer(old)])).status == 401
    assert (await new.listing()).json == []
    assert (await new.notify([A], "x", title="new")).json["not_found"] == [A]
    assert (await new.mark_all()).json == {"marked": 0}


@pytest.mark.parametrize("ending", ["the secret is revoked", "the project is deleted"])
@pytest.mark.own_server
async def test_secret_that_ends_during_the_body_ends_the_request(app: App, ending: str) -> None:
    await app.subscribe(A)
    body = orjson.dumps({"notification": a_notification(), "accounts": [A]})
    request = spell("POST", app.paths["notify"], body, f"Authorization: {bearer(app)}".encode())
    projects = app.operator.projects
    (secret,) = (await projects.show(app.project_id)).secrets

    async with raw_connection(app.server) as connection:
        await connection.send(request[:-1])
        await answer_others(app.server)  # it is authenticated meanwhile
        if ending == "the project is deleted":
            await projects.delete(app.project_id)
        else:
            await projects.revoke_secret(app.project_id, secret.number)
        await connection.send(request[-1:])
        answer = await connection.answer()

    answer.problem(401)
    assert look(app.server, "SELECT count(*) FROM sendings") == [(0,)]


def test_the_first_word_of_every_route_is_reserved(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin_token="operator", metrics_token="metrics")
    resources = build_app(settings).application.router.resources()
    words = {resource.canonical.split("/")[1] for resource in resources}
    assert {word for word in words if "{" not in word} - {""} <= RESERVED_PROJECT_IDS


@each_row("project_id", ["docs", "console", "hello", "compat", "new", "push", "subscribe"])
def test_a_reserved_word_is_refused(project_id: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        checked_project_id(project_id)
    assert "reserved" in refusal.value.detail
