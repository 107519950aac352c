"""Every field of a notification at its exact boundary, and every fault of a body at once."""

from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest

from tests.support.problems import pointers
from tests.support.project import NEWS, App, a_notification, account, accounts, look

WHO = account(1)
ASTRAL, COMBINING = "😀", "e\u0301"
NULL = None
_URL = "https://example.org/"


def url_of(length: int) -> str:
    return _URL + "x" * (length - len(_URL))


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
    """Where the faults are of a call that must be refused, and must store nothing."""
    await app.subscribe(WHO)
    problem = (await app.post(fields)).problem(400)
    assert look(app.server, "SELECT 1 FROM notifications UNION ALL SELECT 1 FROM account_buckets") == []
    return pointers(problem)


async def all_faults_of(app: App, values: Iterable[Any], fields: Callable[[Any], Any]) -> list[Any]:
    """The values, each with where the faults are of the call that has it, which must be refused."""
    told = []
    for value in values:
        app.server.clock.advance(60)  # for the sake of the limit on calls
        told.append((value, await faults_of(app, fields(value))))
    return told


TEXTS = [("title", 64), ("body", 255)]


@pytest.mark.parametrize(("field", "most"), TEXTS)
@pytest.mark.parametrize("unit", ["x", "é", ASTRAL, "\u200f", "\u202e", "\u200d", '"', "\\", "<"])
async def test_text_is_as_long_as_it_may_be(app: App, field: str, most: int, unit: str) -> None:
    await taken(app, **{field: unit * most})

    assert stored(app)[1 if field == "title" else 2] == unit * most


@pytest.mark.parametrize(("field", "most"), TEXTS)
@pytest.mark.parametrize("unit", ["x", "é", ASTRAL, "\u202e"])
async def test_one_character_more_is_a_fault(app: App, field: str, most: int, unit: str) -> None:
    content = a_notification(**{field: unit * (most + 1)})

    assert await faults_of(app, {"notification": content, "accounts": [WHO]}) == [f"#/notification/{field}"]


@pytest.mark.parametrize(("field", "most"), TEXTS)
async def test_a_combining_mark_counts_like_a_letter(app: App, field: str, most: int) -> None:
    fits = COMBINING * (most // 2) + "x" * (most % 2)

    assert await faults_of(
        app, {"notification": a_notification(**{field: fits + "\u0301"}), "accounts": [WHO]}
    )
    await taken(app, **{field: fits})


@pytest.mark.parametrize(("field", "most"), TEXTS)
async def test_text_may_be_one_character_and_not_none(app: App, field: str, most: int) -> None:
    empty = a_notification(**{field: ""})

    assert await faults_of(app, {"notification": empty, "accounts": [WHO]}) == [f"#/notification/{field}"]
    await taken(app, **{field: "x"})


BREAKS = {
    "CR": "\r",
    "LF": "\n",
    "CRLF": "\r\n",
    "two LF": "\n\n",
    "three CRLF": "\r\n\r\n\r\n",
    "LINE SEPARATOR": "\u2028",
    "PARAGRAPH SEPARATOR": "\u2029",
    "mixed": "\u2028\n\r\u2029\r\n",
}


@pytest.mark.parametrize("line_break", BREAKS.values(), ids=BREAKS.keys())
@pytest.mark.parametrize("field", ["title", "body"])
async def test_a_run_of_line_breaks_is_one_space(app: App, field: str, line_break: str) -> None:
    await taken(app, **{field: f"{line_break}a{line_break}b {line_break} c {line_break}"})

    assert stored(app)[1 if field == "title" else 2] == "a b   c"


@pytest.mark.parametrize("field", ["title", "body"])
async def test_a_tab_is_a_space_and_none_is_at_the_ends(app: App, field: str) -> None:
    await taken(app, **{field: "\t a\tb \t\r\n"})

    assert stored(app)[1 if field == "title" else 2] == "a b"


@pytest.mark.parametrize(("field", "most"), TEXTS)
async def test_line_breaks_are_collapsed_before_characters_are_counted(
    app: App, field: str, most: int
) -> None:
    one_too_many = "x" * (most - 1) + "\r\n" + "x"

    assert await faults_of(app, {"notification": a_notification(**{field: one_too_many}), "accounts": [WHO]})
    await taken(app, **{field: "x" * (most - 2) + "\r\n" + "x"})
    assert stored(app)[1 if field == "title" else 2] == "x" * (most - 2) + " x"


@pytest.mark.parametrize("text", ["\r\n\n" * 100, " ", "\t\n "])
async def test_text_of_nothing_but_space_is_none(app: App, text: str) -> None:
    fields = {"notification": a_notification(title=text), "accounts": [WHO]}

    assert await faults_of(app, fields) == ["#/notification/title"]


@pytest.mark.parametrize(("field", "most"), TEXTS)
async def test_space_at_the_ends_does_not_count(app: App, field: str, most: int) -> None:
    await taken(app, **{field: "\n " + "x" * most + "\r\n" * most})

    assert stored(app)[1 if field == "title" else 2] == "x" * most


@pytest.mark.parametrize("field", ["title", "body"])
async def test_other_control_characters_are_a_fault(app: App, field: str) -> None:
    codes = [0x00, 0x01, 0x08, 0x0B, 0x0C, 0x1B, 0x1F, 0x7F, 0x80, 0x85, 0x9F]

    def with_code(code: int) -> dict[str, Any]:
        return {"notification": a_notification(**{field: f"a{chr(code)}b"}), "accounts": [WHO]}

    assert await all_faults_of(app, codes, with_code) == [
        (code, [f"#/notification/{field}"]) for code in codes
    ]


@pytest.mark.parametrize(
    "text", ["\u061c", "\u200e\u200f", "\u202a\u202e\u2066\u2069", "\ufeff", "\u00a0", "\ufffe"]
)
async def test_marks_that_only_direct_or_join_text_are_kept(app: App, text: str) -> None:
    await taken(app, title=f"a{text}b", body=text)

    assert stored(app)[1:3] == (f"a{text}b", text)


@pytest.mark.parametrize("field", ["title", "body", "url", "type"])
@pytest.mark.parametrize("surrogate", [b"\\ud800", b"\\udc00", b"\\udc00\\ud800", b"\xed\xa0\x80"])
async def test_a_lone_surrogate_is_no_json(app: App, field: str, surrogate: bytes) -> None:
    content = orjson.dumps(a_notification(**{field: "HERE"})).replace(b"HERE", surrogate)
    await app.subscribe(WHO)

    answer = await app.post(b'{"notification":%b,"accounts":["%b"]}' % (content, WHO.encode()))

    assert "errors" not in answer.problem(400)


@pytest.mark.parametrize(
    "url",
    [
        NULL,
        "http://a",
        "https://example.org",
        "HTTPS://EXAMPLE.ORG/?a=b#c",
        "https://exämple.org:8443/%F0%9F%98%80/é?q=😀",
        "http://[::1]/",
        "myapp://open",
        url_of(255),
        "https://a.example/" + "é" * 237,
    ],
)
async def test_a_url_is_absolute_and_has_at_most_255_characters(app: App, url: str | None) -> None:
    await taken(app, url=url)

    assert stored(app)[3] == url


async def test_a_url_may_be_left_out(app: App) -> None:
    await taken(app)

    assert stored(app)[3] is None


OTHER_URLS = [
    url_of(256),
    "",
    "/relative",
    "example.org",
    "//example.org/",
    "https://user:password@example.org/",
    "JavaScript:alert(1)",
    "https://example.org/a b",
    1,
    True,
    [],
    {},
]


async def test_any_other_url_is_a_fault(app: App) -> None:
    def with_url(url: Any) -> dict[str, Any]:
        return {"notification": a_notification(url=url), "accounts": [WHO]}

    faults = await all_faults_of(app, OTHER_URLS, with_url)

    assert faults == [(url, ["#/notification/url"]) for url in OTHER_URLS]


@pytest.mark.parametrize("given", ["x", "x" * 255, ASTRAL * 255, "\u0000\r\n", " ", "null", "../?#"])
async def test_an_id_is_any_text_of_at_most_255_characters(app: App, given: str) -> None:
    await app.subscribe(WHO)

    answer = await app.notify([WHO], given)

    assert answer.json["sent"] == [WHO]
    assert stored(app)[4] == given


@pytest.mark.parametrize("fields", [{}, {"notification_id": None}])
async def test_an_id_may_be_null_or_left_out_and_then_every_call_is_a_notification_of_its_own(
    app: App, fields: dict[str, None]
) -> None:
    await app.subscribe(WHO)

    for _ in range(2):
        answer = await app.post({"notification": a_notification(), "accounts": [WHO], **fields})
        assert answer.json["sent"] == [WHO]

    assert look(app.server, "SELECT idempotency_key FROM notifications") == [(None,), (None,)]
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(2,)]


async def test_any_other_id_is_a_fault(app: App) -> None:
    others: list[Any] = ["", "x" * 256, ASTRAL * 256, 1, 1.5, False, [], ["x"], {}]

    def with_id(given: Any) -> dict[str, Any]:
        return {"notification_id": given, "notification": a_notification(), "accounts": [WHO]}

    assert await all_faults_of(app, others, with_id) == [(given, ["#/notification_id"]) for given in others]


@pytest.mark.parametrize("type_id", ["", "other", "NEWS", " news", "news\x00", "\u0000", "x" * 10_000])
async def test_a_type_is_one_of_the_project(app: App, type_id: str) -> None:
    fields = {"notification": a_notification(type=type_id), "accounts": [WHO]}

    assert await faults_of(app, fields) == ["#/notification/type"]


async def test_a_wrong_type_is_told_which_there_are(app: App) -> None:
    fields = {"notification": a_notification(type="other"), "accounts": [WHO]}

    (fault,) = (await app.post(fields)).problem(400)["errors"]

    assert fault["detail"] == "names no notification type of the project, which has news, offers"


async def test_a_removed_type_is_none(app: App) -> None:
    await app.operator.projects.remove_type(app.project_id, NEWS)
    fields = {"notification": a_notification(), "accounts": [WHO]}

    assert await faults_of(app, fields) == ["#/notification/type"]


@pytest.mark.parametrize("count", [1, 500])
async def test_a_request_names_1_to_500_accounts(app: App, count: int) -> None:
    wanted = accounts(count)
    await app.subscribe(*wanted)

    answer = await app.notify(wanted)

    assert answer.json == {"sent": wanted, "failed": [], "not_found": []}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(count,)]


@pytest.mark.parametrize("named", [[], accounts(501), [WHO] * 501], ids=["none", "501", "501 times the same"])
async def test_no_account_and_one_more_are_a_fault(app: App, named: list[str]) -> None:
    fields = {"notification": a_notification(), "accounts": named}

    assert await faults_of(app, fields) == ["#/accounts"]


async def test_500_times_the_same_account_is_one_delivery(app: App) -> None:
    await app.subscribe(WHO)

    answer = await app.notify([WHO] * 500)

    assert answer.json == {"sent": [WHO], "failed": [], "not_found": []}
    assert look(app.server, "SELECT count(*) FROM deliveries") == [(1,)]


@pytest.mark.parametrize("count", [1, 100])
async def test_a_lookup_names_1_to_100_accounts(app: App, count: int) -> None:
    wanted = accounts(count)
    await app.subscribe(*wanted)

    assert list((await app.lookup(wanted)).json) == wanted


@pytest.mark.parametrize("named", [[], accounts(101), [WHO] * 101], ids=["none", "101", "101 the same"])
async def test_no_account_and_one_more_to_look_up_are_a_fault(app: App, named: list[str]) -> None:
    assert pointers((await app.lookup(named)).problem(400)) == ["#/accounts"]


@pytest.mark.parametrize("field", ["type", "title", "body"])
async def test_a_text_is_a_string(app: App, field: str) -> None:
    others: list[Any] = [None, True, 1, 1.5, [], {}, ["x"]]

    def with_value(value: Any) -> dict[str, Any]:
        return {"notification": a_notification(**{field: value}), "accounts": [WHO]}

    assert await all_faults_of(app, others, with_value) == [
        (value, [f"#/notification/{field}"]) for value in others
    ]


@pytest.mark.parametrize("value", [None, True, 1, "text", [], [{}]])
async def test_a_notification_is_an_object(app: App, value: Any) -> None:
    assert await faults_of(app, {"notification": value, "accounts": [WHO]}) == ["#/notification"]


@pytest.mark.parametrize("value", [None, True, 1, WHO, {}, {"0": WHO}])
async def test_accounts_are_an_array(app: App, value: Any) -> None:
    assert await faults_of(app, {"notification": a_notification(), "accounts": value}) == ["#/accounts"]
    assert pointers((await app.lookup(value)).problem(400)) == ["#/accounts"]


@pytest.mark.parametrize("value", [None, True, 1, 1.5, [WHO], {}])
async def test_an_account_is_a_string(app: App, value: Any) -> None:
    named = [WHO, value, WHO]

    assert await faults_of(app, {"notification": a_notification(), "accounts": named}) == ["#/accounts/1"]
    assert pointers((await app.lookup(named)).problem(400)) == ["#/accounts/1"]


async def test_what_is_missing_is_named(app: App) -> None:
    inside = ["#/notification/type", "#/notification/title", "#/notification/body"]

    assert sorted(await faults_of(app, {})) == ["#/accounts", "#/notification"]
    assert await faults_of(app, {"notification": {}, "accounts": [WHO]}) == inside
    assert pointers((await app.ask("POST", app.paths["lookup"], {})).problem(400)) == ["#/accounts"]


async def test_every_fault_of_a_body_is_named_at_once(app: App) -> None:
    fields = {
        "notification_id": "",
        "notification": {"type": 1, "title": "x" * 65, "body": "\x00", "url": "data:x"},
        "accounts": ["nobody", WHO, 7, "eip155:1:0x12", None],
    }

    faults = await faults_of(app, fields)

    assert sorted(faults) == [
        "#/accounts/0",
        "#/accounts/2",
        "#/accounts/3",
        "#/accounts/4",
        "#/notification/body",
        "#/notification/title",
        "#/notification/type",
        "#/notification/url",
        "#/notification_id",
    ]


async def test_every_bad_account_is_named_by_its_place(app: App) -> None:
    named = [WHO if place % 2 else f"bad {place}" for place in range(500)]
    await app.subscribe(WHO)

    problem = (await app.post({"notification": a_notification(), "accounts": named})).problem(400)

    assert pointers(problem) == [f"#/accounts/{place}" for place in range(0, 500, 2)]
    assert len(problem["detail"]) < 500


async def test_an_account_that_is_twice_wrong_is_named_twice(app: App) -> None:
    fields = {"notification": a_notification(), "accounts": ["nobody", "nobody"]}

    assert await faults_of(app, fields) == ["#/accounts/0", "#/accounts/1"]


async def test_what_was_written_is_what_is_stored(app: App) -> None:
    await app.subscribe(WHO)

    await app.notify([WHO], "mine", title="a & b", body="'); --", url="https://example.org/?q='")

    assert stored(app) == (NEWS, "a & b", "'); --", "https://example.org/?q='", "mine")
