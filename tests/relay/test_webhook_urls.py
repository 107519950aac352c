"""Which webhooks may be named: absolute web URLs; what is behind them is looked at when they are called."""

from typing import Any

import pytest

from tests.support.bridge_client import BridgeClient
from tests.support.problems import pointers
from tests.support.rows import each_row

_LONGEST = "https://example.org/" + "p" * (2048 - len("https://example.org/"))

GOOD = [
    "http://example.org",
    "https://example.org/hook?key=value&key=%20#part",
    "HTTPS://EXAMPLE.ORG/Hook",
    "https://user:password@example.org:8443/",
    "http://[2001:db8::1]:8080/hook",
    "http://192.0.2.1/hook",
    "http://localhost/hook",
    "https://example.org:65535/",
    "https://example.org:1/",
    "https://xn--bcher-kva.example/",
    "https://a%2Fb/%zz",
    _LONGEST,
]
BAD = [
    "",
    "example.org/hook",
    "/hook",
    "//example.org/hook",
    "http:example.org",
    "http://",
    "http:///hook",
    "http://:80/hook",
    "http://user@/hook",
    "ftp://example.org/hook",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:,x",
    " https://example.org/",
    "https://example.org/ ",
    "https://exam ple.org/",
    "https://example.org/a b",
    "https://example.org/a\tb",
    "https://example.org/\r\nX-Injected: 1",
    "https://example.org/\u0000",
    "https://bücher.example/",
    "https://example.org/😀",
    "https://example.org:0/",
    "https://example.org:65536/",
    "https://example.org:99999/",
    "https://example.org:-1/",
    "https://example.org:port/",
    "http://[::1/hook",
    "http://[nonsense]/hook",
    _LONGEST + "p",
]


@pytest.mark.parametrize("url", GOOD)
async def test_a_webhook_is_an_absolute_web_url(bridge: BridgeClient, session_id: str, url: str) -> None:
    subscribed = await bridge.subscribe(session_id, url)
    updated = await bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert (subscribed.status, updated.status) == (200, 200)
    assert (await bridge.end(session_id)).status == 200


@each_row("url", BAD)
async def test_a_webhook_that_is_no_web_url_is_a_fault(
    bridge: BridgeClient, session_id: str, url: str
) -> None:
    subscribed = await bridge.subscribe(session_id, url)
    updated = await bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert pointers(subscribed.problem(400)) == ["#/webhook"]
    assert pointers(updated.problem(400)) == ["#/push/webhook"]
    assert (await bridge.session(session_id)).status == 204


@each_row("value", [None, 1, False, ["https://example.org/"], {"url": "https://example.org/"}])
async def test_a_webhook_is_a_string(bridge: BridgeClient, session_id: str, value: Any) -> None:
    problem = (await bridge.subscribe(session_id, value)).problem(400)

    assert pointers(problem) == ["#/webhook"]


@each_row(
    "url",
    [
        "http://[::1%25eth0]/",
        "http://[v1.x]/",
        "http://%00/",
        "http://..../",
        "http://a\\b/",
        "http://a|b/",
        "http://1.2.3.4.5/",
        "http://xn--a/",
        "http://<a>/",
        "http://" + "a" * 300,
        "http://*/",
    ],
)
async def test_a_call_succeeds_however_odd_its_webhooks_are(closed_bridge: BridgeClient, url: str) -> None:
    session_id = await closed_bridge.open_session()
    await closed_bridge.subscribe(session_id, url)
    await closed_bridge.update(session_id, push={"type": "", "token": "", "webhook": url})

    assert (await closed_bridge.post_call(session_id)).status == 200
