"""Metrics on a port of their own, and not on the public one."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.command import WatchedServer, watched_server
from tests.support.rows import each_row


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedServer]:
    with watched_server(
        tmp_path_factory.mktemp("metrics"), environment={"BRIDGE_METRICS_PORT": "0"}
    ) as server:
        yield server


@pytest.fixture(scope="module")
def metrics_url(server: WatchedServer) -> str:
    return metrics_url_of(server)


def metrics_url_of(server: WatchedServer) -> str:
    (line,) = [line for line in server.log() if line["event"] == "metrics_listening"]
    url: str = line["url"]
    return url


def get(url: str, method: str = "GET") -> tuple[int, str, str]:
    try:
        with urlopen(Request(url, method=method), timeout=60) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_port_is_logged_and_separate(server: WatchedServer, metrics_url: str) -> None:
    assert metrics_url.startswith("http://127.0.0.1:")
    assert not metrics_url.startswith(server.url)


def test_requests_are_counted_by_route_and_status(server: WatchedServer, metrics_url: str) -> None:
    for _ in range(3):
        get(f"{server.url}/session/new", "POST")
    get(f"{server.url}/session/unknown")

    status, content_type, text = get(metrics_url)

    assert status == 200
    assert content_type.startswith("text/plain")
    assert 'bridge_http_requests_total{route="open-session",status="200"} 3.0' in text
    assert 'bridge_http_requests_total{route="session",status="404"} 1.0' in text
    assert 'bridge_http_request_seconds_count{route="open-session"} 3.0' in text


@each_row(
    "name",
    [
        "waiting_clients gauge",
        "database_commits_total counter",
        "database_transactions_total counter",
        "database_log_bytes gauge",
        "outbox_due gauge",
        "outbox_delivered_total counter",
        "outbox_failed_total counter",
    ],
)
def test_metrics_have_every_figure_an_operator_watches(metrics_url: str, name: str) -> None:
    text = get(metrics_url)[2]

    assert f"\n# TYPE bridge_{name}\n" in text
    assert f"\nbridge_{name.split(maxsplit=1)[0]} " in text


def test_route_without_requests_has_no_figures(tmp_path: Path) -> None:
    environment = {"BRIDGE_METRICS_PORT": "0", "BRIDGE_METRICS_HOST": "127.0.0.3"}
    with watched_server(tmp_path, environment=environment) as server:
        url = metrics_url_of(server)
        before = get(url)[2]
        get(f"{server.url}/hello")
        after = get(url)[2]

    assert url.startswith("http://127.0.0.3:")
    assert len(before) < 6_000
    assert "route=" not in before
    assert set(re.findall(r'route="([^"]*)"', after)) == {"hello", "metrics"}


def test_the_public_port_has_no_metrics(server: WatchedServer) -> None:
    assert get(f"{server.url}/metrics")[0] == 404


def test_the_port_of_the_metrics_has_nothing_else(metrics_url: str) -> None:
    assert get(metrics_url.replace("/metrics", "/hello"))[0] == 404
    assert get(metrics_url.replace("/metrics", "/session/new"), "POST")[0] == 404
    _, content_type, text = get(metrics_url.replace("/metrics", "/hello"))
    assert content_type == "application/problem+json"
    assert "aiohttp" not in text


def test_a_port_that_others_reach_asks_for_the_token(tmp_path: Path) -> None:
    environment = {"BRIDGE_METRICS_PORT": "0", "BRIDGE_METRICS_TOKEN": "open-sesame"}
    with watched_server(tmp_path, "--host", "0.0.0.0", environment=environment) as server:
        (url,) = [line["url"] for line in server.log() if line["event"] == "metrics_listening"]
        refused = get(url)
        request = Request(url, headers={"Authorization": "Bearer open-sesame"})
        with urlopen(request, timeout=60) as response:
            text = response.read().decode()

    assert refused[:2] == (401, "application/problem+json")
    assert "bridge_waiting_clients" in text
