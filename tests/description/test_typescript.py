"""Types for TypeScript that openapi-typescript makes of the document."""

import asyncio
from pathlib import Path

import orjson

from tests.support.described import description
from tests.support.node_packages import needs_openapi_typescript
from tests.support.node_project import NodeProject
from tests.support.server import RunningServer

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
