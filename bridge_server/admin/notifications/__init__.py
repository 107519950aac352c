"""Notifications that were sent, what became of each, and sending for a project."""
