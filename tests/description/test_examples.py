"""Programs that read the document: its examples are answered, schemathesis finds no fault, types compile."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from tests.description.world import WORLD_SETTINGS, World, made_world, signed_message
from tests.support.asking import ask
from tests.support.described import description
from tests.support.needs import needs_openapi_typescript, slow
from tests.support.node_project import NodeProject
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

DOCUMENT = description().document
ENDING = {
    "end-session", "v0.7-end-session", "end-shown-session", "inbox-logout", "inbox-unsubscribe",
    "unsubscribe-account", "delete-project", "revoke-secret", "remove-type", "approve", "reject",
    "drop-message", "retry-message", "test-reset",
}  # fmt: skip
"""Operations after whose example other examples fail."""
NEW_VALUES = {"create-project": {"example-app": "another-app"}, "add-type": {"price-alert": "new-type"}}
"""What exists already, and so must be named otherwise."""
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
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
_COMPILER_OPTIONS = {
    "strict": True,
    "module": "nodenext",
    "target": "es2022",
    "lib": ["es2023", "dom", "dom.iterable"],
    "types": ["node"],
    "skipLibCheck": True,
}
_PROGRAM = """
import createClient from 'openapi-fetch'
import type { components, paths } from './api.js'

const client = createClient<paths>({ baseUrl: process.argv[2] })

const { data: session } = await client.POST('/session/new')
if (session === undefined) throw new Error('no session')
const path = { session_id: session.sessionId }

const { data: call, error } = await client.POST('/session/{session_id}/call/new', {
  params: { path },
  body: { encryptionPayload: 'payload', dappName: 'Example Shop' },
})
if (error !== undefined) throw new Error(error.detail)

const { data: status, response } = await client.GET('/call-status/{call_id}', {
  params: { path: { call_id: call.callId } },
})
if (status !== undefined) throw new Error('nobody has answered')

const { error: missing } = await client.GET('/session/{session_id}/call/{call_id}', {
  params: { path: { ...path, call_id: 'none' } },
})
const problem: components['schemas']['CallNotFoundProblem']['type'] =
  'urn:bridge-server:problem:call-not-found'

// @ts-expect-error dappName is missing
client.POST('/session/{session_id}/call/new', { params: { path }, body: { encryptionPayload: '' } })
// @ts-expect-error there is no such route
client.GET('/sessions')
// @ts-expect-error the answer has no such member
session.sessionID

console.log(response.status, missing?.type === problem)
"""


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """A server in test mode with all that its settings can turn on."""
    return WORLD_SETTINGS


@pytest.fixture
async def world(server: RunningServer) -> World:
    return await made_world(server)


def put_in(value: Any, values: dict[str, str]) -> Any:
    """The value of an example with those that the server has."""
    if isinstance(value, dict):
        return {name: put_in(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [put_in(each, values) for each in value]
    return values.get(value, value) if isinstance(value, str) else value


@each_row("name", [name for name in OPERATIONS if name not in ENDING])
async def test_the_example_is_answered_as_it_is_described(world: World, name: str) -> None:
    await check_example(world, name)


@pytest.mark.own_server
@pytest.mark.parametrize("name", sorted(ENDING))
async def test_the_example_after_which_others_fail_is_answered(world: World, name: str) -> None:
    await check_example(world, name)


async def check_example(world: World, name: str) -> None:
    """Send the example of an operation, with values that the server has, and look at the answer's status."""
    path, method, operation = OPERATIONS[name]
    values = {**world.values, **NEW_VALUES.get(name, {})}
    sent: dict[str, Any] = {"path": {}, "query": {}, "header": {}}
    for parameter in operation.get("parameters", ()):
        if "example" in parameter:
            sent[parameter["in"]][parameter["name"]] = put_in(parameter["example"], values)
    if name in world.numbers:
        sent["path"]["number"] = world.numbers[name]
    for parameter, value in sent["path"].items():
        path = path.replace(f"{{{parameter}}}", quote(value, safe=":"))
    tokens = [world.tokens[each] for scheme in operation["security"] for each in scheme if each != "rpcToken"]
    headers = {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    body = None if content is None else put_in(content["example"], values)
    if name == "inbox-login":
        body = await signed_message(world)
    query = f"?{urlencode(sent['query'])}" if sent["query"] else ""

    if "x-event-stream" in operation:
        async with world.server.client.get(f"{world.server.url}{path}{query}", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
        return
    answer = await ask(
        world.server, method.upper(), path + query, None if body is None else orjson.dumps(body), headers
    )

    assert answer.status in (200, 204), answer


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


@needs_openapi_typescript
async def test_a_program_compiles_with_the_types_and_runs(server: RunningServer, tmp_path: Path) -> None:
    packages = (
        "openapi-typescript",
        "openapi-fetch",
        "openapi-typescript-helpers",
        "typescript",
        "@types/node",
    )
    project = NodeProject(tmp_path, *packages)
    configuration = {"compilerOptions": _COMPILER_OPTIONS, "files": ["program.ts"]}
    document = orjson.dumps(description().document).decode()
    project.write(
        {
            "openapi.json": document,
            "tsconfig.json": orjson.dumps(configuration).decode(),
            "program.ts": _PROGRAM,
        }
    )

    project.run(project.program("openapi-typescript"), "openapi.json", "--output", "api.d.ts")
    project.run(str(tmp_path / "node_modules" / "typescript" / "bin" / "tsc"), "--project", ".")
    printed = await asyncio.to_thread(project.run, "program.js", server.url)

    assert printed == "204 true\n"
