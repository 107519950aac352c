"""Fixtures for pytest: a bridge for each test, a project, an Ethereum node, a wallet (docs/testing.md).

pytest loads this module in every environment that has the server: nothing else of the server is imported
before a test uses a fixture.
"""

from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any

import pytest

FIXTURES = ("bridge", "bridge_process", "bridge_session")
"""The fixtures that are a server, in the order in which a test's project looks for its own."""

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
            report.sections.extend(import_module("bridge_server.fixtures.report").sections(bridge))
    return report


@pytest.fixture
def bridge(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A bridge with nothing in it (`bridge_server.fixtures.Bridge`); `--bridge-url` names another."""
    url = request.config.getoption("--bridge-url")
    if url is not None:
        _skip_with_settings(request)
        with _run_of(request).deployed(url) as deployed:
            yield _noted(request, deployed)
    elif request.config.getini("bridge_scope") == "session":
        yield request.getfixturevalue("bridge_session")
    else:
        with _run_of(request).fresh(_settings(request)) as fresh:
            yield _noted(request, fresh)


@pytest.fixture
def bridge_session(request: pytest.FixtureRequest) -> Any:
    """The bridge of all tests with the marker's settings, emptied (`bridge_server.fixtures.Bridge`)."""
    _skip_elsewhere(request)
    return _noted(request, _run_of(request).shared(_settings(request)))


@pytest.fixture
def bridge_process(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A bridge in a process of its own (`bridge_server.fixtures.BridgeProcess`)."""
    _skip_elsewhere(request)
    with _run_of(request).process(_settings(request)) as process:
        yield _noted(request, process)


@pytest.fixture
def bridge_project(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new project of the test's bridge (`bridge_server.fixtures.Project`)."""
    named = [name for name in FIXTURES if name in request.fixturenames]
    server = request.getfixturevalue((named or FIXTURES)[0])
    with import_module("bridge_server.fixtures.project").created(server, "Example") as project:
        yield project


@pytest.fixture
def bridge_node(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An Ethereum node, which the test's bridge uses (`bridge_server.fixtures.Node`)."""
    _skip_elsewhere(request)
    with _run_of(request).node() as node:
        yield node


def _run_of(request: pytest.FixtureRequest) -> Any:
    """The servers of this run; the first test that needs one pays for the imports."""
    stash = request.config.stash
    if _RUN not in stash:
        stash[_RUN] = import_module("bridge_server.fixtures.run").Run()
    return stash[_RUN]


def _noted(request: pytest.FixtureRequest, bridge: Any) -> Any:
    """The bridge, once the report of a failure knows it."""
    noted = request.node.stash.setdefault(_BRIDGES, [])
    if bridge not in noted:
        noted.append(bridge)
    return bridge


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of the test's markers, the nearest first, and its node."""
    settings: dict[str, Any] = {}
    if "bridge_node" in request.fixturenames:
        settings["node_url"] = request.getfixturevalue("bridge_node").url
    for marker in reversed(list(request.node.iter_markers("bridge"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.bridge takes settings by name: bridge(session_ttl=5)")
        settings.update(marker.kwargs)
    return settings


def _skip_with_settings(request: pytest.FixtureRequest) -> None:
    if "bridge_node" in request.fixturenames or request.node.get_closest_marker("bridge") is not None:
        pytest.skip("the test needs a bridge with settings of its own, and --bridge-url names another")


def _skip_elsewhere(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--bridge-url") is not None:
        pytest.skip("the test starts servers of its own, and --bridge-url names another")
