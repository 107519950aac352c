"""Pushes to devices: a preview and a test."""
