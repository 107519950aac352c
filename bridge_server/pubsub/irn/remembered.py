"""Publications that are known again when a client repeats them: idempotency keys of five minutes."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

from bridge_server.kernel.errors import BridgeError
from bridge_server.pubsub.irn.models import ClientKey, ClientLimits, Done, PublishCall

REMEMBERED_MS = 300_000

_DIGEST_BYTES = 16


def call_key(client: ClientKey, id_text: bytes, call: PublishCall) -> str:
    """The key of a call, by which a repetition is recognised: client, id and content."""
    parts = [client, id_text.decode().strip('"')]
    for topic, message, *_ in call.publications:
        parts += (topic, str(len(message)), message)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


class RememberedCalls:
    """The calls of the last minutes, stored or about to be stored, so that a repetition is recognised."""

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self._expires_at_ms: OrderedDict[str, int] = OrderedDict()
        self._under_way: dict[str, list[Done]] = {}
        self._forgotten = 0

    def load(self, calls: Iterable[tuple[str, int]]) -> None:
        """Take over the calls on disk."""
        self._expires_at_ms.update(calls)

    def clear(self) -> None:
        """Forget every call that is on disk."""
        self._expires_at_ms.clear()

    def repeats(self, call: str, done: Done, now_ms: int) -> bool:
        """Whether the call was made before: then `done` is called at once, or with the call that is under
        way.
        """
        waiting = self._under_way.get(call)
        if waiting is not None:
            waiting.append(done)
            return True
        if self._expires_at_ms.get(call, 0) <= now_ms:
            return False
        done(None)
        return True

    def begin(self, call: str, done: Done) -> None:
        """Remember a call that is on its way to the disk."""
        self._under_way[call] = [done]

    def end(self, call: str, refused: BridgeError | None, now_ms: int) -> None:
        """Answer a call that is on disk or was refused, as often as it was made."""
        waiting = self._under_way.pop(call)
        if refused is None:
            self._expires_at_ms[call] = now_ms + REMEMBERED_MS
            self._expires_at_ms.move_to_end(call)
        for done in waiting:
            done(refused)

    def take_forgotten(self) -> int:
        """The number of calls to delete from the disk before they expire, the oldest first."""
        forgotten, self._forgotten = self._forgotten, 0
        return forgotten

    def forget_old(self, now_ms: int) -> None:
        """Forget the calls whose time is over, and the oldest of more than may be remembered."""
        while self._expires_at_ms:
            call, expires_at_ms = next(iter(self._expires_at_ms.items()))
            if expires_at_ms > now_ms and len(self._expires_at_ms) <= self._limits.remembered_calls:
                return
            del self._expires_at_ms[call]
            self._forgotten += expires_at_ms > now_ms
