"""Text that projects send is shown as text on the pages of notifications, whatever it holds."""

from tests.console.test_strangers_texts import HOSTILE, SCRIPT, quoted, scripts
from tests.support.console_client import ConsoleClient, elements
from tests.support.rows import each_row

ACCOUNT = "test:chain:reader"


def check(page: str) -> None:
    found = elements(page)
    assert {attributes.get("src") for tag, attributes in found if tag == "script"} == scripts(page)
    assert not [tag for tag, _ in found if tag in {"img", "iframe", "style", "object"}]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    assert [
        attributes for _, attributes in found if "hx-get" in attributes and "hidden" not in attributes
    ] == []
    links = [attributes.get("href") or "" for tag, attributes in found if tag in {"a", "link"}]
    assert [link for link in links if not link.startswith(("/console", "/docs/", "#", "data:,"))] == []
    assert SCRIPT not in page


@each_row("text", HOSTILE)
async def test_a_hostile_notification_is_only_text(console: ConsoleClient, text: str) -> None:
    project = f"sender-{HOSTILE.index(text)}"
    compose = f"/console/compose?project_id={project}"
    await console.send("/console/projects", "create", name=text, project_id=project)
    await console.send(f"/console/projects/{project}", "add-type", name=text, type_id="type")
    await console.send(f"/console/projects/{project}", "subscribe", account=ACCOUNT, types="")
    form = {
        "type": "type",
        "title": text,
        "body": text,
        "url": "https://app.example/?x=%22%3E%3Cb%3E",
        "audience": "accounts",
        "accounts": f"{ACCOUNT}\ntest:chain:nobody",
        "notification_id": text,
    }

    checked = await console.send(compose, "check", None, **form)
    sent = await console.send(compose, "send", None, **form)
    refused = await console.send(
        compose, "send", None, **{**form, "url": text, "type": text, "audience_type": text, "accounts": text}
    )
    listed = await console.page(f"/console/notifications?project_id={project}")
    number = listed.partition(f'href="/console/notifications/{project}/')[2].partition('"')[0]

    assert (checked.status, sent.status, refused.status) == (200, 303, 400)
    for page in (
        checked.body.decode(),
        refused.body.decode(),
        listed,
        await console.page(sent.headers["Location"]),
        await console.page(compose),
        await console.page(f"{compose}&repeat={number}"),
        await console.page(f"/console/notifications/{project}/{number}"),
        await console.page(f"/console/accounts?account={ACCOUNT}"),
        await console.page(f"/console/accounts?account={quoted(text)}"),
        await console.page(f"/console/inbox?account={ACCOUNT}"),
        await console.page(f"/console/inbox?account={quoted(text)}&unread={quoted(text)}"),
        await console.page(
            f"/console/analytics?project_id={project}&type={quoted(text)}&from={quoted(text)}"
        ),
    ):
        check(page)
