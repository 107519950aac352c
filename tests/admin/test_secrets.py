"""Rotation: two secrets at most, each good until it is revoked, and not a moment longer."""

import asyncio

import pytest

from tests.support.admin_client import AdminClient

SECRETS = "/admin/projects/app/secrets"


async def test_after_a_rotation_the_old_and_the_new_secret_both_pass(admin: AdminClient) -> None:
    old = await admin.create("app")

    new = (await admin.post(SECRETS)).json

    assert new.keys() == {"number", "secret"}
    assert new["number"] == 2
    assert await admin.opens("app", old)
    assert await admin.opens("app", new["secret"])


@pytest.mark.own_server
async def test_a_third_secret_is_refused_until_one_is_revoked(admin: AdminClient) -> None:
    await admin.create("app")
    await admin.post(SECRETS)

    refused = await admin.post(SECRETS)

    assert refused.problem(409)["type"].endswith(":too-many-secrets")
    assert (await admin.delete(f"{SECRETS}/1")).json == {"success": True}
    assert (await admin.post(SECRETS)).json["number"] == 3


async def test_one_of_many_simultaneous_rotations_succeeds(admin: AdminClient) -> None:
    await admin.create("app")

    answers = await asyncio.gather(*(admin.post(SECRETS) for _ in range(10)))

    assert sorted(answer.status for answer in answers) == [200] + [409] * 9


@pytest.mark.own_server
async def test_a_revoked_secret_is_refused_at_once_and_the_other_passes(admin: AdminClient) -> None:
    old = await admin.create("app")
    new = (await admin.post(SECRETS)).json["secret"]
    assert await admin.opens("app", old)

    await admin.delete(f"{SECRETS}/1")

    assert not await admin.opens("app", old)
    assert await admin.opens("app", new)
    assert [secret["number"] for secret in (await admin.get("/admin/projects/app")).json["secrets"]] == [2]


@pytest.mark.own_server
async def test_the_last_secret_may_be_revoked_and_a_new_one_made(admin: AdminClient) -> None:
    old = await admin.create("app")

    await admin.delete(f"{SECRETS}/1")

    assert not await admin.opens("app", old)
    new = (await admin.post(SECRETS)).json["secret"]
    assert await admin.opens("app", new)


async def test_a_secret_that_is_gone_or_another_projects_is_not_found(admin: AdminClient) -> None:
    await admin.create("app")
    others = await admin.create("other")

    for number in (0, 2, 99):
        answer = await admin.delete(f"{SECRETS}/{number}")
        assert answer.problem(404)["type"].endswith(":secret-not-found")
    assert await admin.opens("other", others)
    assert not await admin.opens("app", others)


async def test_secrets_of_an_unknown_project_are_not_found(admin: AdminClient) -> None:
    for answer in (
        await admin.post("/admin/projects/none/secrets"),
        await admin.delete("/admin/projects/none/secrets/1"),
    ):
        assert answer.problem(404)["type"].endswith(":project-not-found")
