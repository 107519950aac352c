"""Runs of pytest inside a test, as a user of the fixtures would have them.

White-box: a fork of this process starts a server in a tenth of the time.
"""

import pytest

# A run inside a test forgets the modules that it imports: they are imported before.
import bridge_server.kit.fixtures.project
import bridge_server.kit.fixtures.run
from tests.support.server import ForkedServerProcess


@pytest.fixture
def forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bridge_process` is a forked process, as a new interpreter costs a second."""
    monkeypatch.setattr(bridge_server.kit.fixtures.run, "ServerProcess", ForkedServerProcess)


@pytest.fixture
def project_folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder for a test suite that uses the fixtures."""
    pytester.makeini(
        """
        [pytest]
        asyncio_default_fixture_loop_scope = function
        filterwarnings = error
        addopts = --strict-markers --strict-config -p no:cacheprovider
        """
    )
    return pytester
