"""The requests whose cost is compared with the ceiling's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from load import PLACEHOLDER, Load
from raw_http import Answer, fetch
from rpc_load import SIGN_MESSAGE, SIGN_TYPED_DATA, WALLET
from seed import PAYLOAD_BYTES, Population, Seeded

_DATA = PLACEHOLDER + "5a" * ((PAYLOAD_BYTES - len(PLACEHOLDER) - 128) // 2)
_PAYLOAD = f'{{"data":"{_DATA}","hmac":"{"c3" * 32}","iv":"{"96" * 16}"}}'
SESSION_BODY = f'{{"encryptionPayload":{_PAYLOAD}}}'.encode()
STATUS_BODY = SESSION_BODY
CALL_BODY = f'{{"encryptionPayload":{_PAYLOAD},"dappName":"Exchange"}}'.encode()

NOBODY = Population()
UNLIMITED_QUOTAS = {
    "BRIDGE_QUOTA_EXEMPT": "[]",
    "BRIDGE_REQUESTS_PER_SECOND": "1000000",
    "BRIDGE_REQUESTS_BURST": "1000000",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request: to which path of whose id, what is in the database, and what it should reach."""

    name: str
    method: str
    route: str  # with {id} where the id goes
    ids: str = "sessions"  # which ids of the seeded ones
    population: Population = NOBODY
    body: bytes | None = None
    status: int = 200
    target: float | None = 0.75
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The request as the documentation names it."""
        pending = self.population.calls_per_session
        state = f"{pending} pending" if self.route.endswith("/calls") else str(self.status)
        if self.writes:
            state = self.name if self.route == "/rpc" else "on disk"
        return f"`{self.method} {self.route}`, {state}"

    @property
    def writes(self) -> bool:
        """Whether the server must make something durable."""
        return self.method != "GET"

    def write_load(self, folder: Path, seeded: Seeded) -> Load:
        """The load's files."""
        paths_file, body_file = folder / "bench-paths.txt", folder / "bench-body.txt"
        ids = getattr(seeded, self.ids) or [""]
        paths_file.write_text("\n".join(self.route.replace("{id}", one) for one in ids) + "\n")
        if self.body is not None:
            body_file.write_bytes(self.body)
        return Load(self.method, paths_file, body_file if self.body is not None else None, self.status)

    def sample_answer(self, url: str, load: Load) -> Answer:
        """What the server answers, for the ceiling to answer the same."""
        path = load.paths_file.read_text("ascii").split("\n", 1)[0]
        return fetch(url, self.method, path, self.body)


def _calls(pending: int, target: float, sessions: int) -> Scenario:
    population = Population(sessions=sessions, calls_per_session=pending)
    return Scenario(f"calls-{pending}", "GET", "/session/{id}/calls", population=population, target=target)


_POLLED = Population(sessions=1_000)
_ANSWERED = Population(sessions=1_000, calls_per_session=1, answered_per_session=1)

SCENARIOS = (
    Scenario("session-new", "POST", "/session/new", target=0.67),
    Scenario(
        "session-put", "PUT", "/session/{id}", population=Population(5_000), body=SESSION_BODY, target=0.66
    ),
    Scenario("session-get-204", "GET", "/session/{id}", population=_POLLED, status=204),
    Scenario("session-get-200", "GET", "/session/{id}", population=Population(1_000, session_payload=True)),
    Scenario(
        "call-new", "POST", "/session/{id}/call/new",
        population=Population(10_000), body=CALL_BODY, target=0.52,
    ),
    _calls(1, 0.7, sessions=500),
    _calls(10, 0.7, sessions=200),
    _calls(100, 0.6, sessions=50),
    Scenario(
        "status-post", "POST", "/call-status/{id}/new", ids="pending",
        population=Population(4_000, calls_per_session=50), body=STATUS_BODY, target=0.62,
    ),
    Scenario(
        "status-get-204", "GET", "/call-status/{id}", ids="pending",
        population=Population(1_000, calls_per_session=1), status=204,
    ),
    Scenario("status-get-200", "GET", "/call-status/{id}", ids="answered", population=_ANSWERED),
    Scenario(
        "limited-get-204", "GET", "/session/{id}",
        population=_POLLED, status=204, target=None, environment=UNLIMITED_QUOTAS,
    ),
    Scenario("rpc-sign-message", "POST", "/rpc", body=SIGN_MESSAGE, target=0.5, environment=WALLET),
    Scenario("rpc-sign-mail", "POST", "/rpc", body=SIGN_TYPED_DATA, target=None, environment=WALLET),
)  # fmt: skip
