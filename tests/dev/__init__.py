"""Tests of `bridge-server dev`."""
