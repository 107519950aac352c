"""Durable outgoing webhooks.

Whoever causes a message writes it in its own transaction; it is delivered afterwards, at least once, always
under the same message id: retried with growing delays for about a day, then kept as a dead letter. No
address that is not public is connected to unless a setting allows it.

What is due waits on disk, in queues: at a host that a stranger named, one for each subject. A queue asks for
a place (`admission`), and gets it in a fair order; with one it becomes a lane, which reads its messages and
sends them. So there are few lanes, and a receiver that hangs takes no place from those that answer.
"""
