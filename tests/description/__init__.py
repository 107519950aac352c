"""Tests of the server's description of itself."""
