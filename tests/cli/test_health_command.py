"""`bridge-server health`: the exit code is what a container's health check needs."""

from pathlib import Path

import orjson

from tests.support.command import run_command, watched_server


def test_a_server_that_is_ready_is_healthy_and_one_whose_database_is_gone_is_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with watched_server(tmp_path) as server:
        healthy = run_command("health", "--data-dir", data)
        (data / "bridge.sqlite3").unlink()
        sick = run_command("health", "--data-dir", data, "--json")

    facts = orjson.loads(sick.out)
    assert (healthy.exit_code, healthy.out) == (0, f"ready: {server.url}\n")
    assert (sick.exit_code, facts["ready"], facts["url"]) == (1, False, server.url)
    assert facts["fault"].startswith(f"the server at {server.url} is not ready: 503 ")


def test_without_a_server_it_is_not_healthy(tmp_path: Path) -> None:
    finished = run_command("health", "--data-dir", tmp_path / "data")

    assert (finished.exit_code, finished.out) == (1, f"no server runs on {tmp_path / 'data'}\n")
