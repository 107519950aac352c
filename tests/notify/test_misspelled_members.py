"""A member that is nearly a known one is refused: who sent it would not know that it was ignored."""

from typing import Any

from bridge_server.notify.wire import NotifyShape
from bridge_server.web.bodies import misspelled
from tests.support.problems import pointers
from tests.support.project import App, a_notification, account
from tests.support.rows import each_row

A = account(1)


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
def test_misspelled_member_is_named_with_the_right_spelling(
    values: dict[str, Any], place: str, right: str
) -> None:
    (fault,) = misspelled(NotifyShape, values)

    assert (fault.pointer, fault.detail) == (place, f"is not known: write {right}")


@each_row(
    "values", [{"x": 1}, {"notification_ids": 1}, {"": 1}, {"notification": 1}, {"accounts": [{"Title": 1}]}]
)
def test_unrelated_member_is_ignored(values: dict[str, Any]) -> None:
    assert misspelled(NotifyShape, values) == []


async def test_nothing_is_sent_twice_for_a_misspelled_id(app: App) -> None:
    await app.subscribe(A)
    fields = {"notificationId": "once", "notification": a_notification(), "accounts": [A]}

    answers = [await app.post(fields) for _ in range(2)]

    for answer in answers:
        problem = answer.problem(400)
        assert pointers(problem) == ["#/notificationId"]
        assert "notification_id" in problem["errors"][0]["detail"]
    assert (await app.mark_all()).json == {"marked": 0}


async def test_a_lookup_is_read_as_strictly(app: App) -> None:
    problem = (await app.ask("POST", app.paths["lookup"], {"Accounts": [A]})).problem(400)

    assert pointers(problem) == ["#/Accounts", "#/accounts"]
