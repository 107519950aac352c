"""Requests that wait for a person: listed, explained, approved, rejected."""
