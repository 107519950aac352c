"""B for clients of generation 1.x: messages that are published on topics, over WebSockets.

The protocol is that of the published clients: JSON in text frames, `{topic, type, payload, silent}` with the
types `pub`, `sub` and `ack`. Nothing is answered; what is published is sent on to whoever has subscribed.

**When a message is dropped.** Not when it was written to a socket: that one may be dead without anybody
knowing. A message is kept, on disk unless this takes only a moment, until one of these has happened:

- A socket that it was sent to acknowledged it. An acknowledgement names only a topic, and means the oldest
  message that was sent to this socket on it. One that no message was sent for means nothing: the published
  client queues an acknowledgement while it is disconnected, and drops the message that it is for.
- A socket that never acknowledges anything answered a ping that was sent after the message: as its pong comes
  after all that was sent before, it has the message (some wallets never acknowledge).
- It has expired.

Whoever subscribes is sent all that is kept, oldest first, also what others were sent and have not yet
acknowledged: they may be dead sockets of the same client. So a message comes at least once, on every socket
that is open, and after a connection broke off perhaps a second time.
"""
