"""Sent notifications with their outcomes, and sending for a project."""
