"""The mark of tests that take minutes, or need the network."""

import os

import pytest

SLOW = "SLOW_TESTS" in os.environ
"""Whether the tests may take their time."""

slow = pytest.mark.skipif(not SLOW, reason="slow: `scripts/test --all` runs it")
