"""Durable outgoing webhooks.

Whoever causes a message writes it in its own transaction; it is delivered afterwards, at least once, always
under the same message id: retried with growing delays for about a day, then kept as a dead letter. No
destination waits for another, and no address that is not public is connected to unless a setting allows it.
"""
