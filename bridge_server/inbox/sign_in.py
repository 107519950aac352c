"""Sign-in with Ethereum (EIP-4361): nonces, messages, tokens."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bridge_server.ethereum.sign_in_message import SignInMessage
from bridge_server.ethereum.signing_key import SignatureError, personal_message_hash, recover_address
from bridge_server.inbox.models import NewToken, Nonce, NonceRefusedError, Reader, SignedOut, WrongSignerError
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import Fault, InvalidInputError, NotAuthenticatedError
from bridge_server.kernel.fields import origin_of_url
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.secrets import digest, new_secret
from bridge_server.projects.caip10 import Account, ethereum_account
from bridge_server.projects.subscriptions import account_number
from bridge_server.storage import database as sql
from bridge_server.web.routes import is_loopback_origin

_INSERT_NONCE = "INSERT INTO sign_in_nonces (nonce, expires_at_ms) VALUES (?, ?)"
_USE_NONCE = "DELETE FROM sign_in_nonces WHERE nonce = ? AND expires_at_ms > ?"
_SIGN_IN = "INSERT INTO inbox_tokens (digest, account, account_id, expires_at_ms) VALUES (?, ?, ?, ?)"
_READER = """
SELECT inbox_tokens.account, accounts.account_key, inbox_tokens.account_id, inbox_tokens.expires_at_ms
FROM inbox_tokens JOIN accounts ON accounts.id = inbox_tokens.account
WHERE inbox_tokens.digest = ? AND inbox_tokens.expires_at_ms > ?
"""
_SIGN_OUT = "DELETE FROM inbox_tokens WHERE digest = ?"
SWEEPS = tuple(
    f"""
    DELETE FROM {table} WHERE {key} IN
        (SELECT {key} FROM {table} WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
    """  # noqa: S608 - the names are below
    for table, key in (("sign_in_nonces", "nonce"), ("inbox_tokens", "digest"))
)
_SWEEP_SLICE = 500

_POINTER = "#/message"

_SCHEMES = ("https", "http")

CLOCK_SLACK_MS = 300_000  # the accepted difference between this clock and the message's author's

_NONCE_BYTES = 16


class SignInStore:
    """Durable nonces and tokens. Rows that have expired at `now_ms` are not found."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    @sql.adding_transaction
    def add_nonce(self, nonce: Nonce) -> sql.Transaction[None]:
        """Store a nonce."""
        yield sql.Statement(_INSERT_NONCE, (nonce.text, nonce.expires_at_ms))

    @sql.adding_transaction
    def sign_in(
        self, nonce: str, account: Account, digest: bytes, expires_at_ms: int, now_ms: int
    ) -> sql.Transaction[None]:
        """Use the nonce up and store the token's digest, or do neither. Raises NonceRefusedError."""
        ((used,),) = yield sql.Statement(_USE_NONCE, (nonce, now_ms))
        if not used:
            raise NonceRefusedError
        number = yield from account_number(account.key)
        yield sql.Statement(_SIGN_IN, (digest, number, account.spelled, expires_at_ms))

    async def reader(self, digest: bytes, now_ms: int) -> Reader | None:
        """The account whose token has this digest, or None."""
        rows = await self.database.read(_READER, (digest, now_ms))
        if not rows:
            return None
        number, key, spelled, expires_at_ms = rows[0]
        return Reader(number, Account(key, spelled), digest, expires_at_ms)

    @sql.transaction
    def sign_out(self, digest: bytes) -> sql.Transaction[None]:
        """Remove the token and end its streams. Publishes `SignedOut`."""
        yield sql.Statement(_SIGN_OUT, (digest,))
        yield SignedOut(digest.hex())

    @sql.transaction(turns=sql.sweeping("sign-ins"))
    def sweep(self, now_ms: int) -> sql.Transaction[int]:
        """Delete a slice of the expired rows; returns how many."""
        for statement in SWEEPS:
            deleted = sql.scalar(int, (yield sql.Statement(statement, (now_ms, _SWEEP_SLICE))))
            if deleted:
                return deleted
        return 0


class SignInLifetimes(NamedTuple):
    """How long a nonce and a token are valid."""

    nonce_ms: int
    token_ms: int


class SignIn:
    """Signs accounts in. `origins` are the server's; with `admits_loopback` every loopback origin is one."""

    def __init__(
        self,
        store: SignInStore,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        origins: frozenset[str],
        admits_loopback: bool,
        lifetimes: SignInLifetimes,
    ) -> None:
        self.store, self._clock, self._random_bytes = store, clock, random_bytes
        self._origins, self._admits_loopback, self._lifetimes = origins, admits_loopback, lifetimes

    async def offer_nonce(self) -> Nonce:
        """Make and store a nonce of 128 random bits."""
        nonce = Nonce(self._random_bytes(_NONCE_BYTES).hex(), self._clock.now_ms() + self._lifetimes.nonce_ms)
        await self.store.add_nonce(nonce)
        return nonce

    async def sign_in(
        self, text: str, message: SignInMessage, signature: bytes, own_origins: frozenset[str]
    ) -> NewToken:
        """Sign the account of a message in. `own_origins` are the origins of the address that it was sent to.
        Raises InvalidInputError for a message of another server or another time, and SignInRefusedError for a
        wrong signature or nonce. Only a successful sign-in uses up the nonce.
        """
        now_ms = self._clock.now_ms()
        local: frozenset[str] = frozenset()
        if self._admits_loopback:  # as far as the message's are of pages on the server's own machine
            urls = (*(f"{scheme}://{message.domain}" for scheme in _SCHEMES), message.uri)
            local = frozenset(filter(is_loopback_origin, filter(None, map(origin_of_url, urls))))
        faults = [*_origin_faults(message, self._origins | own_origins | local)]
        faults += _time_faults(message, now_ms, self._lifetimes.nonce_ms + CLOCK_SLACK_MS)
        if faults:
            raise InvalidInputError("The message is not valid for a sign-in here: see #/message.", faults)
        try:
            signer = recover_address(personal_message_hash(text.encode()), signature)
        except SignatureError as error:
            fault = Fault("#/signature", str(error))
            raise InvalidInputError(f"No valid signature: {error}.", [fault]) from error
        if signer != message.address:
            raise WrongSignerError(signer)
        account = ethereum_account(message.chain_id, message.address)
        token = new_secret(self._random_bytes)
        expires_at_ms = now_ms + self._lifetimes.token_ms
        if message.expires_at_ms is not None:
            expires_at_ms = min(expires_at_ms, message.expires_at_ms)
        await self.store.sign_in(message.nonce, account, digest(token), expires_at_ms, now_ms)
        return NewToken(token, account.spelled, expires_at_ms)

    async def identify(self, token: str) -> Reader | None:
        """The account of a token; None if the token is unknown, expired or revoked."""
        return await self.store.reader(digest(token), self._clock.now_ms())

    async def confirm(self, reader: Reader) -> None:
        """Raise NotAuthenticatedError if the token has expired or was revoked since the request began."""
        if await self.store.reader(reader.digest, self._clock.now_ms()) is None:
            raise NotAuthenticatedError("The token has expired or was ended. Sign in again.")


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
    return [Fault(_POINTER, detail) for detail in faults]


def _origin_faults(message: SignInMessage, origins: frozenset[str]) -> Iterator[Fault]:
    """The faults of a message's domain, scheme and URI, if the server accepts sign-ins for these origins."""
    named = [origin for scheme in _SCHEMES if (origin := origin_of_url(f"{scheme}://{message.domain}"))]
    allowed = [origin for origin in named if origin in origins]
    if not allowed:
        known = _listed(origin.partition("://")[2] for origin in origins)
        said = f"the domain must be one that speaks for this server ({known}), and is {message.domain}"
        yield Fault(_POINTER, said)
    elif message.scheme is not None and origin_of_url(f"{message.scheme}://{message.domain}") not in allowed:
        said = f"the scheme before the domain must be that of {_listed(allowed)}, and is {message.scheme}"
        yield Fault(_POINTER, said)
    if origin_of_url(message.uri) not in origins:
        said = f"the URI must begin with an origin that speaks for this server: {_listed(origins)}"
        yield Fault(_POINTER, said)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts))) or "none: set public_url or inbox_origins"
