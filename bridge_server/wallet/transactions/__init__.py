"""Transactions: read, filled in, signed, stored, sent, and followed until they are on the chain."""
