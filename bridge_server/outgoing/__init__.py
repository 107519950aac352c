"""Outgoing HTTP to untrusted URLs: address guard, client, resolver, texts of failures."""
