"""Sign-in with Ethereum (EIP-4361): nonces, messages, tokens."""

from collections.abc import Callable

from bridge_server.ethereum.messages import personal_message_hash
from bridge_server.ethereum.recovery import SignatureError, recover_address
from bridge_server.ethereum.sign_in_message import SignInMessage
from bridge_server.inbox.errors import WrongSignerError
from bridge_server.inbox.models import NewToken, Nonce, Reader, SignInAttempt
from bridge_server.inbox.origins import POINTER, loopback_origins, origin_faults
from bridge_server.inbox.sign_in_store import SignInStore
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import Fault, InvalidInputError, NotAuthenticatedError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.secrets import digest, new_secret
from bridge_server.projects.caip10 import ethereum_account

CLOCK_SLACK_MS = 300_000
"""The accepted difference between this clock and the clock of the message's author."""

_NONCE_BYTES = 16


class SignIn:
    """Signs accounts in. A method that changes something returns when the change is on disk.

    `origins` are the configured origins of the server; with `admits_loopback` every loopback origin is one.
    A nonce is valid for `nonce_ttl_ms` and a token for `token_ttl_ms`.
    """

    def __init__(
        self,
        store: SignInStore,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        origins: frozenset[str],
        admits_loopback: bool,
        nonce_ttl_ms: int,
        token_ttl_ms: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random_bytes = random_bytes
        self._origins = origins
        self._admits_loopback = admits_loopback
        self._nonce_ttl_ms = nonce_ttl_ms
        self._token_ttl_ms = token_ttl_ms

    async def offer_nonce(self) -> Nonce:
        """Make and store a nonce of 128 random bits."""
        nonce = Nonce(self._random_bytes(_NONCE_BYTES).hex(), self._clock.now_ms() + self._nonce_ttl_ms)
        await self._store.add_nonce(nonce)
        return nonce

    async def sign_in(self, attempt: SignInAttempt, own_origins: frozenset[str]) -> NewToken:
        """Sign the account of a message in. `own_origins` are the origins of the address that it was sent to.

        Raises InvalidInputError for a message of another server or another time, and SignInRefusedError for a
        wrong signature or nonce. Only a successful sign-in uses up the nonce.
        """
        message, now_ms = attempt.message, self._clock.now_ms()
        local = loopback_origins(message) if self._admits_loopback else frozenset()
        faults = origin_faults(message, self._origins | own_origins | local)
        faults += _time_faults(message, now_ms, self._nonce_ttl_ms + CLOCK_SLACK_MS)
        if faults:
            raise InvalidInputError("The message is not valid for a sign-in here: see #/message.", faults)
        _require_signer(attempt)
        account = ethereum_account(message.chain_id, message.address)
        token = new_secret(self._random_bytes)
        expires_at_ms = now_ms + self._token_ttl_ms
        if message.expires_at_ms is not None:
            expires_at_ms = min(expires_at_ms, message.expires_at_ms)
        await self._store.sign_in(message.nonce, account, digest(token), expires_at_ms, now_ms)
        return NewToken(token, account.spelled, expires_at_ms)

    async def identify(self, token: str) -> Reader | None:
        """The account of a token; None if the token is unknown, expired or revoked."""
        return await self._store.reader(digest(token), self._clock.now_ms())

    async def confirm(self, reader: Reader) -> None:
        """Raise NotAuthenticatedError if the token has expired or was revoked since the request began."""
        if await self._store.reader(reader.digest, self._clock.now_ms()) is None:
            raise NotAuthenticatedError("The token has expired or was ended. Sign in again.")

    async def sign_out(self, reader: Reader) -> None:
        """Revoke the token and end its streams."""
        await self._store.sign_out(reader.digest)

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of the expired nonces and tokens; returns how many."""
        return await self._store.sweep(now_ms)


def _time_faults(message: SignInMessage, now_ms: int, most_age_ms: int) -> list[Fault]:
    now, faults = f"and it is {rfc3339(now_ms)} here", []
    if message.issued_at_ms > now_ms + CLOCK_SLACK_MS:
        faults.append(f"Issued At lies in the future, {now}")
    if message.issued_at_ms < now_ms - most_age_ms:
        faults.append(f"Issued At is more than {most_age_ms // 1000} s ago, {now}: write another message")
    if message.expires_at_ms is not None and message.expires_at_ms <= now_ms:
        faults.append(f"the Expiration Time has passed, {now}")
    if message.not_before_ms is not None and message.not_before_ms > now_ms:
        faults.append(f"the time of Not Before has not come, {now}")
    return [Fault(POINTER, detail) for detail in faults]


def _require_signer(attempt: SignInAttempt) -> None:
    try:
        signer = recover_address(personal_message_hash(attempt.text.encode()), attempt.signature)
    except SignatureError as error:
        detail = str(error)
        raise InvalidInputError(f"No valid signature: {detail}.", [Fault("#/signature", detail)]) from error
    if signer != attempt.message.address:
        raise WrongSignerError(signer)
