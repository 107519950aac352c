"""The page of projects: each form makes its change, and the page says what was done."""

import re

import pytest

from tests.support.console_client import ConsoleClient
from tests.support.engines import database_of

ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"


async def test_a_project_is_created_and_its_secret_is_shown_once(console: ConsoleClient) -> None:
    answer = await console.send("/console/projects", "create", name="Shop", project_id="shop")

    place = answer.headers["Location"]
    other = await (await ConsoleClient(console.server).sign_in()).page(place)
    first, again = await console.page(place), await console.page(place)
    assert place.startswith("/console/projects/shop?notice=")
    assert re.search(r"Its secret: <code>bsk_[\w-]{43}</code>", first)
    assert "bsk_" not in again + other  # another session's page
    assert ">Shop<" in again


async def test_a_refused_form_says_why_and_keeps_its_fields(console: ConsoleClient) -> None:
    answer = await console.send("/console/projects", "create", name="Kept name", project_id="Not An Id")

    page = answer.body.decode()
    assert answer.status == 400
    assert "<strong>project id</strong> must be 1 to 64 lower-case letters" in page
    assert 'value="Kept name"' in page
    assert 'value="Not An Id"' in page


@pytest.mark.own_server
async def test_a_long_list_of_projects_has_pages(console: ConsoleClient) -> None:
    with database_of(console.server.settings) as database:
        database.executemany(
            "INSERT INTO projects (project_id, name, created_at_ms) VALUES (?, ?, 0)",
            [(f"many-{number:03}", f"Many {number}") for number in range(210)],
        )

    first = await console.page("/console/projects")
    place = re.search(r'href="(/console/projects\?list=\d+)">Next projects', first)
    assert place is not None
    second = await console.page(place[1])
    opened = await console.page(place[1].replace("?", "/many-150?"))
    form = re.search(r'action="(/console/projects/many-150[^"]*)"', opened)
    assert form is not None
    changed = await console.change(form[1], "add-type", name="News", type_id="news")
    subscribed = await console.change(form[1], "subscribe", account=ACCOUNT, types="")

    assert (first.count('<th scope="row">'), "many-150" in first) == (100, False)
    assert "/console/projects/many-150?list=" in second
    assert all('aria-current="true"><bdi>Many 150' in page for page in (opened, changed, subscribed))
    assert place[1] in changed  # back to that page of the list
    assert (await console.get("/console/projects?list=x")).status == 400


async def test_types_secrets_the_limit_and_the_webhook_are_changed(console: ConsoleClient) -> None:
    await console.send("/console/projects", "create", name="Types", project_id="types")
    path = "/console/projects/types"

    assert "The type news is added." in await console.change(path, "add-type", name="News", type_id="")
    renamed = await console.change(path, "rename-type", type_id="news", name="Latest")
    assert "The type news is now called Latest." in renamed
    assert 'value="Latest"' in await console.page(path)
    assert "The type news is removed." in await console.change(path, "remove-type", type_id="news")
    assert "There are no types" in await console.page(path)

    page = await console.change(path, "rotate-secret")
    number = re.findall(r'name="number" value="(\d+)"', page)[0]
    third = await console.send(path, "rotate-secret")
    revoked = await console.change(path, "revoke-secret", number=number)
    assert "Secret: <code>bsk_" in page
    assert (third.status, "live secrets" in third.body.decode()) == (409, True)
    assert f"Secret {number} is revoked." in revoked
    assert (await console.send(path, "revoke-secret", number="²")).status == 400

    assert "The project's own." in await console.change(path, "limit", per_hour="7.5", burst="9")
    assert 'value="7.5"' in await console.page(path)
    assert (await console.send(path, "limit", per_hour="many", burst="9")).status == 400
    await console.change(path, "reset-limit")
    assert 'value="7.5"' not in await console.page(path)
    page = await console.change(path, "set-webhook", url="https://app.example/hook")
    assert "Its signing secret: <code>whsec_" in page
    assert (await console.send(path, "set-webhook", url="javascript:alert(1)")).status == 400
    assert "The webhook is removed." in await console.change(path, "remove-webhook")


async def test_subscribers_are_added_found_and_removed(console: ConsoleClient) -> None:
    await console.send("/console/projects", "create", name="People", project_id="people")
    path = "/console/projects/people"
    lines = "\n".join(f"test:chain:{number:08d}" for number in range(60))

    assert f"{ACCOUNT} is subscribed." in await console.change(path, "subscribe", account=ACCOUNT, types="")
    assert "60 accounts are subscribed; 60" in await console.change(path, "import", lines=lines)
    first = await console.page(path)
    after = re.search(r'href="([^"]+after=[^"]+)"', first)
    assert after is not None
    second = await console.page(after[1].replace("&amp;", "&").partition("#")[0])
    assert "test:chain:00000030" not in first
    assert "test:chain:00000030" in second
    where = after[1].replace("&amp;", "&").partition("#")[0]
    assert "test:chain:00000030" in await console.change(where, "unsubscribe", account="test:chain:00000029")
    for search in (ACCOUNT, ACCOUNT.lower(), ACCOUNT[9:], "eip155:5" + ACCOUNT[8:]):
        found = await console.page(f"{path}?search={search}")
        assert ACCOUNT in found
        assert "test:chain:" not in found
    assert "test:chain:00000059" in await console.page(f"{path}?search=test:chain:0000005")
    assert "No account fits" in await console.page(f"{path}?search=nobody")
    assert "is unsubscribed." in await console.change(path, "unsubscribe", account=ACCOUNT)
    assert (await console.send(path, "unsubscribe", account=ACCOUNT)).status == 404


async def test_an_import_names_the_line_that_is_wrong_and_subscribes_nobody(console: ConsoleClient) -> None:
    await console.send("/console/projects", "create", name="Import", project_id="import")
    path = "/console/projects/import"

    wrong = await console.send(path, "import", lines="test:chain:1\n\n<b>nobody</b>\n")
    too_many = await console.send(path, "import", lines="test:chain:1\n" * 501)

    assert wrong.status == too_many.status == 400
    assert "<strong>line 3</strong>" in wrong.body.decode()
    assert "test:chain:1\n\n&lt;b&gt;nobody&lt;/b&gt;" in wrong.body.decode().replace("\r", "")
    assert "1 to 500 lines" in too_many.body.decode()
    assert "Nobody is subscribed." in await console.page(path)


async def test_a_project_is_deleted_only_with_its_id(console: ConsoleClient) -> None:
    await console.send("/console/projects", "create", name="Old", project_id="old")

    refused = await console.send("/console/projects/old", "delete", confirmed_id="Old")
    page = await console.change("/console/projects/old", "delete", confirmed_id="old")

    assert refused.status == 400
    assert "The project old is deleted." in page
    assert (await console.get("/console/projects/old")).status == 404
    assert (await console.send("/console/projects/old", "rotate-secret")).status == 404
