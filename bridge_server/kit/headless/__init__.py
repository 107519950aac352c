"""A wallet that answers by itself: `HeadlessWallet`, for tests, CI and demos. The server needs none of it."""

from bridge_server.kit.headless.rules import Rule, RuleError, read_rule
from bridge_server.kit.headless.sessions import (
    CallState,
    Failure,
    HeadlessCall,
    HeadlessSession,
    Result,
    SessionState,
)
from bridge_server.kit.headless.wallet import HeadlessWallet

__all__ = [
    "CallState",
    "Failure",
    "HeadlessCall",
    "HeadlessSession",
    "HeadlessWallet",
    "Result",
    "Rule",
    "RuleError",
    "SessionState",
    "read_rule",
]
