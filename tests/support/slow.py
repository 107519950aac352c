"""The mark of tests that take minutes, or need the network."""

import os

import pytest

slow = pytest.mark.skipif("SLOW_TESTS" not in os.environ, reason="slow: `scripts/test --all` runs it")
