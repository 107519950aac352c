"""Settings that a running server reads again: which they are, and that what holds them follows."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_server.assembly.application import build_app
from bridge_server.settings.settings import LiveSettings, Settings
from tests.support.rows import each_row

_LIMIT = re.compile(r"max_\w+|\w+_burst|\w+_per_(second|minute|hour)")
_SECRETS = {"admin_token", "rpc_token", "metrics_token", "webhook_secret"}
_PAGE = (Path(__file__).parent.parent / "docs" / "operate.md").read_text("utf-8")


@dataclass(slots=True)
class Inner:
    burst: int


@dataclass(slots=True)
class Outer:
    inner: Inner
    wait: int


def settings(**values: Any) -> Settings:
    return Settings(data_dir=Path("/nowhere"), **values)


def test_every_limit_and_every_token_can_be_changed_without_a_restart() -> None:
    names = build_app(settings(admin_token="a" * 32)).live.names

    assert {name for name in Settings.model_fields if _LIMIT.fullmatch(name)} <= names
    assert names >= _SECRETS


def test_the_page_names_the_others_that_can_be() -> None:
    section = _PAGE.partition("### Without a restart")[2].partition("\n### ")[0]
    others = [name for name in build_app(settings()).live.names if not _LIMIT.fullmatch(name)]

    assert [name for name in others if f"`{name}`" not in section] == []
    assert "`log_level`" in section


def test_held_value_is_updated_in_place() -> None:
    live = LiveSettings(settings())
    held = live.held(lambda now: Outer(Inner(now.requests_burst), now.max_wait))
    inner = held.inner

    taken = live.take(settings(requests_burst=7, max_wait=8, port=9))

    assert (held, inner.burst) == (Outer(inner, 8), 7)
    assert (taken.changed, taken.needs_restart) == (("requests_burst", "max_wait"), ("port",))
    assert live.current.port == settings().port
    again = live.take(settings(requests_burst=7, max_wait=8, port=9))
    assert (again.changed, again.needs_restart) == ((), ("port",))


@each_row(
    ("before", "after", "changes"),
    [("a", "b", True), (None, "b", False), ("a", None, False)],
)
def test_a_token_can_be_changed_and_neither_set_nor_left_out(
    before: str | None, after: str | None, changes: bool
) -> None:
    live = LiveSettings(settings(admin_token=before))
    token = live.token("admin_token")

    taken = live.take(settings(admin_token=after))

    assert (taken.changed == ("admin_token",)) is changes
    assert (token is None) is (before is None)
    if token is not None:
        held = after if changes else before
        assert [token(text) for text in ("a", "b")] == [held == "a", held == "b"]
