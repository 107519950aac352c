"""schemathesis sends a real server what the description allows, and more: every answer is described.

There is no 500, since the description has none, and a 502 or 503 only where it has one.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.description.world import WORLD_SETTINGS, World, made_world
from tests.support.server import RunningServer, running_server
from tests.support.slow import slow

_SCRIPTS = Path(__file__).parents[2] / "scripts"
_MOST_SECONDS = 40
"""All operations share it evenly: the phase "coverage" alone, with 2,700 requests, takes a minute or more."""
_EXAMPLES = 12
_CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
_LEFT_OUT = (
    "inbox-stream", "traffic-stream",  # they do not end
    "test-reset", "test-move-clock", "test-replace-faults",  # they order what the others would suffer from
    "inbox-logout", "delete-project", "revoke-secret",  # the requests after them would all be a 401
)  # fmt: skip


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter of an environment that has schemathesis."""
    command = [sys.executable, str(_SCRIPTS / "schemathesis_environment.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    return done.stdout.strip()


def configuration(world: World) -> str:
    """Tokens for the security schemes, and ids that the server has."""
    values = world.values
    session_id, call_id = list(values.values())[:2]
    tokens = "".join(f'[auth.openapi.{name}]\nbearer = "{token}"\n' for name, token in world.tokens.items())
    ids = {
        ("Bridge", "Bridge, generation 0.7"): {"session_id": session_id, "call_id": call_id},
        ("Notifications", "Inbox"): {"project_id": "example-app"},
    }
    operations = "".join(
        f"[[operations]]\ninclude-tag = {list(tags)}\n[operations.parameters]\n"
        + "".join(f'{name} = "{value}"\n' for name, value in parameters.items())
        for tags, parameters in ids.items()
    )
    return f'{tokens}[parameters]\nwait = 0\nPrefer = "wait=0"\n{operations}'.replace("'", '"')


@slow
@pytest.mark.timeout(300)
async def test_the_description_has_every_answer(python: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**WORLD_SETTINGS, "max_pending_calls": 1_000_000}
    async with running_server(tmp_path / "data", **settings) as server:
        world = await made_world(server)
        (tmp_path / "schemathesis.toml").write_text(configuration(world), "utf-8")

        output, status = await _run(python, server, tmp_path)

    assert status == 0, output
    assert " passed" in output


async def _run(python: str, server: RunningServer, folder: Path) -> tuple[str, int]:
    left_out = [option for name in _LEFT_OUT for option in ("--exclude-operation-id", name)]
    process = await asyncio.create_subprocess_exec(
        Path(python).with_name("schemathesis"), "--config-file", folder / "schemathesis.toml",
        "run", f"{server.url}/openapi.json", "--checks", ",".join(_CHECKS), *left_out,
        "--phases", "examples,coverage,fuzzing",
        "--max-examples", str(_EXAMPLES), "--max-time", str(_MOST_SECONDS),
        "--request-timeout", "20", "--seed", "1", "--no-shrink", "--warnings", "off",
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return output.decode("utf-8", "replace"), int(process.returncode or 0)
