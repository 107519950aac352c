"""Text of strangers is shown as text, whatever it holds."""

from urllib.parse import quote

from tests.support.console_client import ConsoleClient, elements, make_project, subscribe
from tests.support.rows import each_row

SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    SCRIPT, '"><img src=x onerror=alert(1)>', "'onmouseover='alert(1)", "javascript:alert(1)",
    "hx-get=/console", "{{ 7 * 7 }}{% raw %}", "\u202eevil\u2066\u200b", "</textarea></title>",
]  # fmt: skip
ACCOUNT = "test:chain:reader"


def check_only_text(page: str) -> None:
    """Nothing in the page runs, loads or leads elsewhere but what the server put there."""
    seen = elements(page)
    scripts = [attributes.get("src") or "" for tag, attributes in seen if tag == "script"]
    assert [each for each in scripts if not each.startswith("/console/static/")] == []
    assert not {tag for tag, _ in seen} & {"img", "iframe", "style", "object", "svg"}
    assert not [name for _, attributes in seen for name in attributes if name.startswith("on")]
    links = [attributes.get("href") or "" for tag, attributes in seen if tag in {"a", "link"}]
    assert [link for link in links if not link.startswith(("/console", "/docs/", "#", "data:,"))] == []
    assert SCRIPT not in page


async def test_unseen_characters_are_seen_and_a_field_has_exactly_the_text(console: ConsoleClient) -> None:
    family, heart = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f"
    await make_project(console, "seen", name=f"{family}{heart}\u202eabc")
    await console.send("/console/projects/seen", "add-type", name="a\u202eb", type_id="odd")
    page = await console.page("/console/projects/seen", f"<bdi>{family}{heart}&lt;U+202E&gt;abc</bdi>")
    assert "a\u202eb" in [attributes.get("value") for tag, attributes in elements(page) if tag == "input"]


@each_row("text", HOSTILE)
async def test_hostile_projects_and_notifications_are_only_text(console: ConsoleClient, text: str) -> None:
    project_id, quoted = f"hostile-{HOSTILE.index(text)}", quote(text, safe="")
    project, compose = f"/console/projects/{project_id}", f"/console/compose?project_id={project_id}"
    await make_project(console, project_id, name=text)
    await console.send(project, "add-type", name=text, type_id="type")
    await subscribe(console, project_id, ACCOUNT)
    form = {
        "type": "type", "title": text, "body": text, "url": "https://app.example/?x=%22%3E%3Cb%3E",
        "audience": "accounts", "accounts": f"{ACCOUNT}\ntest:chain:nobody", "notification_id": text,
    }  # fmt: skip
    faults = {"url": text, "type": text, "audience_type": text, "accounts": text}

    imported = await console.send(project, "import", lines=text)
    checked = await console.send(compose, "check", None, **form)
    sent = await console.send(compose, "send", None, **form)
    refused = await console.send(compose, "send", None, **{**form, **faults})
    listed = await console.page(f"/console/notifications?project_id={project_id}")
    number = listed.partition(f'href="/console/notifications/{project_id}/')[2].partition('"')[0]
    paths = (
        "/console/projects", project, f"{project}?search={quoted}",
        sent.headers["Location"], compose, f"{compose}&repeat={number}",
        f"/console/notifications/{project_id}/{number}", f"/console/accounts?account={ACCOUNT}",
        f"/console/accounts?account={quoted}", f"/console/inbox?account={ACCOUNT}",
        f"/console/inbox?account={quoted}&unread={quoted}",
        f"/console/analytics?project_id={project_id}&type={quoted}&from={quoted}",
    )  # fmt: skip

    assert (checked.status, sent.status, refused.status) == (200, 303, 400)
    pages = [*(answer.body.decode() for answer in (imported, checked, refused)), listed]
    for page in [*pages, *[await console.page(path) for path in paths]]:
        check_only_text(page)
        shown = [each for _, each in elements(page) if "hx-get" in each and "hidden" not in each]
        assert shown == []
