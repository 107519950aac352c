"""The page that composes a notification: a dry run, the sending, and a walk through many subscribers."""

import re
from typing import Any

from tests.support.asking import Answer
from tests.support.console_client import ConsoleClient, elements
from tests.support.console_projects import make_project, subscribe, subscribe_crowd
from tests.support.rows import each_row

ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
OTHER = "test:chain:other"


def compose(project_id: str) -> str:
    return f"/console/compose?project_id={project_id}"


async def submit(console: ConsoleClient, project_id: str, do: str, **fields: Any) -> Answer:
    """Submit the form with sound fields but for these."""
    sound = {
        "type": "news",
        "title": "Title",
        "body": "Body",
        "url": "",
        "audience": "accounts",
        "audience_type": "news",
        "accounts": ACCOUNT,
        "notification_id": f"id-{project_id}",
    }
    return await console.send(compose(project_id), do, **{**sound, **fields})


async def last_title(console: ConsoleClient, project_id: str) -> str:
    return await console.page(f"/console/notifications?project_id={project_id}")


async def test_without_projects_and_without_types_the_page_says_where_to_make_them(
    console: ConsoleClient,
) -> None:
    assert "There are no projects yet." in await console.page("/console/compose")
    await make_project(console, "bare")
    assert "has no notification types yet" in await console.page("/console/compose")


async def test_a_check_shows_who_would_get_it_and_how_it_looks_and_sends_nothing(
    console: ConsoleClient,
) -> None:
    await make_project(console, "checked", "news", "deals")
    await subscribe(console, "checked", ACCOUNT)
    await subscribe(console, "checked", OTHER, "deals")

    answer = await submit(
        console, "checked", "check", accounts=f"{ACCOUNT}\n\n{OTHER}\ntest:chain:nobody", body="Two\r\nlines"
    )

    page = answer.body.decode()
    assert answer.status == 200
    assert "Nothing is sent yet" in page
    assert "<dt>Would get it</dt><dd>1</dd>" in page
    assert "<dt>Have not chosen the type</dt><dd>1</dd>" in page
    assert "<dt>Not subscribed</dt><dd>1</dd>" in page
    assert "<bdi>Two lines</bdi>" in page
    assert ">Send to 3 accounts</button>" in page
    assert 'name="title" value="Title"' in page
    assert "Nothing was sent yet: <a" in await last_title(console, "checked")


async def test_a_notification_is_sent_and_its_page_says_who_did_not_get_it(console: ConsoleClient) -> None:
    await make_project(console, "sent", "news", "deals")
    await subscribe(console, "sent", ACCOUNT)
    await subscribe(console, "sent", OTHER, "deals")

    answer = await submit(console, "sent", "send", accounts=f"{ACCOUNT}\n{OTHER}", title="Sent to her")
    place = answer.headers["Location"]
    page = await console.page(place)

    assert "Sent to 1 account." in page
    assert "Sent, to 2 accounts" in page
    assert f"account={OTHER.replace(':', '%3A')}" in page
    assert "have not chosen the type" in page
    assert "Sent to her" in await last_title(console, "sent")
    assert "complete" in await console.page(compose("sent"))


async def test_all_faults_stand_at_their_fields_at_once_and_the_fields_stay(console: ConsoleClient) -> None:
    await make_project(console, "faulty", "news")

    answer = await submit(
        console,
        "faulty",
        "send",
        type="gone",
        title="x" * 65,
        body="\x07",
        url="javascript:alert(1)",
        accounts=f"{OTHER}\nnobody\n{ACCOUNT.lower()}\n{ACCOUNT[:-1]}B",
        notification_id="y" * 256,
    )

    page = answer.body.decode()
    marked = {a.get("name") for _, a in elements(page) if a.get("aria-invalid") == "true"}
    assert answer.status == 400
    assert "Nothing was sent: some fields need another look." in page
    assert marked == {"title", "body", "url", "accounts", "notification_id"}
    assert "must have 1 to 64 characters, and has 65" in page
    assert "line 2 " in page
    assert "line 4 has a wrong checksum" in page
    assert ">65</span> of 64 characters" in page
    assert 'value="javascript:alert(1)"' in page


@each_row(
    ("fields", "name"),
    [
        ({"type": "gone"}, "type"),
        ({"audience": "type", "audience_type": "gone"}, "audience_type"),
        ({"accounts": " \n "}, "accounts"),
        ({"accounts": "\n".join(f"test:chain:{each}" for each in range(501))}, "accounts"),
        ({"title": "  "}, "title"),
        ({"notification_id": ""}, "notification_id"),
    ],
)
@each_row("do", ["check", "send"])
async def test_each_field_has_its_fault(
    console: ConsoleClient, do: str, fields: dict[str, str], name: str
) -> None:
    await make_project(console, "each", "news")

    answer = await submit(console, "each", do, **fields)

    page = answer.body.decode()
    assert answer.status == 400
    assert {a.get("name") for _, a in elements(page) if a.get("aria-invalid") == "true"} == {name}
    assert 'class="fault"' in page


async def test_characters_are_counted_as_code_points_of_one_line(console: ConsoleClient) -> None:
    await make_project(console, "counted", "news")

    exact = await submit(console, "counted", "check", title="\U0001f600" * 64, body=" a\r\n\r\nb ")
    beyond = await submit(console, "counted", "check", title="\U0001f600" * 65)

    assert exact.status == 200
    assert 'data-counts="title">64</span>' in exact.body.decode()
    assert 'data-counts="body">3</span>' in exact.body.decode()
    assert beyond.status == 400


async def test_a_walk_goes_on_step_by_step_is_left_and_taken_up_again(console: ConsoleClient) -> None:
    await make_project(console, "walk", "news")
    await subscribe(console, "walk", ACCOUNT)
    subscribe_crowd(console, 2_600, ACCOUNT, "walk")

    answer = await submit(console, "walk", "send", audience="all", accounts="", title="To everybody")
    place = answer.headers["Location"].partition("?")[0]
    running = await console.page(answer.headers["Location"])
    left = await console.page(place)
    listed = await console.page(compose("walk"))
    over = await console.change(place, "continue")
    again = await console.change(place, "continue")

    assert 'hx-trigger="load' in running
    assert 'value="2000"' in running
    assert 'max="2601"' in running
    assert 'hx-trigger="load' not in left
    assert ">Continue</button>" in left
    assert "Not finished" in left
    assert f'href="{place}"' in listed
    assert "not finished: continue" in listed
    for page in (over, again):
        assert "Sent to 2\xa0601 accounts." in page
        assert "Continue" not in page


async def test_a_walk_begun_anew_with_its_id_sends_to_nobody_twice(console: ConsoleClient) -> None:
    await make_project(console, "anew", "news")
    await subscribe(console, "anew", ACCOUNT)

    for _ in range(2):
        await submit(console, "anew", "send", audience="type", accounts="")

    page = await console.page(f"/console/inbox?account={ACCOUNT}")
    number = re.findall(r'href="/console/notifications/anew/(\d+)"', await last_title(console, "anew"))
    assert page.count("<bdi>App</bdi>") >= 1
    assert len(number) == 1
    repeated = elements(await console.page(f"{compose('anew')}&repeat={number[0]}"))
    values = {a.get("name"): a.get("value") for tag, a in repeated if tag == "input"}
    assert values["notification_id"] == "id-anew"
    assert values["title"] == "Title"
    assert (await console.get(f"{compose('anew')}&repeat=999999")).status == 404


async def test_a_sending_that_nobody_knows_says_what_to_do(console: ConsoleClient) -> None:
    for answer in (
        await console.get("/console/compose/sendings/unknown"),
        await console.send("/console/compose/sendings/unknown", "continue"),
    ):
        assert answer.status == 404
        assert "nobody gets it twice" in answer.body.decode()


async def test_a_form_for_a_project_that_is_gone_is_refused(console: ConsoleClient) -> None:
    assert (await submit(console, "gone", "send")).status == 404
    assert (await console.get(compose("gone"))).status == 404
