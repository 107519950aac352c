"""Programs for Node.js: where `scripts/test --all` installs them, and marks of tests that need them."""

import shutil
from pathlib import Path

import pytest

from tests.support.slow import SLOW

PACKAGES = Path(__file__).parent.parent / "node"
ANVIL = PACKAGES / "node_modules" / ".bin" / "anvil"

_IS_FAST_RUN = not SLOW
_HAS_NODE = shutil.which("node") is not None

needs_node = pytest.mark.skipif(
    _IS_FAST_RUN or not _HAS_NODE or not (PACKAGES / "node_modules" / "walletconnect").is_dir(),
    reason="needs Node.js and the packages of tests/node: `scripts/test --all` installs them with npm",
)
needs_anvil = pytest.mark.skipif(
    _IS_FAST_RUN or not _HAS_NODE or not ANVIL.exists(),
    reason="needs Node.js and the anvil package of tests/node: `scripts/test --all` installs it with npm",
)
needs_node_alone = pytest.mark.skipif(
    _IS_FAST_RUN or not _HAS_NODE, reason="needs Node.js 20 or later: `scripts/test --all` runs it"
)
needs_test_runners = pytest.mark.skipif(
    _IS_FAST_RUN or not _HAS_NODE or not (PACKAGES / "node_modules" / "vitest").is_dir(),
    reason="needs Node.js and the test runners of tests/node: `scripts/test --all` installs them with npm",
)
needs_openapi_typescript = pytest.mark.skipif(
    _IS_FAST_RUN or not _HAS_NODE or not (PACKAGES / "node_modules" / "openapi-typescript").is_dir(),
    reason="needs Node.js and openapi-typescript of tests/node: `scripts/test --all` installs it with npm",
)
