"""The pages that compose a notification and show those that were sent, accounts, inboxes and analytics."""

import re
from typing import Any

from tests.support.asking import Answer
from tests.support.console_client import ConsoleClient, elements, make_project, subscribe, subscribe_crowd
from tests.support.engines import database_of
from tests.support.rows import each_row

ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
OTHER = "test:chain:other"


async def send(console: ConsoleClient, project_id: str, *accounts: str, **fields: str) -> None:
    form = {"accounts": "\n".join(accounts), "notification_id": f"{project_id}-{fields.get('title')}"}
    answer = await submit(console, project_id, "send", **{**form, **fields})
    assert answer.status == 303, answer.body.decode()


async def notification(console: ConsoleClient, project_id: str) -> str:
    """The path of the project's last notification."""
    page = await console.page(f"/console/notifications?project_id={project_id}")
    found = re.search(r'href="(/console/notifications/[^/"]+/\d+)"', page)
    assert found is not None
    return found[1]


def inbox(account: str, **query: str) -> str:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return f"/console/inbox?account={account}{more}"


async def test_notifications_are_listed_newest_first_page_by_page(console: ConsoleClient) -> None:
    await make_project(console, "listed", "news")
    assert "Nothing was sent yet: <a" in await console.page("/console/notifications?project_id=listed")
    await subscribe(console, "listed", ACCOUNT)
    for number in range(27):
        await send(console, "listed", ACCOUNT, title=f"Number {number:02d}.")

    first = await console.page("/console/notifications?project_id=listed")
    following = re.search(r'href="([^"]+)">Earlier ones', first)
    assert following is not None
    second = await console.page(following[1].replace("&amp;", "&"))
    again = await console.page("/console/notifications?project_id=listed&after=9&notice=x")

    assert first.index("Number 26.") < first.index("Number 02.")
    assert "Number 01." not in first
    assert "Number 01." in second
    assert "Number 02." not in second
    assert "Earlier ones" not in second
    assert "Latest ones" in second
    assert 'hx-get="/console/notifications?project_id=listed&amp;after=9"' in again  # as this page
    assert "events?on=notifications&amp;" in again


async def test_a_notification_shows_its_figures_and_each_account_with_its_outcome(
    console: ConsoleClient,
) -> None:
    await make_project(console, "shown", "news", "deals")
    await subscribe(console, "shown", ACCOUNT)
    await subscribe(console, "shown", OTHER, "deals")
    await console.send("/console/projects/shown", "limit", per_hour="1", burst="1")
    await send(console, "shown", ACCOUNT, title="First")
    await send(console, "shown", ACCOUNT, OTHER, title="Second", url="https://app.example/x", body="Its body")
    path = await notification(console, "shown")

    page = await console.page(path)
    limited = await console.page(f"{path}?outcome=rate_limited")
    nobody = await console.page(f"{path}?outcome=read")

    assert "Its body" in page
    assert "https://app.example/x" in page
    assert "<dt>Rate limited</dt><dd>1</dd>" in page
    assert "<dt>Type not subscribed</dt><dd>1</dd>" in page
    assert 'over its rate limit until <time datetime="20' in page
    assert "has not chosen the type" in page
    assert ACCOUNT in limited
    assert OTHER not in limited
    assert "No account." in nobody
    assert "repeat=" in page
    assert (await console.get(f"{path}9999")).status == 404
    assert (await console.get(f"{path}?outcome=nonsense")).status == 400
    assert (await console.get(f"{path}?after=nonsense")).status == 400


async def test_an_account_that_did_not_get_it_is_explained(console: ConsoleClient) -> None:
    await make_project(console, "why", "news", "deals")
    await subscribe(console, "why", ACCOUNT, "deals")
    await send(console, "why", ACCOUNT, title="Missed by her")

    everywhere = await console.page(f"/console/accounts?account={ACCOUNT}&project_id=")
    here = await console.page(f"/console/accounts?account={ACCOUNT}&project_id=why")
    stranger = await console.page("/console/accounts?account=test:chain:stranger&project_id=why")
    nowhere = await console.page("/console/accounts?account=test:chain:stranger")
    mistyped = await console.page(f"/console/accounts?account={ACCOUNT[:-1]}B")

    for page in (everywhere, here):
        assert "Missed by her" in page
        assert "has not chosen the type" in page
        assert ", to deals" in page
    assert "The account has no devices" in here
    assert "<strong>none</strong>: the project can send it nothing" in stranger
    assert "subscribes to no project" in nowhere
    assert "has a wrong checksum" in mistyped
    assert f'value="{ACCOUNT[:-1]}B"' in mistyped
    assert (await console.get(f"/console/accounts?account={ACCOUNT}&project_id=gone")).status == 404


async def test_an_inbox_shows_what_its_account_sees_and_is_marked_as_read(console: ConsoleClient) -> None:
    await make_project(console, "box", "news", name="Shop")
    for account in ("test:inbox:1", "test:inbox:2"):
        await subscribe(console, "box", account)
    for number in range(27):
        await send(console, "box", "test:inbox:1", title=f"Number {number:02d}.")

    page = await console.page(inbox("test:inbox:1"))
    ids = re.findall(r'name="ids" value="([\d ]+)"', page)
    marked = await console.change(inbox("test:inbox:1"), "mark-read", ids=ids[0])
    unread = await console.page(inbox("test:inbox:1", unread="true"))
    read = await console.page(inbox("test:inbox:1", unread="false"))
    others = await console.change(inbox("test:inbox:2"), "mark-read", ids=ids[1])
    all_of_page = await console.change(inbox("test:inbox:1"), "mark-read", ids=ids[-1])

    assert "Number 26." in page
    assert "Number 01." not in page
    assert "<bdi>Shop</bdi>" in page
    assert "1 marked as read." in marked
    assert "Number 26." not in unread
    assert "marked as read by the app or the operator" in read
    assert read.count("<article") == 1
    assert "0 marked as read." in others
    assert "24 marked as read." in all_of_page
    following = re.search(r'href="([^"]+)">Earlier ones', page)
    assert following is not None
    assert "Number 01." in await console.page(following[1].replace("&amp;", "&"))


async def test_an_inbox_of_nobody_and_a_mistyped_account_are_explained(console: ConsoleClient) -> None:
    assert "Enter an account to see its inbox as its owner does." in await console.page("/console/inbox")
    assert "The inbox is empty: <a" in await console.page(inbox("test:chain:nobody"))
    assert "has a wrong checksum" in await console.page(inbox(ACCOUNT[:-1] + "B"))
    assert "The query has parameters" in await console.page(inbox(OTHER, unread="maybe"))
    assert (await console.send(inbox(OTHER), "mark-read", ids="")).status == 400
    assert (await console.send("/console/inbox", "mark-read", ids="1")).status == 400


def record_figures(
    console: ConsoleClient, project_id: str, type_id: str, ago: int, sent: int, read: int
) -> None:
    """As if so many notifications had been sent that many days ago."""
    day = console.server.clock.now_ms() // 86_400_000 - ago
    with database_of(console.server.settings) as database:
        database.execute(
            "INSERT INTO daily_figures (project, type, day, sent, read)"
            " SELECT project, id, ?, ?, ? FROM notification_types WHERE type_id = ? AND project ="
            " (SELECT id FROM projects WHERE project_id = ?)",
            (day, sent, read, type_id, project_id),
        )


async def test_analytics_draw_the_read_rate_and_have_its_figures_beside_it(console: ConsoleClient) -> None:
    await make_project(console, "figures", "news", "deals")
    record_figures(console, "figures", "news", 1, 10, 5)
    record_figures(console, "figures", "news", 40, 100, 0)
    record_figures(console, "figures", "deals", 2, 4, 1)

    page = await console.page("/console/analytics?project_id=figures")
    longer = await console.page(re.findall(r'href="([^"]+)"[^>]*>90 days', page)[0].replace("&amp;", "&"))
    of_type = await console.page("/console/analytics?project_id=figures&type=deals")

    assert [tag for tag, _ in elements(page)].count("svg") == 3
    assert len([1 for tag, a in elements(page) if tag == "rect"]) == 4
    assert re.search(r'<rect class="bar" [^>]*height="50.0"><title>[\d-]+: 50.0 %, 5 of 10 read', page)
    assert "Read rate by day from" in page
    assert "42.9 % in all, 6 of 14 read" in page
    assert '<td data-label="Read rate" class="number">25.0 %</td>' in page
    assert '<td data-label="Sent" class="number">110</td>' in longer
    assert [tag for tag, _ in elements(of_type)].count("svg") == 1
    assert "style" not in {name for _, attributes in elements(page) for name in attributes}
    names = [f"type-{number}" for number in range(9)]
    await make_project(console, "many", *names)
    for number, name in enumerate(names):
        record_figures(console, "many", name, 1, number + 1, 1)
    many = await console.page("/console/analytics?project_id=many")
    assert [tag for tag, _ in elements(many)].count("svg") == 7  # what a person looks at
    assert "Read rate of type-8" in many
    assert "Read rate of type-0" not in many
    assert ">type-0</a>" in many


async def test_a_period_that_cannot_be_is_explained_and_the_usual_one_is_shown(
    console: ConsoleClient,
) -> None:
    await make_project(console, "period", "news")
    path = "/console/analytics?project_id=period"

    page = await console.page(f"{path}&from=2026-02-02&to=2026-02-01")

    assert "ends before it begins" in page
    assert "0 notifications" in page


async def test_many_projects_are_chosen_by_their_id(console: ConsoleClient) -> None:
    token = await console.form_token()
    for number in range(101):
        form = {"form_token": token, "do": "create", "name": f"P{number}", "project_id": f"p-{number:03d}"}
        assert (await console.post("/console/projects", form)).status == 303

    page = await console.page("/console/notifications?project_id=p-100")

    assert re.search(r'<input name="project_id" value="p-100"', page)
    assert len([tag for tag, _ in elements(page) if tag == "option"]) == 100


def compose(project_id: str) -> str:
    return f"/console/compose?project_id={project_id}"


async def submit(console: ConsoleClient, project_id: str, do: str, **fields: Any) -> Answer:
    """Submit the form with sound fields but for these."""
    sound = {
        "type": "news", "title": "Title", "body": "Body", "url": "", "audience": "accounts",
        "audience_type": "news", "accounts": ACCOUNT, "notification_id": f"id-{project_id}",
    }  # fmt: skip
    return await console.send(compose(project_id), do, **{**sound, **fields})


async def last_title(console: ConsoleClient, project_id: str) -> str:
    return await console.page(f"/console/notifications?project_id={project_id}")


async def test_without_projects_and_without_types_the_pages_say_where_to_make_them(
    console: ConsoleClient,
) -> None:
    for page in ("notifications", "analytics", "accounts", "compose"):
        assert "There are no projects yet." in await console.page(f"/console/{page}")
    await make_project(console, "bare")
    assert "has no notification types yet" in await console.page("/console/compose")
    assert (await submit(console, "gone", "send")).status == 404
    assert (await console.get(compose("gone"))).status == 404
    for answer in (
        await console.get("/console/compose/sendings/unknown"),
        await console.send("/console/compose/sendings/unknown", "continue"),
    ):
        assert answer.status == 404
        assert "nobody gets it twice" in answer.body.decode()


async def test_a_check_shows_who_would_get_it_and_sends_nothing_and_after_the_send_who_did_not(
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
    sent = await submit(console, "checked", "send", accounts=f"{ACCOUNT}\n{OTHER}", title="Sent to her")
    page = await console.page(sent.headers["Location"])
    assert "Sent to 1 account." in page
    assert "Sent, to 2 accounts" in page
    assert f"account={OTHER.replace(':', '%3A')}" in page
    assert "have not chosen the type" in page
    assert "Sent to her" in await last_title(console, "checked")
    assert "complete" in await console.page(compose("checked"))


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
        ({"title": "\U0001f600" * 65}, "title"),
        ({"notification_id": ""}, "notification_id"),
    ],
)
async def test_each_field_has_its_fault(console: ConsoleClient, fields: dict[str, str], name: str) -> None:
    await make_project(console, "each", "news")

    for do in ("check", "send"):
        answer = await submit(console, "each", do, **fields)

        page = answer.body.decode()
        assert answer.status == 400
        assert {a.get("name") for _, a in elements(page) if a.get("aria-invalid") == "true"} == {name}
        assert 'class="fault"' in page


async def test_characters_are_counted_as_code_points_of_one_line(console: ConsoleClient) -> None:
    await make_project(console, "counted", "news")

    exact = await submit(console, "counted", "check", title="\U0001f600" * 64, body=" a\r\n\r\nb ")

    assert exact.status == 200
    assert 'data-counts="title">64</span>' in exact.body.decode()
    assert 'data-counts="body">3</span>' in exact.body.decode()


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
