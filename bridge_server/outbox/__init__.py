"""Durable outgoing webhooks.

A room writes a message in the transaction that causes it. The message is delivered afterwards, at least once
and always under one message id: retried with growing delays for about a day, then kept as a dead letter. No
address that is not public is connected to unless a setting allows it.

Messages that are due wait on disk, in queues: at a host that a stranger named there is one queue for each
subject. A queue asks for a place (`admission`) and gets it in a fair order. With a place it becomes a lane,
which reads its messages and sends them. So there are few lanes, and a receiver that hangs takes no place from
receivers that answer.
"""
