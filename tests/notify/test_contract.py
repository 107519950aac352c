"""The notification service's table, row by row: what is sent, and exactly what comes back."""

from dataclasses import dataclass

import orjson
import pytest

from tests.support.asking import ask
from tests.support.project import NEWS, OFFERS, App, account
from tests.support.rows import each_row

SUBSCRIBED, HALF, STRANGER = account(1), account(2), account(3)
_NOTIFICATION = b'"notification":{"type":"offers","title":"t","body":"b"}'


@dataclass(frozen=True, slots=True)
class Row:
    """One row; ID stands for the project."""

    method: str
    path: str
    sent: bytes | None
    told: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


_ALL = orjson.dumps([SUBSCRIBED, HALF, STRANGER])

ROWS = [
    Row(
        "POST",
        "/ID/notify",
        b"{%b,%b}" % (_NOTIFICATION, b'"accounts":' + _ALL),
        f'{{"sent":["{SUBSCRIBED}"],'
        f'"failed":[{{"account":"{HALF}","reason":"type_not_subscribed"}}],"not_found":["{STRANGER}"]}}',
    ),
    Row(
        "POST",
        "/ID/notify",
        b'{%b,"accounts":["%b"]}' % (_NOTIFICATION, SUBSCRIBED.encode()),
        f'{{"sent":["{SUBSCRIBED}"],"failed":[],"not_found":[]}}',
    ),
    Row(
        "POST",
        "/v1/ID/subscribers",
        b'{"accounts":%b}' % _ALL,
        f'{{"{SUBSCRIBED}":{{"notification_types":["news","offers"]}},'
        f'"{HALF}":{{"notification_types":["news"]}}}}',
    ),
    Row("POST", "/v1/ID/subscribers", b'{"accounts":["%b"]}' % STRANGER.encode(), "{}"),
    Row("GET", "/ID/subscribers", None, f'["{SUBSCRIBED}","{HALF}"]'),
    Row("POST", "/v1/ID/mark-all-as-read", None, '{"marked":1}'),
    Row("POST", "/v1/ID/mark-all-as-read", b"\xff is no JSON and is not read", '{"marked":1}'),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_row_is_answered_to_the_letter(app: App, row: Row) -> None:
    await app.subscribe(SUBSCRIBED)
    await app.subscribe(HALF, types=[NEWS])
    await app.notify([HALF])

    answer = await app.ask(row.method, row.path.replace("ID", app.project_id), row.sent)

    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.body.decode() == row.told


async def test_a_limited_account_is_reported_with_the_seconds_to_wait(app: App) -> None:
    await app.subscribe(SUBSCRIBED)
    await app.operator.projects.limit_accounts(app.project_id, per_hour=2, burst=1)
    await app.notify([SUBSCRIBED])

    answer = await app.notify([SUBSCRIBED])

    limited = f'{{"account":"{SUBSCRIBED}","reason":"rate_limited","retry_after":1800}}'
    assert answer.status == 200
    assert answer.body.decode() == f'{{"sent":[],"failed":[{limited}],"not_found":[]}}'


async def test_an_undeclared_body_is_taken_for_json(app: App) -> None:
    await app.subscribe(SUBSCRIBED)
    body = b'{%b,"accounts":["%b"]}' % (_NOTIFICATION, SUBSCRIBED.encode())
    bearer = {"Authorization": f"Bearer {app.secret}"}

    answer = await ask(app.server, "POST", app.paths["notify"], body, bearer, content_type=None)

    assert answer.json["sent"] == [SUBSCRIBED]


@each_row("unknown", [{"x": 1}, {"account": None}, {"notifications": []}])
async def test_unknown_fields_are_ignored(app: App, unknown: dict[str, object]) -> None:
    await app.subscribe(SUBSCRIBED)
    content = {"type": OFFERS, "title": "t", "body": "b", **unknown}

    answer = await app.post({"notification": content, "accounts": [SUBSCRIBED], **unknown})

    assert answer.json["sent"] == [SUBSCRIBED]


async def test_a_listing_says_nothing_of_its_body_to_head(app: App) -> None:
    await app.subscribe(SUBSCRIBED)

    answer = await app.ask("HEAD", app.paths["listing"])

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Type"] == "application/json"
