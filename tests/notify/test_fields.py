"""Bodies and fields of a notification: every field at its exact boundary, every fault of a body at once."""

import json
from collections.abc import AsyncIterator, Callable
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.notify.models import Notification, NotifyRequest
from bridge_server.notify.wire import NotifyShape, openable_url, read_lookup, read_notify_request
from bridge_server.web.bodies import JsonObject, misspelled, parse_object
from tests.support.asking import Answer, ask, pointers
from tests.support.project import NEWS, App, a_notification, account, accounts, look, opened_app
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.web import inputs

WHO = account(1)
ASTRAL, COMBINING = "😀", "e\u0301"
TEXTS = [("title", 64), ("body", 255)]


def url_of(length: int) -> str:
    return "https://example.org/".ljust(length, "x")


def stored(app: App) -> tuple[Any, ...]:
    """The one notification that was taken: type, title, body, URL and the caller's id."""
    (row,) = look(
        app.server,
        """
        SELECT notification_types.type_id, title, body, url, idempotency_key
        FROM notifications JOIN notification_types ON notification_types.id = notifications.type
        """,
    )
    return row


async def taken(app: App, **content: Any) -> None:
    """Send with these fields, and see that it is delivered."""
    await app.subscribe(WHO)
    answer = await app.post({"notification": a_notification(**content), "accounts": [WHO]})
    assert answer.json == {"sent": [WHO], "failed": [], "not_found": []}


async def faults_of(app: App, fields: Any) -> list[str]:
    """The pointers of a call that must be refused, and must store nothing."""
    await app.subscribe(WHO)
    problem = (await app.post(fields)).problem(400)
    assert look(app.server, "SELECT 1 FROM notifications UNION ALL SELECT 1 FROM account_buckets") == []
    return pointers(problem)


def read(**content: Any) -> Notification:
    """A notification with these fields, as `wire` reads it."""
    return read_request({"notification": a_notification(**content), "accounts": [WHO]}).notification


def read_request(fields: Any) -> NotifyRequest:
    """This body, as `wire` reads it."""
    return read_notify_request(parse_object(orjson.dumps(fields)))


def faults_in(fields: Any, read: Callable[[JsonObject], Any] = read_notify_request) -> list[str]:
    """The pointers of the faults that `wire` finds in this body."""
    with pytest.raises(InvalidInputError) as refused:
        read(parse_object(orjson.dumps(fields)))
    return [fault.pointer for fault in refused.value.faults]


def faults_of_content(**content: Any) -> list[str]:
    """The pointers of the faults that `wire` finds in a notification with these fields."""
    return faults_in({"notification": a_notification(**content), "accounts": [WHO]})


BREAKS = ["\r", "\n", "\r\n", "\n\n", "\r\n\r\n\r\n", "\u2028", "\u2029", "\u2028\n\r\u2029\r\n"]
MARKS = ["\u061c", "\u200e\u200f", "\u202a\u202e\u2066\u2069", "\ufeff", "\u00a0", "\ufffe"]
CONTROLS = [0x00, 0x01, 0x08, 0x0B, 0x0C, 0x1B, 0x1F, 0x7F, 0x80, 0x85, 0x9F]


@each_row(("field", "most"), TEXTS)
def test_text_is_as_long_as_it_may_be(field: str, most: int) -> None:
    units = ["x", "é", ASTRAL, "\u200f", "\u202e", "\u200d", '"', "\\", "<"]
    combined = COMBINING * (most // 2) + "x" * (most % 2)

    for text in ("x", combined, *(unit * most for unit in units)):
        assert getattr(read(**{field: text}), field) == text


@each_row(
    ("sent", "kept"),
    [
        *((f"{line_break}a{line_break}b {line_break} c {line_break}", "a b   c") for line_break in BREAKS),
        ("\t a\tb \t\r\n", "a b"),
        *((mark, mark) for mark in MARKS),
        *((f"a{mark}b", f"a{mark}b") for mark in MARKS),
    ],
)
def test_line_breaks_and_tabs_are_spaces_within_a_text_and_other_marks_are_kept(sent: str, kept: str) -> None:
    content = read(title=sent, body=sent)

    assert (content.title, content.body) == (kept, kept)


@each_row(("field", "most"), TEXTS)
def test_space_is_collapsed_before_characters_are_counted(field: str, most: int) -> None:
    texts = {
        "x" * (most - 2) + "\r\nx": "x" * (most - 2) + " x",
        "\n " + "x" * most + "\r\n" * most: "x" * most,
    }

    for sent, kept in texts.items():
        assert getattr(read(**{field: sent}), field) == kept
    assert faults_of_content(**{field: "x" * (most - 1) + "\r\nx"}) == [f"#/notification/{field}"]


CONTENT_FAULTS: list[tuple[str, Any]] = [
    *product(["type", "title", "body"], [None, 1]),
    *product(["title", "body"], ["", " ", "\t\n ", "\r\n\n" * 100, *(f"a{chr(code)}b" for code in CONTROLS)]),
    *((field, unit * (most + 1)) for field, most in TEXTS for unit in ("x", "é", ASTRAL, "\u202e")),
    *((field, COMBINING * (most // 2) + "xx") for field, most in TEXTS),
    *product(["url"], [url_of(256), "", 1]),
]


@each_row(("field", "value"), CONTENT_FAULTS)
def test_fault_of_a_content_is_named(field: str, value: Any) -> None:
    assert faults_of_content(**{field: value}) == [f"#/notification/{field}"]


@each_row(
    ("members", "pointer"),
    [
        ({"notification": [{}]}, "#/notification"),
        ({"accounts": None}, "#/accounts"),
        ({"accounts": WHO}, "#/accounts"),
        ({"accounts": [WHO, None, WHO]}, "#/accounts/1"),
        ({"accounts": [WHO, [WHO]]}, "#/accounts/1"),
    ],
)
def test_a_notification_is_an_object_and_accounts_are_an_array_of_strings(
    members: dict[str, Any], pointer: str
) -> None:
    assert faults_in({"notification": a_notification(), "accounts": [WHO], **members}) == [pointer]
    if "accounts" in members:
        assert faults_in(members, read_lookup) == [pointer]


@each_row("given", ["x", ASTRAL * 255, "\u0000\r\n", " ", None])
def test_an_id_is_any_text_of_at_most_255_characters(given: str | None) -> None:
    fields = {"notification_id": given, "notification": a_notification(), "accounts": [WHO]}

    assert read_request(fields).notification_id == given


@each_row("given", ["", ASTRAL * 256, 1], ids=str)
def test_any_other_id_is_a_fault(given: Any) -> None:
    fields = {"notification_id": given, "notification": a_notification(), "accounts": [WHO]}

    assert faults_in(fields) == ["#/notification_id"]


OPENABLE = [
    "https://a.example/é", "myapp://open", "myapp:open", "http://a", "HTTPS://EXAMPLE.ORG/?a=b#c",
    "https://例え.テスト/パス?質問=答え#先", "https://a.example/%F0%9F%98%80/😀", "https://[::1]:8443/",
    "https://example.org:/", "https://example.org:65535/", "https://example.org/@name:x",
    "https://example.org/?next=https://user:password@other.example/", "ftp://example.org/",
    "mailto:a@example.org", "tel:+15551234", "ethereum:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb@1",
    "wc:topic@1?bridge=https%3A%2F%2Fbridge.example&key=1", "urn:isbn:0451450523", "javascripts://open",
]  # fmt: skip
REFUSED = [
    "", "/relative", "example.org", "//example.org/", "https:", "https://", "https:///path",
    "https:example.org", "myapp:", "myapp://", "://open", "1app://open", "javascript:alert(1)",
    "JavaScript:alert(1)", "javascript://example.org/%0Aalert(1)", "data:text/html,x", "vbscript:x",
    "file:///etc/passwd", "blob:https://example.org/1", "about:blank", "https://user@example.org/",
    "https://user:password@example.org/", "https://é@example.org/", "myapp://user@open",
    "https://@example.org/", "https://example.org/a\nb", "https://example.org/\r\n",
    "\nhttps://example.org/", " https://example.org/", "java\tscript:alert(1)",
    "https://example.org/\u2028", "https://example.org/a b", "https://example.org/\u00a0",
    "https://example.org/\x00", "https://example.org/\x85", "https://example.org/\u202egnp.exe",
    "https://example.org/\u2066", "https://example.org/\ud800", "https://example.org/\ue000",
    "https://example.org/\ufffe", "https://example.org/%zz", "https://example.org/<x>",
    "https://example.org/\\", "https:\\\\example.org", "https://example.org:0/",
    "https://example.org:65536/", "https://example.org:port/", "https://[::1/", "https://[nonsense]/",
]  # fmt: skip


@each_row("url", OPENABLE)
def test_a_url_that_can_be_opened_is_taken_as_it_is(url: str) -> None:
    assert openable_url(url) == url


@each_row("url", REFUSED)
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|names"):
        openable_url(url)


@each_row("url", [None, url_of(255), "https://a.example/" + "é" * 237, "http://a"])
def test_a_url_has_at_most_255_characters_or_is_null(url: str | None) -> None:
    assert read(url=url).url == url


@each_row(
    ("values", "place", "right"),
    [
        ({"notificationId": "x"}, "#/notificationId", "notification_id"),
        ({"notification-id": "x"}, "#/notification-id", "notification_id"),
        ({"NOTIFICATION_ID": None}, "#/NOTIFICATION_ID", "notification_id"),
        ({"Accounts": []}, "#/Accounts", "accounts"),
        ({"notification": {"Title": "x"}}, "#/notification/Title", "title"),
        ({"notification": {"u~/rl": "x"}}, "#/notification/u~0~1rl", "url"),
    ],
)
def test_misspelled_member_is_told_its_right_spelling(values: dict[str, Any], place: str, right: str) -> None:
    (fault,) = misspelled(NotifyShape, values)

    assert (fault.pointer, fault.detail) == (place, f"is not known: write {right}")


@each_row(
    "values", [{"x": 1}, {"notification_ids": 1}, {"": 1}, {"notification": 1}, {"accounts": [{"Title": 1}]}]
)
def test_unrelated_member_is_ignored(values: dict[str, Any]) -> None:
    assert misspelled(NotifyShape, values) == []


# Over HTTP: one row of each table, what is stored, and how many accounts there may be.


@pytest.mark.parametrize(("field", "most"), TEXTS)
async def test_longest_text_is_stored_and_longer_text_refused(app: App, field: str, most: int) -> None:
    longer = a_notification(**{field: ASTRAL * (most + 1)})

    assert await faults_of(app, {"notification": longer, "accounts": [WHO]}) == [f"#/notification/{field}"]
    await taken(app, **{field: ASTRAL * most})

    assert stored(app)[1 if field == "title" else 2] == ASTRAL * most


async def test_content_is_stored_as_written_but_for_line_breaks_and_tabs(app: App) -> None:
    url, key = "https://exämple.org:8443/%F0%9F%98%80/é?q=😀'", "\u0000\r\n" + ASTRAL * 252
    await app.subscribe(WHO)

    await app.notify([WHO], key, title="\u2028\n\ra\tb & \u202ec", body="\t '); --\u200e \r\n", url=url)

    assert stored(app) == (NEWS, "a b & \u202ec", "'); --\u200e", url, key)


async def test_a_url_may_be_left_out(app: App) -> None:
    await taken(app)

    assert stored(app)[3] is None


@each_row("fields", [{}, {"notification_id": None}])
async def test_without_an_id_every_call_is_another_notification(app: App, fields: dict[str, None]) -> None:
    before = look(app.server, "SELECT count(*) FROM deliveries")[0][0]
    await app.subscribe(WHO)

    for _ in range(2):
        answer = await app.post({"notification": a_notification(), "accounts": [WHO], **fields})
        assert answer.json["sent"] == [WHO]

    assert set(look(app.server, "SELECT idempotency_key FROM notifications")) == {(None,)}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(before + 2,)]


async def test_a_body_with_a_lone_surrogate_is_refused_as_a_whole(app: App) -> None:
    content = orjson.dumps(a_notification(title="HERE")).replace(b"HERE", b"\\ud800")
    body = b'{"notification":%b,"accounts":["%b"]}' % (content, WHO.encode())

    assert "errors" not in (await app.post(body)).problem(400)


async def test_an_unknown_or_removed_type_is_refused_with_the_list_of_types(app: App) -> None:
    for type_id, left in (("NEWS", "news, offers"), ("x" * 10_000, "news, offers"), (NEWS, "offers")):
        if type_id == NEWS:
            await app.operator.projects.remove_type(app.project_id, NEWS)
        fields = {"notification": a_notification(type=type_id), "accounts": [WHO]}

        (fault,) = (await app.post(fields)).problem(400)["errors"]

        assert fault["pointer"] == "#/notification/type"
        assert fault["detail"] == f"names no notification type of the project, which has {left}"


@pytest.mark.parametrize("count", [1, 500])
async def test_a_request_names_1_to_500_accounts(app: App, count: int) -> None:
    wanted = accounts(count)
    await app.subscribe(*wanted)

    answer = await app.notify(wanted)

    assert answer.json == {"sent": wanted, "failed": [], "not_found": []}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(count,)]


@each_row("named", [[], accounts(501), [WHO] * 501], ids=["none", "501", "501 times one"])
async def test_no_account_and_one_more_are_a_fault(app: App, named: list[str]) -> None:
    fields = {"notification": a_notification(), "accounts": named}

    assert await faults_of(app, fields) == ["#/accounts"]


async def test_a_lookup_names_1_to_100_accounts(app: App) -> None:
    await app.subscribe(*accounts(100))

    for count in (1, 100):
        assert list((await app.lookup(accounts(count))).json) == accounts(count)
    for named in ([], accounts(101), [WHO] * 101):
        assert pointers((await app.lookup(named)).problem(400)) == ["#/accounts"]


async def test_missing_members_are_named(app: App) -> None:
    inside = ["#/notification/type", "#/notification/title", "#/notification/body"]

    assert sorted(await faults_of(app, {})) == ["#/accounts", "#/notification"]
    assert await faults_of(app, {"notification": {}, "accounts": [WHO]}) == inside
    assert pointers((await app.ask("POST", app.paths["lookup"], {})).problem(400)) == ["#/accounts"]
    assert pointers((await app.lookup([WHO, 1])).problem(400)) == ["#/accounts/1"]


async def test_every_fault_of_a_body_is_named_at_once(app: App) -> None:
    fields = {
        "notification_id": "",
        "notification": {"type": 1, "title": "x" * 65, "body": "\x00", "url": "data:x"},
        "accounts": ["nobody", WHO, 7, "eip155:1:0x12", None],
    }

    faults = await faults_of(app, fields)

    inside = [f"#/notification/{name}" for name in ("body", "title", "type", "url")]
    assert sorted(faults) == [*(f"#/accounts/{n}" for n in (0, 2, 3, 4)), *inside, "#/notification_id"]


async def test_every_bad_account_is_named_by_its_place(app: App) -> None:
    named = [WHO if place % 2 else f"bad {place // 4}" for place in range(500)]

    problem = (await app.post({"notification": a_notification(), "accounts": named})).problem(400)

    assert pointers(problem) == [f"#/accounts/{place}" for place in range(0, 500, 2)]
    assert len(problem["detail"]) < 500


async def test_nothing_is_sent_twice_for_a_misspelled_id(app: App) -> None:
    await app.subscribe(WHO)
    fields = {"notificationId": "once", "notification": a_notification(), "accounts": [WHO]}

    for answer in [await app.post(fields) for _ in range(2)]:
        problem = answer.problem(400)
        assert pointers(problem) == ["#/notificationId"]
        assert "notification_id" in problem["errors"][0]["detail"]
    assert (await app.mark_all()).json == {"marked": 0}
    lookup = (await app.ask("POST", app.paths["lookup"], {"Accounts": [WHO]})).problem(400)
    assert pointers(lookup) == ["#/Accounts", "#/accounts"]


LIMIT = 524_288
A = account(1)
TABLES = ["notifications", "sendings", "deliveries", "covered_accounts", "account_buckets", "outbox"]
in_module = pytest.mark.asyncio(loop_scope="module")


def body_of(size: int) -> bytes:
    """A body that either endpoint takes, of exactly so many bytes."""
    fields = {"notification": a_notification(), "accounts": [A], "ignored": ""}
    return orjson.dumps({**fields, "ignored": "x" * (size - len(orjson.dumps(fields)))})


async def post(app: App, endpoint: str, body: bytes, content_type: str | None) -> Answer:
    sent = {"Authorization": f"Bearer {app.secret}"}
    return await ask(app.server, "POST", app.paths[endpoint], body, sent, content_type=content_type)


@each_row("endpoint", ["notify", "lookup"])
async def test_a_body_has_at_most_512_kib(app: App, endpoint: str) -> None:
    assert (await post(app, endpoint, body_of(LIMIT), "application/json")).status == 200

    problem = (await post(app, endpoint, body_of(LIMIT + 1), "application/json")).problem(413)
    unauthenticated = await ask(app.server, "POST", app.paths[endpoint], bytes(LIMIT + 1))

    assert str(LIMIT) in problem["detail"]
    unauthenticated.problem(401)


async def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    async with running_server(tmp_path, notify_body_limit=1_000) as server, opened_app(server) as app:
        statuses = [(await post(app, "notify", body_of(size), None)).status for size in (1_000, 1_001)]

    assert statuses == [200, 413]


@each_row("endpoint", ["notify", "lookup"])
async def test_a_body_is_json_whatever_it_is_declared_as(app: App, endpoint: str) -> None:
    declared = [None, "application/json", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""]

    assert {(await post(app, endpoint, body_of(200), each)).status for each in declared} == {200}
    (await post(app, endpoint, b"title=text", "text/plain")).problem(400)


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
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in TABLES)
    return look(app.server, f"SELECT {counts}")


@in_module
@given(body=bodies, endpoint=st.sampled_from(["notify", "lookup"]))
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
