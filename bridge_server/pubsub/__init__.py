"""B for clients of generation 1.x: messages on topics, published over WebSockets.

The protocol is defined by the published clients: JSON in text frames, `{topic, type, payload, silent}` with
the types `pub`, `sub` and `ack`. No message is answered. A published message is sent to all subscribers of
its topic.

**When a message is dropped.** A write to a socket is no delivery, since the socket may be dead. A message is
kept, on disk unless this takes only a moment, until one of these has happened:

- A socket that received it acknowledged it. An acknowledgement names only a topic, and is for the oldest
  message that was sent to this socket on it. An acknowledgement without such a message is ignored: the
  published client queues an acknowledgement while it is disconnected, and drops the message that it is for.
- A socket that never acknowledges anything answered a ping that was sent after the message: the pong proves
  that the client has received everything before the ping (some wallets never acknowledge).
- It has expired.

A new subscriber is sent all kept messages, oldest first, also messages that other sockets were sent and have
not yet acknowledged: these may be dead sockets of the same client. So delivery is at least once, on every
open socket, and a message may be repeated after a connection broke.
"""
