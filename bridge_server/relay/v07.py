"""Generation 0.7: npm `walletconnect`, `rn-walletconnect-wallet` and `js-walletconnect-core`, unmodified.

They send what the protocol has, under the bridge URL that they are given, and read every payload inside an
envelope, `{"data": {"encryptionPayload", "expires"}}`. What they make of an answer decides what they get:

- `POST /session/new` tells `expires` beside `sessionId`. The dapp keeps both in its browser, and takes the
  session up again after a reload only if `expires`, epoch milliseconds, lies ahead.
- `GET /session/{sessionId}`: at 204 the dapp asks again later. At an error `initSession()` fails, and fails
  again at every reload until `expires` has passed; so a session that has ended is 204 too, and the dapp opens
  another. Who asks to wait is told 404 all the same: these clients never do, and others would ask in a loop.
- `GET .../calls` is `{"data": {}}` when there are none: applications go through what they get, and a 204
  would hand them null. When the session has ended it is 404, the only way for the wallet to hear of that.
- `GET /call-status/{callId}`: at 204 the dapp asks again later. At an error it gives the call up, which is
  right for a call that is gone.
- `DELETE` of a session that has ended succeeds: at an error the wallet would stay connected for ever.
- Of any other error the status alone is read: the application is told `Error: Not Found`. Of the answers to
  `DELETE` and `POST /call-status/{callId}/new` nothing else is read either.
"""

from bridge_server.relay.dialect import Dialect
from bridge_server.relay.errors import SessionNotFoundError
from bridge_server.relay.models import Found, OpenedSession


def _opened(session: OpenedSession) -> bytes:
    return b'{"sessionId":"%b","expires":%d}' % (session.session_id.encode(), session.expires_at_ms)


def _payload(found: Found) -> bytes:
    without_brace = found.body[:-1]
    return b'{"data":%b,"expires":%d}}' % (without_brace, found.expires_at_ms)


V07 = Dialect(
    path="/compat/v0.7",
    route_prefix="v0.7-",
    opened=_opened,
    payload=_payload,
    calls_envelope=(b'{"data":', b"}"),
    forgiven=(SessionNotFoundError,),
)
