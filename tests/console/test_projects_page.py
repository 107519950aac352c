"""The page of projects: each form makes its change, and the page says what was done."""

import re

import pytest

from tests.support.console_client import ConsoleClient, check_texts, elements, found, make_project
from tests.support.engines import database_of

PROJECTS = "/console/projects"
ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"


async def test_a_project_shows_its_secret_once_and_is_deleted_by_its_id(console: ConsoleClient) -> None:
    answer = await console.send(PROJECTS, "create", name="Shop", project_id="shop")

    place = answer.headers["Location"]
    other = await (await ConsoleClient(console.server).sign_in()).page(place)
    first, again = await console.page(place), await console.page(place)
    assert place.startswith(f"{PROJECTS}/shop?notice=")
    assert re.search(r"Its secret: <code>bsk_[\w-]{43}</code>", first)
    check_texts(again, ">Shop<", hidden=("bsk_",))
    assert "bsk_" not in other  # another session's page

    refused = await console.refused(PROJECTS, "create", name="Kept name", project_id="Not An Id")
    check_texts(refused, "<strong>project id</strong> must be 1 to 64 lower-case letters")
    check_texts(refused, 'value="Kept name"', 'value="Not An Id"')

    await console.refused(f"{PROJECTS}/shop", "delete", confirmed_id="Shop")
    await console.change(f"{PROJECTS}/shop", "delete", "The project shop is deleted.", confirmed_id="shop")
    await console.page(f"{PROJECTS}/shop", status=404)
    await console.refused(f"{PROJECTS}/shop", "rotate-secret", code=404)


@pytest.mark.own_server
async def test_a_long_list_has_pages_and_elsewhere_a_project_is_typed_in(console: ConsoleClient) -> None:
    with database_of(console.server.settings) as database:
        database.executemany(
            "INSERT INTO projects (project_id, name, created_at_ms) VALUES (?, ?, 0)",
            [(f"many-{number:03}", f"Many {number}") for number in range(210)],
        )

    first = await console.page(PROJECTS)
    place = found(r'href="(/console/projects\?list=\d+)">Next projects', first)
    await console.page(place, "/console/projects/many-150?list=")
    opened = await console.page(place.replace("?", "/many-150?"))
    form = found(r'action="(/console/projects/many-150[^"]*)"', opened)
    # Each leads back to that page of the list.
    changed = await console.change(form, "add-type", place, name="News", type_id="news")
    subscribed = await console.change(form, "subscribe", account=ACCOUNT, types="")

    assert (first.count('<th scope="row">'), "many-150" in first) == (100, False)
    for page in (opened, changed, subscribed):
        check_texts(page, 'aria-current="true"><bdi>Many 150')
    await console.page(f"{PROJECTS}?list=x", status=400)
    elsewhere = await console.page("/console/notifications?project_id=many-150")
    check_texts(elsewhere, '<input name="project_id" value="many-150"')
    assert len([tag for tag, _ in elements(elsewhere) if tag == "option"]) == 100


async def test_types_secrets_the_limit_and_the_webhook_are_changed(console: ConsoleClient) -> None:
    await make_project(console, "types")
    path = f"{PROJECTS}/types"

    await console.change(path, "add-type", "The type news is added.", name="News", type_id="")
    renamed = await console.change(path, "rename-type", type_id="news", name="Latest")
    check_texts(renamed, "The type news is now called Latest.", 'value="Latest"')
    removed = await console.change(path, "remove-type", type_id="news")
    check_texts(removed, "The type news is removed.", "There are no types")

    page = await console.change(path, "rotate-secret", "Secret: <code>bsk_")
    number = found(r'name="number" value="(\d+)"', page)
    await console.refused(path, "rotate-secret", "live secrets", code=409)
    await console.change(path, "revoke-secret", f"Secret {number} is revoked.", number=number)
    await console.refused(path, "revoke-secret", number="²")

    await console.change(path, "limit", "The project's own.", 'value="7.5"', per_hour="7.5", burst="9")
    await console.refused(path, "limit", per_hour="many", burst="9")
    assert 'value="7.5"' not in await console.change(path, "reset-limit")
    page = await console.change(path, "set-webhook", url="https://app.example/hook")
    check_texts(page, "Its signing secret: <code>whsec_")
    await console.refused(path, "set-webhook", url="javascript:alert(1)")
    await console.change(path, "remove-webhook", "The webhook is removed.")


async def test_subscribers_are_imported_found_and_removed(console: ConsoleClient) -> None:
    await make_project(console, "people")
    path = f"{PROJECTS}/people"
    lines = "\n".join(f"test:chain:{number:08d}" for number in range(60))

    wrong = await console.refused(path, "import", lines="test:chain:1\n\n<b>nobody</b>\n")
    check_texts(wrong, "<strong>line 3</strong>")
    check_texts(wrong.replace("\r", ""), "test:chain:1\n\n&lt;b&gt;nobody&lt;/b&gt;")
    await console.refused(path, "import", "1 to 500 lines", lines="test:chain:1\n" * 501)
    await console.page(path, "Nobody is subscribed.")

    await console.change(path, "subscribe", f"{ACCOUNT} is subscribed.", account=ACCOUNT, types="")
    first = await console.change(path, "import", lines=lines)
    after = found(r'href="([^"]+after=[^"#]+)', first)
    check_texts(first, "60 accounts are subscribed; 60", hidden=("test:chain:00000030",))
    await console.page(after, "test:chain:00000030")
    await console.change(after, "unsubscribe", "test:chain:00000030", account="test:chain:00000029")
    for search in (ACCOUNT, ACCOUNT.lower(), ACCOUNT[9:], "eip155:5" + ACCOUNT[8:]):
        check_texts(await console.page(f"{path}?search={search}"), ACCOUNT, hidden=("test:chain:",))
    await console.page(f"{path}?search=test:chain:0000005", "test:chain:00000059")
    await console.page(f"{path}?search=nobody", "No account fits")
    await console.change(path, "unsubscribe", "is unsubscribed.", account=ACCOUNT)
    await console.refused(path, "unsubscribe", code=404, account=ACCOUNT)
