"""Fixtures that every room's tests use.

White-box: one run has hundreds of databases at once, and the number of their connections has no setting.
"""

import gc
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from pytest_aiohttp.plugin import AiohttpServer

from tests.support.clock import PassTime, moving
from tests.support.engines import Databases, release_databases, use
from tests.support.fork_server import wait_long
from tests.support.needs import SLOW
from tests.support.postgres import (
    HAS_POSTGRES,
    PostgresServer,
    connected,
    crash_cluster,
    needs_postgres,
    postgres_server,
    pytest_runtest_makereport,
)
from tests.support.postgres_cluster import PostgresCluster, programs
from tests.support.programs import close_fork_server, fork_server
from tests.support.project import App, opened_app
from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver

__all__ = ["pytest_runtest_makereport"]

pytest_plugins = ["tests.support.forked_workers"]

# No test depends on how fast the machine is, and a run of the suite repeats the examples of the one before.
for _name, _examples in (("repeatable", 150 if SLOW else 15), ("postgres", 5)):
    _unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(_name, _unhurried, derandomize=True, max_examples=_examples)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = ("sqlite", "postgres")
    parser.addoption("--engine", choices=choices, default="sqlite", help="the database of the tests' servers")


def pytest_configure(config: pytest.Config) -> None:
    """Repeat few examples where servers run on PostgreSQL: the rules are equal, and each costs more."""
    if config.getoption("--engine") == "postgres":
        settings.load_profile("postgres")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is SQLite's own where servers run on PostgreSQL."""
    if config.getoption("--engine") == "sqlite":
        return
    for item in items:
        mark = item.get_closest_marker("sqlite")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"SQLite's own: {mark.args[0]}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what was skipped: each reason with the number of its tests (`-rs` names the tests)."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} skipped: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep thousands of test items, which live to the end, out of the garbage collector's sight.

    It would walk through them hundreds of times, a quarter of the run. It stays off, because the start of a
    server makes many objects and no garbage: what is collected is several servers at once, between tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Have forked workers share one process that forks processes for tests: each would import the program."""
    if session.config.getoption("--workers") and not session.config.option.collectonly:
        fork_server()
    try:
        return (yield)
    finally:
        close_fork_server()


def pytest_runtest_logfinish() -> None:
    """Let go of the test's databases, and collect garbage once there is much."""
    release_databases()
    made_since_the_last_time, _, _ = gc.get_count()
    if made_since_the_last_time > 600_000:
        gc.collect()


@pytest.fixture(autouse=True, scope="session")
def bytecode_is_kept() -> Iterator[None]:
    """A process that a test starts finds compiled modules, as an installed program does, or leaves them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def plain_tracebacks() -> None:
    """A log that nothing has configured would have `rich` draw each traceback, which takes seconds."""
    structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


@pytest.fixture(autouse=True)
def unconfigured_log() -> Iterator[None]:
    """The log that a command configures ends with its test."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="session")
def loggers_that_can_be_captured() -> Iterator[None]:
    """A command that a test runs configures the log. What it keeps must not escape a later test's capture."""
    configure = structlog.configure

    def without_cache(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", without_cache)
        yield


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The PostgreSQL server of this run. It is started when the first test asks for it."""
    if not HAS_POSTGRES:
        pytest.skip(needs_postgres.kwargs["reason"])
    with postgres_server(tmp_path_factory.getbasetemp()) as server:
        yield server


@pytest.fixture(scope="session")
def _made_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresCluster]:
    if programs() is None:
        pytest.skip("needs PostgreSQL's server programs, to stop a server")
    cluster = crash_cluster(tmp_path_factory.getbasetemp())
    yield cluster
    if cluster.is_running:
        cluster.stop("immediate")


@pytest.fixture
async def cluster(_made_cluster: PostgresCluster) -> PostgresCluster:
    """A server of PostgreSQL that a test may stop and crash: it runs, and its database is empty."""
    if not _made_cluster.is_running:
        _made_cluster.start()
    async with connected(_made_cluster.url()) as wire:
        await wire.execute("DROP SCHEMA public CASCADE")
        await wire.execute("CREATE SCHEMA public")
    return _made_cluster


@pytest.fixture(autouse=True, scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """The databases of the servers that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        wait_long()
        if request.config.getoption("--engine") == "sqlite":
            yield
            return
        databases = Databases(request.getfixturevalue("postgres"))
        use(databases)
        # A connection of PostgreSQL is a process of the server: it is most of what a test costs.
        patch.setattr("bridge_server.storage.postgres.database._READER_COUNT", 2)
        yield
        use(None)
        databases.close()


@pytest.fixture
async def pass_time() -> PassTime:
    """Moves the event loop's time, and has everything happen that is due."""
    return moving()


@pytest.fixture
async def receiver(aiohttp_server: AiohttpServer) -> AsyncIterator[WebhookReceiver]:
    """A receiver of webhooks on this machine."""
    receiver = WebhookReceiver()
    server = await aiohttp_server(receiver.application(), shutdown_timeout=1, access_log=None)
    assert server.port is not None
    receiver.port = server.port
    yield receiver
    receiver.released.set()


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    """The settings of `server` by name; a folder's conftest replaces them."""
    return {}


@pytest.fixture
def server(request: pytest.FixtureRequest) -> RunningServer:
    """A server with the folder's `server_settings`, and a clock that stands still until a test moves it.

    The tests of a module share one, which the reset of test mode empties after each, unless its settings turn
    test mode off. A test that is marked `own_server` has one of its own, outside of test mode: it ends the
    server, or sets its clock back.
    """
    is_own = request.node.get_closest_marker("own_server") is not None
    found: RunningServer = request.getfixturevalue("_own_server" if is_own else "_emptied_server")
    return found


@pytest.fixture(scope="module")
async def _shared_server(
    tmp_path_factory: pytest.TempPathFactory, server_settings: dict[str, Any]
) -> AsyncIterator[RunningServer]:
    settings = {"test": True, **server_settings}
    async with running_server(tmp_path_factory.mktemp("server") / "data", **settings) as running:
        yield running


@pytest.fixture
async def _emptied_server(_shared_server: RunningServer) -> AsyncIterator[RunningServer]:
    yield _shared_server
    if _shared_server.settings.test:
        await _shared_server.reset()


@pytest.fixture
async def app(server: RunningServer) -> AsyncIterator[App]:
    """A project of the server with two types, news and offers, that publishes."""
    async with opened_app(server) as app:
        yield app


@pytest.fixture
async def _own_server(tmp_path: Path, server_settings: dict[str, Any]) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path / "data", **server_settings) as running:
        yield running
