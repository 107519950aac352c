"""Signing in to an account's inbox with Ethereum (EIP-4361)."""

import time

from bridge_server.ethereum.sign_in_message import SignInMessage, write_sign_in_message
from bridge_server.tour.player import Player

_MINUTE_MS = 60_000


async def sign_in_message(account: Player, address: str) -> str:
    """Ask for a nonce; returns the message that the account at this address has to sign."""
    nonce = (await account.send("POST", "/inbox/nonce"))["nonce"]
    now_ms = time.time_ns() // 1_000_000
    return write_sign_in_message(
        SignInMessage(
            scheme=None,
            domain=account.url.partition("://")[2],
            address=address,
            statement="Sign in to read your notifications.",
            uri=account.url,
            chain_id=1,
            nonce=nonce,
            issued_at_ms=now_ms,
            expires_at_ms=now_ms + 10 * _MINUTE_MS,
        )
    )


async def log_in(account: Player, message: str, signature: str) -> None:
    """Log in with the signed message; later requests of the account carry the token."""
    login = {"message": message, "signature": signature}
    account.token = (await account.send("POST", "/inbox/login", login))["token"]
