"""Clients of generation 2.x that do as little as possible."""

import asyncio
import json
import time
from itertools import count

from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from socket_clients import SocketClient, client_frame

from bridge_server.kernel.base64url import encode

_LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_MEDIUM = 126
_REQUEST = b'"method"'
_numbers = count(int(time.time() * 1_000_000))


def token() -> str:
    """What a new client connects with."""
    key = ECC.generate(curve="Ed25519")
    number, text = int.from_bytes(b"\xed\x01" + key.public_key().export_key(format="raw")), ""
    while number:
        number, digit = divmod(number, 58)
        text = _LETTERS[digit] + text
    now = int(time.time())
    claims = {"iss": f"did:key:z{text}", "sub": "bench", "aud": "ws://bench", "iat": now, "exp": now + 86_400}
    parts = ({"alg": "EdDSA", "typ": "JWT"}, claims)
    signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{encode(eddsa.new(key, 'rfc8032').sign(signed.encode()))}"


class IrnClient(SocketClient):
    """Calls methods; counts answers, and acknowledges what it is sent."""

    def __init__(self, url: str, *, bearer: str | None = None) -> None:
        super().__init__(url, f"/?auth={bearer or token()}&more=")
        self.answered = asyncio.Event()
        self.answers = 0

    def call(self, method: str, params: bytes) -> None:
        """Call a method."""
        members = (next(_numbers), method.encode(), params)
        frame = b'{"id":%d,"jsonrpc":"2.0","method":"%b","params":%b}' % members
        self.transport.write(client_frame(frame))

    def subscribe(self, topic: str) -> None:
        """Subscribe to a topic."""
        self.call("irn_subscribe", b'{"topic":"%b"}' % topic.encode())

    def heard(self, data: bytes, start: int, end: int) -> None:
        start += 4 if data[start + 1] == _MEDIUM else 2
        if data.find(_REQUEST, start, start + 80) >= 0:
            number = data[start + 6 : data.index(b",", start)]
            self.transport.write(client_frame(b'{"id":%b,"jsonrpc":"2.0","result":true}' % number))
            self.came()
        else:
            self.answers += 1
            self.answered.set()

    def came(self) -> None:
        """A message has come, and was acknowledged."""


class IrnListening(IrnClient):
    """Has the publisher publish the next message whenever one has come."""

    def __init__(self, url: str, topic: str, publisher: IrnClient, payload: str, window: int) -> None:
        super().__init__(url)
        self.topic = topic
        self._publisher = publisher
        self._params = b'{"topic":"%b","message":"%b","ttl":300,"tag":1108,"prompt":false}' % (
            topic.encode(), payload.encode(),
        )  # fmt: skip
        self._window = window
        self.count = 0

    def begin(self) -> None:
        """Have the first messages published."""
        for _ in range(self._window):
            self.publish()

    def publish(self) -> None:
        """Have one message published."""
        self._publisher.call("irn_publish", self._params)

    def came(self) -> None:
        self.count += 1
        self.publish()


class IrnTimed(IrnListening):
    """Remembers when its message came."""

    arrived: "asyncio.Future[float]"

    def came(self) -> None:
        self.arrived.set_result(time.perf_counter())
