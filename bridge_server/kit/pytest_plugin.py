"""Fixtures for pytest: a bridge for each test, a project, an Ethereum node, a wallet (docs/test.md).

pytest loads this module in every environment that has the server: nothing else of the server is imported
before a test uses a fixture.
"""

from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any

import pytest

_SERVERS = ("bridge", "bridge_process", "bridge_session")
"""The fixtures that are a server, in the order in which a test's project looks for its own."""

_EXAMPLES = {"bridge": "bridge(session_ttl=60)", "bridge_wallet": "bridge_wallet(chain_id=1)"}
_SCOPES = ("function", "session")
_RUN: pytest.StashKey[Any] = pytest.StashKey()
_BRIDGES: pytest.StashKey[list[Any]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting."""
    parser.getgroup("bridge-server").addoption(
        "--bridge-url", metavar="URL",
        help="Run the tests against the bridge there, which may be a deployed one. With the environment "
        "variables BRIDGE_TEST_TOKEN and BRIDGE_ADMIN_TOKEN they can also control it.",
    )  # fmt: skip
    parser.addini(
        "bridge_scope",
        "function: a server of its own for each test; session: one for all tests, emptied before each",
        default="function",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. Raises UsageError for a scope that there is not."""
    config.addinivalue_line("markers", "bridge(setting=value, ...): settings of the bridge of this test")
    config.addinivalue_line(
        "markers", "bridge_wallet(option=value, ...): options of the wallet of this test, as HeadlessWallet's"
    )
    scope = config.getini("bridge_scope")
    if scope not in _SCOPES:
        raise pytest.UsageError(f"bridge_scope is {' or '.join(_SCOPES)}, not {scope!r}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers that tests shared."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.close()
        del config.stash[_RUN]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the servers' traffic and log into the report of a failed test."""
    report = yield
    if report.failed and report.when in ("setup", "call"):
        for bridge in item.stash.get(_BRIDGES, []):
            report.sections.extend(import_module("bridge_server.kit.fixtures.run").sections(bridge))
    return report


@pytest.fixture
def bridge(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A bridge with nothing in it (`bridge_server.kit.fixtures.Bridge`); `--bridge-url` names another."""
    url = request.config.getoption("--bridge-url")
    if url is not None:
        if "bridge_node" in request.fixturenames or request.node.get_closest_marker("bridge") is not None:
            pytest.skip("the test needs a bridge with settings of its own, and --bridge-url names another")
        with _run_of(request).deployed(url) as deployed:
            yield _noted(request, deployed)
    elif request.config.getini("bridge_scope") == "session":
        yield request.getfixturevalue("bridge_session")
    else:
        with _run_of(request).fresh(_settings(request)) as fresh:
            yield _noted(request, fresh)


@pytest.fixture
def bridge_session(request: pytest.FixtureRequest) -> Any:
    """The bridge of all tests with the marker's settings, emptied (`bridge_server.kit.fixtures.Bridge`)."""
    _skip_elsewhere(request)
    return _noted(request, _run_of(request).shared(_settings(request)))


@pytest.fixture
def bridge_process(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A bridge in a process of its own (`bridge_server.kit.fixtures.BridgeProcess`)."""
    _skip_elsewhere(request)
    with _run_of(request).process(_settings(request)) as process:
        yield _noted(request, process)


@pytest.fixture
def bridge_project(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new project of the test's bridge (`bridge_server.kit.fixtures.BridgeProject`)."""
    server = _server_of(request) or request.getfixturevalue("bridge")
    with import_module("bridge_server.kit.fixtures.project").created(server, "Example") as project:
        yield project


@pytest.fixture
def bridge_wallet(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A wallet that pairs by URI and answers by rules (`bridge_server.kit.fixtures.BridgeWallet`).

    It uses the test's node, and the test's bridge as the relay of generation 2.x.
    """
    options: dict[str, Any] = {}
    server, node = _server_of(request), _node_of(request)
    if server is not None:
        options["relay_url"] = server.url
    if node is not None:
        options["node_url"] = node.url
    with _run_of(request).wallet(options | _marked(request, "bridge_wallet")) as wallet:
        yield wallet


@pytest.fixture
def bridge_node(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An Ethereum node, which the test's bridge uses (`bridge_server.kit.fixtures.BridgeNode`)."""
    _skip_elsewhere(request)
    with _run_of(request).node() as node:
        yield node


def _run_of(request: pytest.FixtureRequest) -> Any:
    """The servers of this run; the first test that needs one pays for the imports."""
    stash = request.config.stash
    if _RUN not in stash:
        stash[_RUN] = import_module("bridge_server.kit.fixtures.run").Run()
    return stash[_RUN]


def _noted(request: pytest.FixtureRequest, bridge: Any) -> Any:
    """Note the bridge for the report of a failed test; returns it."""
    noted = request.node.stash.setdefault(_BRIDGES, [])
    if bridge not in noted:
        noted.append(bridge)
    return bridge


def _server_of(request: pytest.FixtureRequest) -> Any:
    named = [name for name in _SERVERS if name in request.fixturenames]
    return request.getfixturevalue(named[0]) if named else None


def _node_of(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("bridge_node") if "bridge_node" in request.fixturenames else None


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    node = _node_of(request)
    return ({} if node is None else {"node_url": node.url}) | _marked(request, "bridge")


def _marked(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """The arguments of the markers with this name; the nearest marker wins."""
    chosen: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(name))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{name} takes values by name: {_EXAMPLES[name]}")
        chosen.update(marker.kwargs)
    return chosen


def _skip_elsewhere(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--bridge-url") is not None:
        pytest.skip("the test starts servers of its own, and --bridge-url names another")
