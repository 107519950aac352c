"""B for clients of generation 2.x: the relay protocol `irn`, JSON-RPC 2.0 over WebSockets.

A client is known by its Ed25519 key (`tokens`), on every socket, after every reconnection and restart.

**Until when a message is kept.** A message waits its `ttl` for every client that was subscribed to its topic
when it was published. If nobody but the publisher was, it waits for the client that subscribes next. An
acknowledgement counts for its client alone. Nobody is sent what they published.

**When a publication is answered.** Once it is on disk. Receivers that are there are sent it before that; one
that lags behind is sent the message from the disk, in order, as fast as it acknowledges.

**What is remembered of a publication.** A digest of the client, the id that it gave the call, and the
messages: a call that is repeated within five minutes is answered again and published once, also after a
restart. The messages are part of it because ids of JavaScript clients are rounded, and two calls of one
millisecond may share one.
"""
