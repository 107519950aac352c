"""The pages that compose a notification and show those that were sent, accounts, inboxes and analytics."""

import re
from typing import Any

from tests.support.asking import Answer
from tests.support.console_client import (
    ConsoleClient,
    check_texts,
    elements,
    found,
    make_project,
    subscribe,
    subscribe_crowd,
)
from tests.support.engines import database_of

ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
MISTYPED = f"{ACCOUNT[:-1]}B"
OTHER = "test:chain:other"
UNKNOWN = "/console/compose/sendings/unknown"


def listed(project_id: str) -> str:
    return f"/console/notifications?project_id={project_id}"


def compose(project_id: str) -> str:
    return f"/console/compose?project_id={project_id}"


def inbox(account: str, query: str = "") -> str:
    return f"/console/inbox?account={account}{query}"


async def submit(console: ConsoleClient, project_id: str, do: str, **fields: Any) -> Answer:
    """Submit the form with sound fields but for these."""
    sound = {
        "type": "news", "title": "Title", "body": "Body", "url": "", "audience": "accounts",
        "audience_type": "news", "accounts": ACCOUNT, "notification_id": f"id-{project_id}",
    }  # fmt: skip
    return await console.send(compose(project_id), do, **{**sound, **fields})


async def send(console: ConsoleClient, project_id: str, title: str, *accounts: str, **fields: str) -> None:
    form = {"accounts": "\n".join(accounts), "notification_id": title, "title": title, **fields}
    answer = await submit(console, project_id, "send", **form)
    assert answer.status == 303, answer.body.decode()


async def test_pages_say_what_is_missing_and_what_a_query_has_wrong(console: ConsoleClient) -> None:
    for name in ("notifications", "analytics", "accounts", "compose"):
        await console.page(f"/console/{name}", "There are no projects yet.")
    await make_project(console, "bare")
    await console.page("/console/compose", "has no notification types yet")
    await make_project(console, "bare", "news")

    pages = {
        listed("bare"): "Nothing was sent yet: <a",
        "/console/inbox": "Enter an account to see its inbox as its owner does.",
        inbox("test:chain:nobody"): "The inbox is empty: <a",
        inbox(MISTYPED): "has a wrong checksum",
        inbox(OTHER, "&unread=maybe"): "The query has parameters",
        "/console/accounts?account=test:chain:nobody": "subscribes to no project",
        "/console/accounts?account=test:chain:nobody&project_id=bare": "the project can send it nothing",
        f"/console/accounts?account={MISTYPED}": "has a wrong checksum",
        f"/console/accounts?account={MISTYPED}&project_id=bare": f'value="{MISTYPED}"',
    }
    for path, text in pages.items():
        await console.page(path, text)
    period = "/console/analytics?project_id=bare&from=2026-02-02&to=2026-02-01"
    await console.page(period, "ends before it begins", "0 notifications")  # of the usual period
    for path in (compose("gone"), f"/console/accounts?account={ACCOUNT}&project_id=gone"):
        await console.page(path, status=404)
    assert (await submit(console, "gone", "send")).status == 404
    await console.page(UNKNOWN, "nobody gets it twice", status=404)
    await console.refused(UNKNOWN, "continue", "nobody gets it twice", code=404)
    await console.refused(inbox(OTHER), "mark-read", ids="")
    await console.refused("/console/inbox", "mark-read", ids="1")


async def test_the_list_and_an_inbox_have_pages_and_what_is_read_is_marked(console: ConsoleClient) -> None:
    await make_project(console, "long", "news", name="Shop")
    await subscribe(console, "long", ACCOUNT)
    await subscribe(console, "long", OTHER)
    for number in range(27):
        await send(console, "long", f"Number {number:02d}.", ACCOUNT)

    for path in (listed("long"), inbox(ACCOUNT)):
        page = await console.page(path)
        check_texts(page, "Number 26.", "Number 02.", hidden=("Number 01.",))
        assert page.index("Number 26.") < page.index("Number 02.")
        following = await console.page(found(r'href="([^"]+)">Earlier ones', page))
        check_texts(following, "Number 01.", "Latest ones", hidden=("Number 02.", "Earlier ones"))
    again = await console.page(f"{listed('long')}&after=9&notice=x")
    as_this_page = f'hx-get="{listed("long")}&amp;after=9"'
    check_texts(again, as_this_page, "events?on=notifications&amp;")

    ids = re.findall(r'name="ids" value="([\d ]+)"', page)
    await console.change(inbox(ACCOUNT), "mark-read", "1 marked as read.", ids=ids[0])
    unread = await console.page(inbox(ACCOUNT, "&unread=true"))
    read = await console.page(inbox(ACCOUNT, "&unread=false"), "marked as read by the app or the operator")
    await console.change(inbox(OTHER), "mark-read", "0 marked as read.", ids=ids[1])
    await console.change(inbox(ACCOUNT), "mark-read", "24 marked as read.", ids=ids[-1])

    check_texts(page, "<bdi>Shop</bdi>")
    assert "Number 26." not in unread
    assert read.count("<article") == 1


async def test_a_notification_has_its_figures_and_why_an_account_missed_it(console: ConsoleClient) -> None:
    await make_project(console, "shown", "news", "deals")
    await subscribe(console, "shown", ACCOUNT)
    await subscribe(console, "shown", OTHER, "deals")
    await console.send("/console/projects/shown", "limit", per_hour="1", burst="1")
    await send(console, "shown", "First", ACCOUNT)
    await send(console, "shown", "Second", ACCOUNT, OTHER, url="https://app.example/x", body="Its body")
    path = found(r'href="(/console/notifications/[^/"]+/\d+)"', await console.page(listed("shown")))

    page = await console.page(path, "Its body", "https://app.example/x", "has not chosen the type", "repeat=")
    check_texts(page, "<dt>Rate limited</dt><dd>1</dd>", "<dt>Type not subscribed</dt><dd>1</dd>")
    check_texts(page, 'over its rate limit until <time datetime="20')
    check_texts(await console.page(f"{path}?outcome=rate_limited"), ACCOUNT, hidden=(OTHER,))
    await console.page(f"{path}?outcome=read", "No account.")
    for wrong, status in (("9999", 404), ("?outcome=nonsense", 400), ("?after=nonsense", 400)):
        await console.page(f"{path}{wrong}", status=status)

    everywhere = await console.page(f"/console/accounts?account={OTHER}&project_id=")
    here = await console.page(f"/console/accounts?account={OTHER}&project_id=shown")
    for page in (everywhere, here):
        check_texts(page, "Second", "has not chosen the type", ", to deals")
    check_texts(here, "The account has no devices")


def record_figures(console: ConsoleClient, project_id: str, *rows: tuple[str, int, int, int]) -> None:
    """As if notifications of a type had been sent so many days ago: so many, and so many were read."""
    today = console.server.clock.now_ms() // 86_400_000
    with database_of(console.server.settings) as database:
        for type_id, ago, sent, read in rows:
            database.execute(
                "INSERT INTO daily_figures (project, type, day, sent, read)"
                " SELECT project, id, ?, ?, ? FROM notification_types WHERE type_id = ? AND project ="
                " (SELECT id FROM projects WHERE project_id = ?)",
                (today - ago, sent, read, type_id, project_id),
            )


async def test_analytics_draw_the_read_rate_and_have_its_figures_beside_it(console: ConsoleClient) -> None:
    def charts(page: str) -> int:
        return [tag for tag, _ in elements(page)].count("svg")

    await make_project(console, "figures", "news", "deals")
    record_figures(console, "figures", ("news", 1, 10, 5), ("news", 40, 100, 0), ("deals", 2, 4, 1))

    page = await console.page("/console/analytics?project_id=figures")
    longer = await console.page(found(r'href="([^"]+)"[^>]*>90 days', page))
    of_type = await console.page("/console/analytics?project_id=figures&type=deals")

    assert (charts(page), charts(of_type)) == (3, 1)
    assert [tag for tag, _ in elements(page)].count("rect") == 4
    assert re.search(r'<rect class="bar" [^>]*height="50.0"><title>[\d-]+: 50.0 %, 5 of 10 read', page)
    check_texts(page, "Read rate by day from", "42.9 % in all, 6 of 14 read")
    check_texts(page, '<td data-label="Read rate" class="number">25.0 %</td>')
    check_texts(longer, '<td data-label="Sent" class="number">110</td>')
    assert "style" not in {name for _, attributes in elements(page) for name in attributes}

    names = [f"type-{number}" for number in range(9)]
    await make_project(console, "many", *names)
    record_figures(console, "many", *((name, 1, number + 1, 1) for number, name in enumerate(names)))
    many = await console.page("/console/analytics?project_id=many")
    assert charts(many) == 7  # what a person looks at
    check_texts(many, "Read rate of type-8", ">type-0</a>", hidden=("Read rate of type-0",))


async def test_a_check_shows_who_would_get_it_and_a_send_who_did_not(console: ConsoleClient) -> None:
    await make_project(console, "checked", "news", "deals")
    await subscribe(console, "checked", ACCOUNT)
    await subscribe(console, "checked", OTHER, "deals")
    accounts = f"{ACCOUNT}\n\n{OTHER}\ntest:chain:nobody"

    answer = await submit(console, "checked", "check", accounts=accounts, body="Two\r\nlines")

    page = answer.body.decode()
    assert answer.status == 200
    check_texts(page, "Nothing is sent yet", "<bdi>Two lines</bdi>", ">Send to 3 accounts</button>")
    check_texts(page, "<dt>Would get it</dt><dd>1</dd>", "<dt>Not subscribed</dt><dd>1</dd>")
    check_texts(page, "<dt>Have not chosen the type</dt><dd>1</dd>", 'name="title" value="Title"')
    await console.page(listed("checked"), "Nothing was sent yet: <a")
    sent = await submit(console, "checked", "send", accounts=f"{ACCOUNT}\n{OTHER}", title="Sent to her")
    page = await console.page(sent.headers["Location"], f"account={OTHER.replace(':', '%3A')}")
    check_texts(page, "Sent to 1 account.", "Sent, to 2 accounts", "have not chosen the type")
    await console.page(listed("checked"), "Sent to her")
    await console.page(compose("checked"), "complete")


async def test_all_faults_stand_at_their_fields_at_once_and_the_fields_stay(console: ConsoleClient) -> None:
    await make_project(console, "faulty", "news")

    async def refused(do: str, **fields: str) -> tuple[str, set[str | None]]:
        """The page, and the names of the fields that it marks."""
        answer = await submit(console, "faulty", do, **fields)
        page = answer.body.decode()
        assert answer.status == 400
        return page, {a.get("name") for _, a in elements(page) if a.get("aria-invalid") == "true"}

    many = {
        "title": "x" * 65, "body": "\x07", "url": "javascript:alert(1)",
        "accounts": f"{OTHER}\nnobody\n{ACCOUNT.lower()}\n{MISTYPED}", "notification_id": "y" * 256,
    }  # fmt: skip
    page, marked = await refused("send", type="gone", **many)
    assert marked == many.keys()
    check_texts(page, "Nothing was sent: some fields have faults.", "line 2 ")
    check_texts(page, "must have 1 to 64 characters, and has 65", "line 4 has a wrong checksum")
    check_texts(page, ">65</span> of 64 characters", 'value="javascript:alert(1)"')

    for fields in (
        {"type": "gone"},
        {"audience": "type", "audience_type": "gone"},
        {"accounts": " \n "},
        {"accounts": "\n".join(f"test:chain:{each}" for each in range(501))},
        {"title": "  "},
        {"title": "\U0001f600" * 65},
        {"notification_id": ""},
    ):
        for do in ("check", "send"):
            page, marked = await refused(do, **fields)
            assert marked == {list(fields)[-1]}
            check_texts(page, 'class="fault"')

    exact = await submit(console, "faulty", "check", title="\U0001f600" * 64, body=" a\r\n\r\nb ")
    assert exact.status == 200  # characters are code points, and those of one line
    check_texts(exact.body.decode(), 'data-counts="title">64</span>', 'data-counts="body">3</span>')


async def test_a_walk_goes_on_step_by_step_is_left_and_taken_up_again(console: ConsoleClient) -> None:
    await make_project(console, "walk", "news")
    await subscribe(console, "walk", ACCOUNT)
    subscribe_crowd(console, 2_600, ACCOUNT, "walk")

    answer = await submit(console, "walk", "send", audience="all", accounts="", title="To everybody")
    place = answer.headers["Location"].partition("?")[0]
    await console.page(answer.headers["Location"], 'hx-trigger="load', 'value="2000"', 'max="2601"')
    left = await console.page(place)
    await console.page(compose("walk"), f'href="{place}"', "not finished: continue")
    over = await console.change(place, "continue")
    again = await console.change(place, "continue")

    check_texts(left, ">Continue</button>", "Not finished", hidden=('hx-trigger="load',))
    for page in (over, again):
        check_texts(page, "Sent to 2\xa0601 accounts.", hidden=("Continue",))


async def test_a_walk_begun_anew_with_its_id_sends_to_nobody_twice(console: ConsoleClient) -> None:
    await make_project(console, "anew", "news")
    await subscribe(console, "anew", ACCOUNT)
    for _ in range(2):
        await submit(console, "anew", "send", audience="type", accounts="")
    await console.page(inbox(ACCOUNT), "<bdi>App</bdi>")
    [number] = re.findall(r'href="/console/notifications/anew/(\d+)"', await console.page(listed("anew")))
    repeated = elements(await console.page(f"{compose('anew')}&repeat={number}"))
    values = {a.get("name"): a.get("value") for tag, a in repeated if tag == "input"}
    assert (values["notification_id"], values["title"]) == ("id-anew", "Title")
    await console.page(f"{compose('anew')}&repeat=999999", status=404)
