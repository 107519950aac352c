"""CPU time per request: the server's beside the ceiling's, and other pairs of alike requests."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import orjson
from clients import PLACEHOLDER, fetch
from load import Requests, Side, in_turns
from plan import Plan
from processes import started_ceiling, started_server
from report import Figures, Row, row
from seed import PAYLOAD_BYTES, Population, Seeded, fill
from signing_tasks import ADDRESS, MAIL, MESSAGE

_DATA = PLACEHOLDER.decode() + "5a" * ((PAYLOAD_BYTES - len(PLACEHOLDER) - 128) // 2)
_PAYLOAD = f'{{"data":"{_DATA}","hmac":"{"c3" * 32}","iv":"{"96" * 16}"}}'
STATUS_BODY = f'{{"encryptionPayload":{_PAYLOAD}}}'.encode()
_CALL_BODY = f'{{"encryptionPayload":{_PAYLOAD},"dappName":"Exchange"}}'.encode()

WALLET = {"BRIDGE_DEV_ACCOUNTS": "true", "BRIDGE_CHAIN_ID": "1"}
BATCH = 100
_LIMITED = {
    "BRIDGE_QUOTA_EXEMPT": "[]",
    "BRIDGE_REQUESTS_PER_SECOND": "1000000",
    "BRIDGE_REQUESTS_BURST": "1000000",
}


def rpc_body(method: str, *params: object, number: int = 1) -> bytes:
    """A JSON-RPC request, or a batch of several alike."""
    calls = [{"jsonrpc": "2.0", "id": each, "method": method, "params": params} for each in range(number)]
    return orjson.dumps(calls if number > 1 else calls[0])


SIGN_MESSAGE = rpc_body("personal_sign", MESSAGE, ADDRESS)
SIGN_MESSAGES = rpc_body("personal_sign", MESSAGE, ADDRESS, number=BATCH)


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
        state = (
            f"{self.population.calls_per_session} pending"
            if self.route.endswith("/calls")
            else str(self.status)
        )
        if self.writes:
            state = self.name if self.route == "/rpc" else "on disk"
        return f"`{self.method} {self.route}`, {state}"

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
_ANSWERED = Population(1_000, calls_per_session=1, answered_per_session=1)

SCENARIOS = (
    Scenario("session-new", "POST", "/session/new"),
    Scenario("session-put", "PUT", "/session/{id}", Population(5_000), body=STATUS_BODY),
    Scenario("session-get-204", "GET", "/session/{id}", _POLLED, status=204),
    Scenario("session-get-200", "GET", "/session/{id}", Population(1_000, session_payload=True)),
    Scenario("call-new", "POST", "/session/{id}/call/new", Population(10_000), body=_CALL_BODY),
    Scenario("calls-1", "GET", "/session/{id}/calls", Population(500, calls_per_session=1)),
    Scenario("calls-10", "GET", "/session/{id}/calls", Population(200, calls_per_session=10)),
    Scenario("calls-100", "GET", "/session/{id}/calls", Population(50, calls_per_session=100)),
    Scenario(
        "status-post", "POST", "/call-status/{id}/new", Population(4_000, calls_per_session=50),
        "pending", STATUS_BODY,
    ),
    Scenario("status-get-204", "GET", "/call-status/{id}", _PENDING, "pending", status=204),
    Scenario("status-get-200", "GET", "/call-status/{id}", _ANSWERED, "answered"),
    Scenario("limited-get-204", "GET", "/session/{id}", _POLLED, status=204, environment=_LIMITED),
    Scenario("rpc-sign-message", "POST", "/rpc", body=SIGN_MESSAGE, environment=WALLET),
    Scenario(
        "rpc-sign-mail", "POST", "/rpc",
        body=rpc_body("eth_signTypedData", ADDRESS, MAIL), environment=WALLET,
    ),
)  # fmt: skip
_SCENARIOS_BY_NAME = {each.name: each for each in SCENARIOS}
ENVELOPED = [
    each for each in SCENARIOS if each.name in ("session-get-200", "calls-1", "calls-10", "status-get-200")
]


def measure_scenario(scenario: Scenario, plan: Plan) -> Iterator[Row]:
    """The ceiling, which answers what the server answers, and the server."""
    with ExitStack() as stack:
        data, bare = stack.enter_context(plan.folder()), stack.enter_context(plan.folder())
        seeded = fill(data, scenario.population) if scenario.population.sessions else Seeded()
        server = stack.enter_context(started_server(data, scenario.environment))
        path = scenario.paths(seeded)[0]
        answer = fetch(server.url, scenario.method, path, scenario.body)
        body_file = bare / "bench-answer.txt"
        body_file.write_bytes(answer.body)
        ceiling = stack.enter_context(
            started_ceiling(
                bare,
                "answer",
                method=scenario.method,
                route=scenario.route,
                status=answer.status,
                content_type=answer.content_type,
                body_file=str(body_file),
            )
        )
        reference = Side(ceiling, scenario.requests(ceiling.url, seeded), plan.seconds, scenario.status)
        other = replace(
            reference,
            process=server,
            requests=scenario.requests(server.url, seeded),
            writes=scenario.writes,
        )
        figures = in_turns(plan.rounds, ceiling=reference.measure, server=other.measure)
        yield row(scenario.name, figures, scenario.label)


def measure_envelope(scenario: Scenario, plan: Plan) -> Iterator[Row]:
    """A read under the path of generation 0.7, and the plain one, of one server."""
    with plan.folder() as data:
        seeded = fill(data, scenario.population)
        with started_server(data) as server:
            plain, enveloped = (
                Side(
                    server,
                    replace(scenario, route=path + scenario.route).requests(server.url, seeded),
                    plan.seconds,
                )
                for path in ("", "/compat/v0.7")
            )
            figures = in_turns(2 * plan.rounds, enveloped=enveloped.measure, plain=plain.measure)
    yield row(f"envelope-{scenario.name}", figures)


def measure_batches(plan: Plan) -> Iterator[Row]:
    """Signatures asked for singly and a hundred at a time, of one server; per signature."""
    with plan.folder() as folder, started_server(folder, WALLET) as server:
        single, hundred = (
            Side(
                server,
                Requests(server.url, "POST", ["/rpc"], [body]),
                plan.seconds,
                writes=True,
                pieces=pieces,
            )
            for body, pieces in ((SIGN_MESSAGE, 1), (SIGN_MESSAGES, BATCH))
        )
        figures = in_turns(plan.rounds, single=single.measure, hundred=hundred.measure)
    yield row(f"batches of {BATCH}", figures)


@dataclass(frozen=True, slots=True)
class _Growth:
    """A request to a large database, and to a small one in which as many different ids are asked for."""

    scenario: Scenario
    ids: int
    small: Population


def _grown(sessions: int, silent_sessions: int = 0) -> Population:
    return Population(sessions, calls_per_session=10, answered_per_session=5, silent_sessions=silent_sessions)


_GROWTH = (
    _Growth(_SCENARIOS_BY_NAME["call-new"], 5_000, _grown(100, 4_900)),
    _Growth(_SCENARIOS_BY_NAME["status-post"], 500, _grown(100)),
    _Growth(_SCENARIOS_BY_NAME["status-get-200"], 500, _grown(100)),
    _Growth(_SCENARIOS_BY_NAME["calls-1"], 100, _grown(100)),
)


def measure_growth(plan: Plan) -> Iterator[Row]:
    """Requests to a database of a thousand calls, and to one of a million.

    Some ids in turns, the large one's from all of it, so that the size of the database is compared and not
    how much of it is remembered.
    """
    with plan.folder() as folder:
        seeded = fill(folder, _grown(plan.sized(10_000, 100_000)))
        for case in _GROWTH:
            with _side(case, folder, seeded, plan) as large:
                figures = in_turns(plan.rounds, small=partial(_small, case, plan), large=large.measure)
            yield row(f"growth: {case.scenario.name}", figures)


def _small(case: _Growth, plan: Plan) -> Figures:
    """A small database is new in every round, for what a round writes makes it grow."""
    with plan.folder() as folder, _side(case, folder, fill(folder, case.small), plan) as side:
        side.measure()
        return side.measure()


@contextmanager
def _side(case: _Growth, folder: Path, seeded: Seeded, plan: Plan) -> Iterator[Side]:
    paths, scenario = case.scenario.paths(seeded), case.scenario
    drawn = random.Random(2).sample(paths, min(case.ids, len(paths)))
    with started_server(folder) as server:
        requests = Requests(server.url, scenario.method, drawn, [scenario.body])
        yield Side(server, requests, plan.seconds, writes=scenario.writes)
