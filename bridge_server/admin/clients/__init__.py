"""Clients by address: what the heaviest ask for, what they are refused, and what they have left."""
