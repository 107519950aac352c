"""Programs that read the document: its examples are answered, schemathesis finds no fault, types compile."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import METRICS_TOKEN, ask
from tests.support.bridge_client import BridgeClient
from tests.support.described import description
from tests.support.inbox_client import InboxClient, log_in, sign_in
from tests.support.needs import needs_openapi_typescript, slow
from tests.support.node_project import NodeProject
from tests.support.push_client import PushClient
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import RunningServer, running_server
from tests.support.waiting import eventually

WORLD_SETTINGS: dict[str, Any] = {
    "test": True, "admin_token": ADMIN_TOKEN, "admin_wallet": True, "metrics_token": METRICS_TOKEN,
    "dev_accounts": True, "light_kdf": True, "approve": "queue", "allow_private_webhooks": True,
}  # fmt: skip
"""A server in test mode with all that its settings can turn on."""

_UNREACHABLE = "http://127.0.0.1:1"


@dataclass(frozen=True, slots=True)
class World:
    """The server, its tokens by security scheme, and what stands for each value of an example."""

    server: RunningServer
    tokens: Mapping[str, str]
    inbox: InboxClient
    values: Mapping[str, str]
    numbers: Mapping[str, str]
    """The number in the path of these operations."""
    asking: "asyncio.Future[Any]"
    """A client of the wallet that waits for an approval; it ends with its server, or is approved."""


async def made_world(server: RunningServer) -> World:
    """Fill a server: a project with a subscriber and a notification, a session with a call, and the rest."""
    admin, inbox = AdminClient(server), await sign_in(server)
    secret = await admin.create("example-app", "price-alert", "other-type")
    assert (await inbox.subscribe("example-app")).status == 200
    await admin.notify("example-app", secret, "price-alert", inbox.account)
    await admin.put("/admin/projects/example-app/webhook", {"url": f"{_UNREACHABLE}/subscriptions"})
    await inbox.subscribe("example-app", ["price-alert"])
    device = (await inbox.add_device("log")).json["id"]
    bridge, session_id = BridgeClient(server), await server.open_session()
    assert (await bridge.update(session_id)).status == 200
    call_id = await server.request_call(session_id)
    assert (await bridge.answer(call_id)).status == 200
    assert (await PushClient(server).register(topic=session_id)).status == 200
    rpc = RpcClient(server)
    account = await rpc.call("personal_newAccount", "correct horse")
    signing = rpc.call("personal_sign", "0x68656c6c6f", (await rpc.call("eth_accounts"))[0])
    asking = asyncio.gather(signing, return_exceptions=True)
    call = await _first(admin, f"/admin/traffic?filter=call:{call_id}", "requests", "call")
    values = {
        "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f": session_id,
        "0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8": call_id,
        "0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d": device,
        "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb": inbox.account,
        "0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb": account,
        "https://bridge.example.org": server.url,
        "https://app.example.org/hook": f"{_UNREACHABLE}/hook",
        "0192f7c8": await _first(admin, "/admin/approvals", "approvals", "id"),
        "7-msg_0192f7c8": await _first(admin, "/admin/outbox?state=waiting", "messages", "id"),
        "s4Jd0cRk": await _first(admin, "/admin/sessions", "sessions", "handle"),
        "c9Xw2LmQ": call["handle"],
    }
    numbered = {
        "notification": ("/admin/projects/example-app/notifications", "notifications"),
        "traffic-request": ("/admin/traffic", "requests"),
        "outbox-attempt": ("/admin/outbox/attempts", "attempts"),
    }
    numbers = {name: str(await _first(admin, *place, "number")) for name, place in numbered.items()}
    tokens = {
        "adminToken": ADMIN_TOKEN, "metricsToken": METRICS_TOKEN, "projectSecret": secret,
        "inboxToken": inbox.token, "testToken": str(server.test_token),
    }  # fmt: skip
    return World(server, tokens, inbox, values, numbers, asking)


async def _first(admin: AdminClient, path: str, name: str, member: str) -> Any:
    """A member of the first entry of a list, once there is one."""
    found: list[Any] = []

    async def is_there() -> bool:
        found[:] = (await admin.get(path)).json[name]
        return bool(found)

    await eventually(is_there)
    return found[0][member]


DOCUMENT = description().document
ENDING = {
    "end-session", "v0.7-end-session", "end-shown-session", "inbox-logout", "inbox-unsubscribe",
    "unsubscribe-account", "delete-project", "revoke-secret", "remove-type", "approve", "reject",
    "drop-message", "retry-message", "test-reset",
}  # fmt: skip
"""Operations after whose example other examples fail."""
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
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


def put_in(value: Any, values: Mapping[str, str]) -> Any:
    """The value of an example with what the server has."""
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
    new_values = {"create-project": {"example-app": "another-app"}, "add-type": {"price-alert": "new-type"}}
    values = {**world.values, **new_values.get(name, {})}  # what exists already is named otherwise
    sent: dict[str, Any] = {"path": {}, "query": {}, "header": {}}
    for parameter in operation.get("parameters", ()):
        if "example" in parameter:
            sent[parameter["in"]][parameter["name"]] = put_in(parameter["example"], values)
    if name in world.numbers:
        sent["path"]["number"] = world.numbers[name]
    for parameter, value in sent["path"].items():
        path = path.replace(f"{{{parameter}}}", quote(value, safe=":"))
    if sent["query"]:
        path += f"?{urlencode(sent['query'])}"
    tokens = [world.tokens[each] for scheme in operation["security"] for each in scheme if each != "rpcToken"]
    headers = {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}
    if "x-event-stream" in operation:
        async with world.server.client.get(f"{world.server.url}{path}", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
        return
    if name == "inbox-login":  # no example can have a nonce that is good
        answer = await log_in(world.server, world.inbox.wallet)
    else:
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        body = None if content is None else orjson.dumps(put_in(content["example"], values))
        answer = await ask(world.server, method.upper(), path, body, headers)

    assert answer.status in (200, 204), answer


def configuration(world: World) -> str:
    """Tokens for the security schemes, and ids that the server has."""
    session_id, call_id, *_ = world.values.values()
    lines = [f'[auth.openapi.{name}]\nbearer = "{token}"' for name, token in world.tokens.items()]
    lines += ["[parameters]", "wait = 0", 'Prefer = "wait=0"']
    for tags, parameters in (
        (["Bridge", "Bridge, generation 0.7"], {"session_id": session_id, "call_id": call_id}),
        (["Notifications", "Inbox"], {"project_id": "example-app"}),
    ):
        lines += ["[[operations]]", f"include-tag = {orjson.dumps(tags).decode()}", "[operations.parameters]"]
        lines += [f'{name} = "{value}"' for name, value in parameters.items()]
    return "\n".join(lines)


@pytest.fixture
def schemathesis() -> Path:
    """The program, in an environment of its own."""
    script = Path(__file__).parents[2] / "scripts" / "schemathesis_environment.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    return Path(done.stdout.strip()).with_name("schemathesis")


@slow
@pytest.mark.timeout(300)
async def test_the_description_has_every_answer(schemathesis: Path, tmp_path: Path) -> None:
    conformance = [f"{each}_conformance" for each in (
        "status_code", "content_type", "response_schema", "response_headers",
    )]  # fmt: skip
    left_out = (
        "inbox-stream", "traffic-stream",  # they do not end
        "test-reset", "test-move-clock", "test-replace-faults",  # others would suffer from what they order
        "inbox-logout", "delete-project", "revoke-secret",  # the requests after them would all be a 401
    )  # fmt: skip
    settings: dict[str, Any] = {**WORLD_SETTINGS, "max_pending_calls": 1_000_000}
    async with running_server(tmp_path / "data", **settings) as server:
        world = await made_world(server)
        (tmp_path / "schemathesis.toml").write_text(configuration(world), "utf-8")
        async with server.client.get(f"{server.url}/openapi.json") as drawn:  # the first takes longest
            await drawn.read()
        # All operations share 25 seconds: the phase "coverage" alone, with 2,700 requests, takes a minute.
        process = await asyncio.create_subprocess_exec(
            schemathesis, "--config-file", "schemathesis.toml",
            "run", f"{server.url}/openapi.json", "--checks", ",".join(conformance),
            *(option for name in left_out for option in ("--exclude-operation-id", name)),
            "--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--max-time", "25",
            "--request-timeout", "20", "--seed", "1", "--no-shrink", "--warnings", "off",
            cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()

    assert (process.returncode, b" passed" in output) == (0, True), output.decode("utf-8", "replace")


@needs_openapi_typescript
async def test_a_program_compiles_with_the_types_and_runs(server: RunningServer, tmp_path: Path) -> None:
    types = ("openapi-typescript", "openapi-fetch", "openapi-typescript-helpers", "@types/node")
    project = NodeProject(tmp_path, "typescript", *types)
    options = {
        "strict": True, "module": "nodenext", "target": "es2022", "lib": ["es2023", "dom", "dom.iterable"],
        "types": ["node"], "skipLibCheck": True,
    }  # fmt: skip
    configuration = {"compilerOptions": options, "files": ["program.ts"]}
    files = {"openapi.json": description().document, "tsconfig.json": configuration}
    project.write({"program.ts": _PROGRAM, **{name: orjson.dumps(files[name]).decode() for name in files}})
    project.run(project.program("openapi-typescript"), "openapi.json", "--output", "api.d.ts")
    project.run(str(tmp_path / "node_modules" / "typescript" / "bin" / "tsc"), "--project", ".")
    assert await asyncio.to_thread(project.run, "program.js", server.url) == "204 true\n"
