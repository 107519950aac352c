"""CPU time per request: the server's beside the ceiling's."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
from clients import PLACEHOLDER, Answer, fetch
from load import Requests, Side, in_turns
from plan import Plan
from processes import Running, started_ceiling, started_server
from report import Row, row
from seed import PAYLOAD_BYTES, Population, Seeded, fill
from signing_tasks import ADDRESS, MAIL, MESSAGE

_DATA = PLACEHOLDER.decode() + "5a" * ((PAYLOAD_BYTES - len(PLACEHOLDER) - 128) // 2)
_PAYLOAD = f'{{"data":"{_DATA}","hmac":"{"c3" * 32}","iv":"{"96" * 16}"}}'
STATUS_BODY = f'{{"encryptionPayload":{_PAYLOAD}}}'.encode()
CALL_BODY = f'{{"encryptionPayload":{_PAYLOAD},"dappName":"Exchange"}}'.encode()

WALLET = {"BRIDGE_DEV_ACCOUNTS": "true", "BRIDGE_CHAIN_ID": "1"}
LIMITED = {
    "BRIDGE_QUOTA_EXEMPT": "[]",
    "BRIDGE_REQUESTS_PER_SECOND": "1000000",
    "BRIDGE_REQUESTS_BURST": "1000000",
}


def _rpc_body(method: str, *params: object) -> bytes:
    """A JSON-RPC request."""
    return orjson.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})


SIGN_BODY = _rpc_body("personal_sign", MESSAGE, ADDRESS)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request: its path and ids, the rows in the database, and the status of its answer."""

    name: str
    method: str
    route: str  # with {id} where the id goes
    population: Population = field(default_factory=Population)
    ids: str = "sessions"  # which ids of the seeded ones
    body: bytes | None = None
    status: int = 200
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The request as the documentation names it."""
        return f"{self.name}: `{self.method} {self.route}`"

    @property
    def writes(self) -> bool:
        """Whether the server must make something durable."""
        return self.method != "GET"

    def paths(self, seeded: Seeded) -> list[str]:
        """The paths of all ids."""
        ids: list[str] = getattr(seeded, self.ids) or [""]
        return [self.route.replace("{id}", each) for each in ids]

    def requests(self, url: str, seeded: Seeded) -> Requests:
        """The requests to a process."""
        return Requests(url, self.method, self.paths(seeded), [self.body])


_POLLED = Population(1_000)
_PENDING = Population(1_000, calls_per_session=1)
_ANSWERED = Population(1_000, calls_per_session=1, are_answered=True)

SCENARIOS = (
    Scenario("session-new", "POST", "/session/new"),
    Scenario("session-put", "PUT", "/session/{id}", Population(5_000), body=STATUS_BODY),
    Scenario("session-get-204", "GET", "/session/{id}", _POLLED, status=204),
    Scenario("session-get-200", "GET", "/session/{id}", Population(1_000, session_payload=True)),
    Scenario("call-new", "POST", "/session/{id}/call/new", Population(10_000), body=CALL_BODY),
    Scenario("calls-1", "GET", "/session/{id}/calls", Population(500, calls_per_session=1)),
    Scenario("calls-10", "GET", "/session/{id}/calls", Population(200, calls_per_session=10)),
    Scenario("calls-100", "GET", "/session/{id}/calls", Population(50, calls_per_session=100)),
    Scenario(
        "status-post", "POST", "/call-status/{id}/new", Population(4_000, calls_per_session=50),
        "calls", STATUS_BODY,
    ),
    Scenario("status-get-204", "GET", "/call-status/{id}", _PENDING, "calls", status=204),
    Scenario("status-get-200", "GET", "/call-status/{id}", _ANSWERED, "calls"),
    Scenario("limited-get-204", "GET", "/session/{id}", _POLLED, status=204, environment=LIMITED),
    Scenario(
        "rpc-sign-message", "POST", "/rpc",
        body=SIGN_BODY, environment=WALLET,
    ),
    Scenario(
        "rpc-sign-mail", "POST", "/rpc",
        body=_rpc_body("eth_signTypedData", ADDRESS, MAIL), environment=WALLET,
    ),
)  # fmt: skip


def started_answering(
    folder: Path, method: str, route: str, answer: Answer
) -> AbstractContextManager[Running]:
    """The ceiling that answers every request so."""
    return started_ceiling(folder, "answer", **answer_options(folder, method, route, answer))


def answer_options(folder: Path, method: str, route: str, answer: Answer) -> dict[str, object]:
    """The options of that ceiling. The answer's body is put into a file in the folder."""
    body_file = folder / "bench-answer.txt"
    body_file.write_bytes(answer.body)
    return {
        "method": method,
        "route": route,
        "status": answer.status,
        "content_type": answer.content_type,
        "body_file": str(body_file),
    }


def measure_scenario(scenario: Scenario, plan: Plan) -> Iterator[Row]:
    """The ceiling, which answers what the server answers, and the server."""
    with ExitStack() as stack:
        data, bare = stack.enter_context(plan.folder()), stack.enter_context(plan.folder())
        seeded = fill(data, scenario.population) if scenario.population.sessions else Seeded()
        server = stack.enter_context(started_server(data, scenario.environment))
        path = scenario.paths(seeded)[0]
        answer = fetch(server.url, scenario.method, path, scenario.body)
        ceiling = stack.enter_context(started_answering(bare, scenario.method, scenario.route, answer))
        reference = Side(ceiling, scenario.requests(ceiling.url, seeded), plan.seconds, scenario.status)
        other = replace(
            reference,
            process=server,
            requests=scenario.requests(server.url, seeded),
            writes=scenario.writes,
        )
        figures = in_turns(plan.rounds, ceiling=reference.measure, server=other.measure)
        yield row(scenario.name, figures, scenario.label)
