"""Outgoing HTTP to addresses that strangers name: address guard, client, resolver, texts of failures."""
