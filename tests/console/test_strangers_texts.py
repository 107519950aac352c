"""Text of strangers is shown as text, whatever it holds."""

from tests.support.console_client import ConsoleClient, elements
from tests.support.rows import each_row

SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "'onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "hx-get=/console",
    "\u202eevil\u2066\u200b",
    "</textarea></title>",
]
ACCOUNT = "test:chain:reader"


@each_row("text", HOSTILE)
async def test_a_hostile_name_is_only_text(console: ConsoleClient, text: str) -> None:
    project = f"hostile-{HOSTILE.index(text)}"
    await console.send("/console/projects", "create", name=text, project_id=project)
    await console.send(f"/console/projects/{project}", "add-type", name=text, type_id="type")
    refused = await console.send(f"/console/projects/{project}", "import", lines=text)
    searched = await console.get(f"/console/projects/{project}?search={quoted(text)}")

    for page in (
        await console.page("/console/projects"),
        await console.page(f"/console/projects/{project}"),
        refused.body.decode(),
        searched.body.decode(),
    ):
        check_only_text(page)


async def test_unseen_characters_are_seen_an_emoji_stays_whole_and_a_field_has_exactly_the_text(
    console: ConsoleClient,
) -> None:
    family, heart = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f"
    await console.send("/console/projects", "create", name=f"{family}{heart}\u202eabc", project_id="seen")
    await console.send("/console/projects/seen", "add-type", name="a\u202eb", type_id="odd")

    page = await console.page("/console/projects/seen")

    assert f"<bdi>{family}{heart}&lt;U+202E&gt;abc</bdi>" in page
    values = [attributes.get("value") for tag, attributes in elements(page) if tag == "input"]
    assert "a\u202eb" in values


def quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def check_only_text(page: str, *, has_charts: bool = False) -> None:
    """Nothing in the page runs, loads or leads elsewhere but what the server put there."""
    found = elements(page)
    scripts = [attributes.get("src") or "" for tag, attributes in found if tag == "script"]
    assert [each for each in scripts if not each.startswith("/console/static/")] == []
    never = {"img", "iframe", "style", "object"} | (set() if has_charts else {"svg"})
    assert not [tag for tag, _ in found if tag in never]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
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
        "type": "type", "title": text, "body": text, "url": "https://app.example/?x=%22%3E%3Cb%3E",
        "audience": "accounts", "accounts": f"{ACCOUNT}\ntest:chain:nobody", "notification_id": text,
    }  # fmt: skip
    faults = {"url": text, "type": text, "audience_type": text, "accounts": text}

    checked = await console.send(compose, "check", None, **form)
    sent = await console.send(compose, "send", None, **form)
    refused = await console.send(compose, "send", None, **{**form, **faults})
    listed = await console.page(f"/console/notifications?project_id={project}")
    number = listed.partition(f'href="/console/notifications/{project}/')[2].partition('"')[0]
    paths = (
        sent.headers["Location"], compose, f"{compose}&repeat={number}",
        f"/console/notifications/{project}/{number}", f"/console/accounts?account={ACCOUNT}",
        f"/console/accounts?account={quoted(text)}", f"/console/inbox?account={ACCOUNT}",
        f"/console/inbox?account={quoted(text)}&unread={quoted(text)}",
        f"/console/analytics?project_id={project}&type={quoted(text)}&from={quoted(text)}",
    )  # fmt: skip

    assert (checked.status, sent.status, refused.status) == (200, 303, 400)
    pages = [checked.body.decode(), refused.body.decode(), listed]
    for page in [*pages, *[await console.page(path) for path in paths]]:
        check_only_text(page, has_charts=True)
        shown = [each for _, each in elements(page) if "hx-get" in each and "hidden" not in each]
        assert shown == []
