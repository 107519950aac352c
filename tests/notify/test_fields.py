"""Bodies and fields of a notification: every field at its exact boundary, every fault of a body at once."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.notify.models import NotifyRequest
from bridge_server.notify.wire import NotifyShape, openable_url, read_lookup, read_notify_request
from bridge_server.web.bodies import JsonObject, misspelled, parse_object
from tests.support.asking import Answer, ask, pointers
from tests.support.project import NEWS, App, a_notification, account, accounts, look, opened_app
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.web import inputs

WHO = account(1)
ASTRAL, COMBINING = "😀", "e\u0301"
TEXTS = {"title": 64, "body": 255}


def a_call(**members: Any) -> dict[str, Any]:
    """The body of a valid call but for these members."""
    return {"notification": a_notification(), "accounts": [WHO], **members}


def of(**content: Any) -> dict[str, Any]:
    """The body of a valid call but for this content of the notification."""
    return a_call(notification=a_notification(**content))


def read(fields: Any) -> NotifyRequest:
    return read_notify_request(parse_object(orjson.dumps(fields)))


def faults_in(fields: Any, read: Callable[[JsonObject], Any] = read_notify_request) -> list[str]:
    """The pointers of the faults that `wire` finds in this body."""
    with pytest.raises(InvalidInputError) as refused:
        read(parse_object(orjson.dumps(fields)))
    return [fault.pointer for fault in refused.value.faults]


BREAKS = ["\r", "\n", "\r\n", "\n\n", "\r\n\r\n\r\n", "\u2028", "\u2029", "\u2028\n\r\u2029\r\n"]
MARKS = ["\u061c", "\u200e\u200f", "\u202a\u202e\u2066\u2069", "\ufeff", "\u00a0", "\ufffe"]
CONTROLS = [0x00, 0x01, 0x08, 0x0B, 0x0C, 0x1B, 0x1F, 0x7F, 0x80, 0x85, 0x9F]


@each_row(
    ("sent", "kept"),
    [
        *((f"{line_break}a{line_break}b {line_break} c {line_break}", "a b   c") for line_break in BREAKS),
        ("\t a\tb \t\r\n", "a b"),
        *((text, text) for mark in MARKS for text in (mark, f"a{mark}b")),
    ],
)
def test_line_breaks_and_tabs_are_spaces_within_a_text_and_other_marks_are_kept(sent: str, kept: str) -> None:
    content = read(of(title=sent, body=sent)).notification
    assert (content.title, content.body) == (kept, kept)


@each_row(("field", "most"), TEXTS.items())
def test_a_text_is_as_long_as_it_may_be_once_its_space_is_collapsed(field: str, most: int) -> None:
    units = ["x", "é", ASTRAL, "\u200f", "\u202e", "\u200d", '"', "\\", "<"]
    texts = ["x", COMBINING * (most // 2) + "x" * (most % 2), *(unit * most for unit in units)]
    kept = {
        **{text: text for text in texts},
        "x" * (most - 2) + "\r\nx": "x" * (most - 2) + " x",
        "\n " + "x" * most + "\r\n" * most: "x" * most,
    }

    assert {sent: getattr(read(of(**{field: sent})).notification, field) for sent in kept} == kept


def test_an_id_is_any_text_and_a_url_openable_of_at_most_255_characters_or_null() -> None:
    for given_id in ("x", ASTRAL * 255, "\u0000\r\n", " ", None):
        assert read(a_call(notification_id=given_id)).notification_id == given_id
    for url in (None, "https://example.org/".ljust(255, "x"), "https://a.example/" + "é" * 237, "http://a"):
        assert read(of(url=url)).notification.url == url


CONTENT_FAULTS: list[tuple[str, Any]] = [
    *product(["type", "title", "body"], [None, 1]),
    *product(["title", "body"], ["", " ", "\t\n ", "\r\n\n" * 100, *(f"a{chr(code)}b" for code in CONTROLS)]),
    *((field, unit * (most + 1)) for field, most in TEXTS.items() for unit in ("x", "é", ASTRAL, "\u202e")),
    *((field, COMBINING * (most // 2) + "xx") for field, most in TEXTS.items()),
    *((field, "x" * (most - 1) + "\r\nx") for field, most in TEXTS.items()),
    *product(["url"], ["https://example.org/".ljust(256, "x"), "", 1]),
]


@each_row(
    ("fields", "pointer"),
    [
        *((of(**{field: value}), f"#/notification/{field}") for field, value in CONTENT_FAULTS),
        (a_call(notification=[{}]), "#/notification"),
        *((a_call(notification_id=value), "#/notification_id") for value in ("", ASTRAL * 256, 1)),
    ],
)
def test_each_fault_is_named_by_its_place(fields: dict[str, Any], pointer: str) -> None:
    assert faults_in(fields) == [pointer]


@each_row(("named", "place"), [(None, ""), (WHO, ""), ([WHO, None, WHO], "/1"), ([WHO, [WHO]], "/1")])
def test_accounts_are_an_array_of_strings(named: Any, place: str) -> None:
    assert faults_in(a_call(accounts=named)) == [f"#/accounts{place}"]
    assert faults_in({"accounts": named}, read_lookup) == [f"#/accounts{place}"]


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


@each_row("url", OPENABLE + REFUSED)
def test_a_url_that_can_be_opened_is_taken_as_it_is_and_any_other_is_refused(url: str) -> None:
    with nullcontext() if url in OPENABLE else pytest.raises(ValueError, match=r"must|names"):
        assert openable_url(url) == url


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


def test_unrelated_member_is_ignored() -> None:
    for values in (
        {"x": 1},
        {"notification_ids": 1},
        {"": 1},
        {"notification": 1},
        {"accounts": [{"Title": 1}]},
    ):
        assert misspelled(NotifyShape, values) == []


# Over HTTP: one row of each table, what is stored, and how many accounts there may be.

TABLES = ["notifications", "sendings", "deliveries", "covered_accounts", "account_buckets", "outbox"]


def rows(app: App) -> list[tuple[Any, ...]]:
    """How many rows each table of the service has."""
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in TABLES)
    return look(app.server, f"SELECT {counts}")


async def test_content_is_stored_as_written_but_for_line_breaks_and_tabs(app: App) -> None:
    longest = {field: ASTRAL * most for field, most in TEXTS.items()}
    url, key = "https://exämple.org:8443/%F0%9F%98%80/é?q=😀'", "\u0000\r\n" + ASTRAL * 252
    await app.subscribe(WHO)

    assert (await app.notify([WHO], **longest)).json == {"sent": [WHO], "failed": [], "not_found": []}
    await app.notify([WHO], key, title="\u2028\n\ra\tb & \u202ec", body="\t '); --\u200e \r\n", url=url)

    assert look(
        app.server,
        """
        SELECT notification_types.type_id, title, body, url, idempotency_key
        FROM notifications JOIN notification_types ON notification_types.id = notifications.type
        ORDER BY notifications.id
        """,
    ) == [
        (NEWS, longest["title"], longest["body"], None, None),
        (NEWS, "a b & \u202ec", "'); --\u200e", url, key),
    ]


async def test_without_an_id_every_call_is_another_notification(app: App) -> None:
    await app.subscribe(WHO)
    for fields in (a_call(), a_call(), a_call(notification_id=None), a_call(notification_id=None)):
        assert (await app.post(fields)).json["sent"] == [WHO]
    assert set(look(app.server, "SELECT idempotency_key FROM notifications")) == {(None,)}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(4,)]


async def test_a_refused_call_names_every_fault_at_once_and_stores_nothing(app: App) -> None:
    await app.subscribe(WHO)
    content = {"type": 1, "title": "x" * 65, "body": "\x00", "url": "data:x"}
    named = ["nobody", WHO, 7, "eip155:1:0x12", None]
    inside = [f"#/notification/{name}" for name in ("type", "title", "body", "url")]

    for fields, places in (
        *((a_call(accounts=each), ["#/accounts"]) for each in ([], accounts(501), [WHO] * 501)),
        *((of(**{field: ASTRAL * (most + 1)}), [f"#/notification/{field}"]) for field, most in TEXTS.items()),
        ({}, ["#/notification", "#/accounts"]),
        (a_call(notification={}), inside[:3]),
        (a_call(notificationId="once"), ["#/notificationId"]),
        (
            a_call(notification_id="", notification=content, accounts=named),
            ["#/notification_id", *inside, *(f"#/accounts/{n}" for n in (0, 2, 3, 4))],
        ),
        (
            a_call(accounts=[WHO if place % 2 else f"bad {place // 4}" for place in range(500)]),
            [f"#/accounts/{place}" for place in range(0, 500, 2)],
        ),
    ):
        problem = (await app.post(fields)).problem(400)
        assert sorted(pointers(problem)) == sorted(places)
        assert len(problem["detail"]) < 500
    surrogate = orjson.dumps(of(title="HERE")).replace(b"HERE", b"\\ud800")
    assert "errors" not in (await app.post(surrogate)).problem(400)
    assert rows(app) == [(0,) * len(TABLES)]


async def test_an_unknown_or_removed_type_is_refused_with_the_list_of_types(app: App) -> None:
    for type_id, left in (("NEWS", "news, offers"), ("x" * 10_000, "news, offers"), (NEWS, "offers")):
        if type_id == NEWS:
            await app.operator.projects.remove_type(app.project_id, NEWS)
        (fault,) = (await app.post(of(type=type_id))).problem(400)["errors"]
        assert fault["pointer"] == "#/notification/type"
        assert fault["detail"] == f"names no notification type of the project, which has {left}"


async def test_a_call_names_1_to_500_accounts_and_a_lookup_1_to_100(app: App) -> None:
    everybody = accounts(500)
    await app.subscribe(*everybody)

    for count in (1, 500):
        outcome = (await app.notify(everybody[:count])).json
        assert outcome == {"sent": everybody[:count], "failed": [], "not_found": []}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(501,)]

    for count in (1, 100):
        assert list((await app.lookup(everybody[:count])).json) == everybody[:count]
    for fields, places in (
        *(({"accounts": named}, ["#/accounts"]) for named in ([], accounts(101), [WHO] * 101)),
        ({}, ["#/accounts"]),
        ({"accounts": [WHO, 1]}, ["#/accounts/1"]),
        ({"Accounts": [WHO]}, ["#/Accounts", "#/accounts"]),
    ):
        assert pointers((await app.ask("POST", app.paths["lookup"], fields)).problem(400)) == places


LIMIT = 524_288


def body_of(size: int) -> bytes:
    """A body that either endpoint takes, of exactly so many bytes."""
    bare = len(orjson.dumps(a_call(ignored="")))
    return orjson.dumps(a_call(ignored="x" * (size - bare)))


async def post(app: App, endpoint: str, body: bytes, content_type: str | None = "application/json") -> Answer:
    sent = {"Authorization": f"Bearer {app.secret}"}
    return await ask(app.server, "POST", app.paths[endpoint], body, sent, content_type=content_type)


@each_row("endpoint", ["notify", "lookup"])
async def test_a_body_is_json_of_at_most_512_kib_whatever_it_is_declared_as(app: App, endpoint: str) -> None:
    declared = [None, "application/json", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""]
    assert {(await post(app, endpoint, body_of(200), each)).status for each in declared} == {200}
    (await post(app, endpoint, b"title=text", "text/plain")).problem(400)
    assert (await post(app, endpoint, body_of(LIMIT))).status == 200
    assert str(LIMIT) in (await post(app, endpoint, body_of(LIMIT + 1))).problem(413)["detail"]
    (await ask(app.server, "POST", app.paths[endpoint], bytes(LIMIT + 1))).problem(401)


async def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    async with running_server(tmp_path, notify_body_limit=1_000) as server, opened_app(server) as app:
        assert [(await post(app, "notify", body_of(size))).status for size in (1_000, 1_001)] == [200, 413]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy_app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """One project for all that is sent here."""
    async with running_server(tmp_path_factory.mktemp("any") / "data") as server, opened_app(server) as app:
        await app.subscribe(WHO)
        yield app


contents = st.fixed_dictionaries(
    {
        "type": st.one_of(st.just("news"), inputs.values),
        "title": st.one_of(st.text(min_size=1, max_size=70), inputs.values),
        "body": st.one_of(st.text(min_size=1, max_size=300), inputs.values),
    },
    optional={"url": st.one_of(st.just("https://example.org/"), inputs.values)},
)
named = st.lists(st.one_of(st.just(WHO), st.text(max_size=60)), max_size=4)
requests = st.fixed_dictionaries(
    {
        "notification": st.one_of(contents, contents, inputs.values),
        "accounts": st.one_of(named, st.just([WHO]), inputs.values),
    },
    optional={"notification_id": st.one_of(st.none(), st.text(max_size=4), inputs.values)},
)
bodies = st.one_of(
    requests.map(lambda fields: json.dumps(fields).encode()),
    requests.map(lambda fields: json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    inputs.bodies,
)


@pytest.mark.asyncio(loop_scope="module")
@given(body=bodies, endpoint=st.sampled_from(["notify", "lookup"]))
async def test_any_body_is_answered_or_refused_as_a_whole(busy_app: App, body: bytes, endpoint: str) -> None:
    busy_app.server.clock.advance(3_600)
    before = rows(busy_app)

    answer = await post(busy_app, endpoint, body)

    if answer.status != 200:
        answer.problem(400)
        assert rows(busy_app) == before
    elif endpoint == "notify":
        lists = answer.json
        told = [*lists["sent"], *lists["not_found"], *(failure["account"] for failure in lists["failed"])]
        assert sorted(told) == sorted(set(orjson.loads(body)["accounts"]))
