"""Settings that a running server reads again: which they are, and that what holds them follows."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_server.assembly.application import build_app
from bridge_server.settings.settings import LiveSettings, Settings
from tests.support.rows import each_row

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


def test_limits_tokens_and_what_the_page_names_can_be_changed_without_a_restart() -> None:
    tokens = {"admin_token", "rpc_token", "metrics_token"}
    names = build_app(settings(**dict.fromkeys(tokens, "a" * 32))).live.names
    limit = re.compile(r"max_\w+|\w+_burst|\w+_per_(second|minute|hour)")
    limits = {name for name in Settings.model_fields if limit.fullmatch(name)}
    section = _PAGE.partition("### Without a restart")[2].partition("\n### ")[0]

    assert limits <= names
    assert names >= {*tokens, "webhook_secret"}
    assert build_app(settings()).live.names.isdisjoint(tokens), "to set the first one takes a restart"
    assert [name for name in names - limits if f"`{name}`" not in section] == []
    assert "`log_level`" in section


def test_held_value_is_updated_in_place() -> None:
    live = LiveSettings(settings())
    held = live.held(lambda now: Outer(Inner(now.requests_burst), now.max_wait))
    inner = held.inner

    for changed in (("requests_burst", "max_wait"), ()):
        taken = live.take(settings(requests_burst=7, max_wait=8, port=9))
        assert (taken.changed, taken.needs_restart) == (changed, ("port",))
        assert (held, inner.burst) == (Outer(inner, 8), 7)
    assert live.current.port == settings().port


@each_row(("before", "after", "held"), [("a", "b", "b"), (None, "b", None), ("a", None, "a")])
def test_a_token_can_only_be_changed(before: str | None, after: str | None, held: str | None) -> None:
    live = LiveSettings(settings(admin_token=before))
    token = live.token("admin_token")

    taken = live.take(settings(admin_token=after))

    assert (taken.changed == ("admin_token",)) is (held != before)
    assert (token is None) is (before is None)
    if token is not None:
        assert [token(text) for text in ("a", "b")] == [held == "a", held == "b"]
