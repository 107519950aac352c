"""Clients by address: requests, refusals, and the rest of their limits; the heaviest clients first."""
