"""Pushes to devices: how one looks, and a test of one."""
