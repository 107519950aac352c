"""What the tests run in Node: where `scripts/test` installs it, and the mark of a test that needs it."""

import shutil
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parent.parent / "node"
ANVIL = PACKAGES / "node_modules" / ".bin" / "anvil"

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (PACKAGES / "node_modules" / "walletconnect").is_dir(),
    reason="needs Node.js and the packages of tests/node, which scripts/test installs with npm",
)
needs_anvil = pytest.mark.skipif(
    shutil.which("node") is None or not ANVIL.exists(),
    reason="needs Node.js and the anvil package of tests/node, which scripts/test installs with npm",
)
