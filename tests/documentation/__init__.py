"""Tests of the pages at /docs/."""
