"""What pip installs is compiled when it is imported: compiling all of it costs more than the test."""

LAZY_PIP = {"PIP_COMPILE": "0"}
"""Environment variables of a test that installs packages."""
