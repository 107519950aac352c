"""Generation 0.7: npm `walletconnect`, `rn-walletconnect-wallet` and `js-walletconnect-core`, unmodified.

They send the protocol's own requests, under the bridge URL that they are given, and read every payload inside
an envelope, `{"data": {"encryptionPayload", "expires"}}`. Their reading of an answer decides its form:

- `POST /session/new` answers with `expires` beside `sessionId`. The dapp keeps both in its browser, and
  resumes the session after a reload only if `expires`, epoch milliseconds, lies ahead.
- `GET /session/{sessionId}`: at 204 the dapp asks again later. At an error `initSession()` fails, and fails
  again at every reload until `expires` has passed; so a session that has ended is 204 too, and the dapp opens
  another. A long poll is answered 404 all the same: these clients send none, and others would poll in a loop.
- `GET .../calls` is `{"data": {}}` without calls: applications iterate over the answer, and a 204 would give
  them null. When the session has ended it is 404, the only sign of that end to the wallet.
- `GET /call-status/{callId}`: at 204 the dapp asks again later. At an error it gives the call up, which is
  right for a call that is gone.
- `DELETE` of a session that has ended succeeds: at an error the wallet would stay connected for ever.
- Of any other error they read the status alone: the application gets `Error: Not Found`. Of the answers to
  `DELETE` and `POST /call-status/{callId}/new` they read nothing else either.
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
