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


async def test_unseen_characters_are_seen_and_an_emoji_stays_whole(console: ConsoleClient) -> None:
    family, heart = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f"
    await console.send("/console/projects", "create", name=f"{family}{heart}\u202eabc", project_id="seen")

    page = await console.page("/console/projects/seen")

    assert f"<bdi>{family}{heart}&lt;U+202E&gt;abc</bdi>" in page


async def test_a_field_is_filled_with_exactly_the_text(console: ConsoleClient) -> None:
    name = "a\u202eb"
    await console.send("/console/projects", "create", name="Exact", project_id="exact")
    await console.send("/console/projects/exact", "add-type", name=name, type_id="odd")

    found = elements(await console.page("/console/projects/exact"))

    assert name in [attributes.get("value") for tag, attributes in found if tag == "input"]


def quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def scripts(page: str) -> set[str | None]:
    """The scripts of the server itself."""
    return {
        attributes.get("src")
        for tag, attributes in elements(page)
        if tag == "script" and (attributes.get("src") or "").startswith("/console/static/")
    }


def check_only_text(page: str) -> None:
    """Nothing in the page runs, loads or leads elsewhere but what the server put there."""
    found = elements(page)
    assert {attributes.get("src") for tag, attributes in found if tag == "script"} == scripts(page)
    assert not [tag for tag, _ in found if tag in {"img", "iframe", "style", "object", "svg"}]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    links = [attributes.get("href") or "" for tag, attributes in found if tag in {"a", "link"}]
    assert [link for link in links if not link.startswith(("/console", "/docs/", "#", "data:,"))] == []
    assert SCRIPT not in page
