"""A wallet that answers by itself: `HeadlessWallet`, for tests, CI and demos. The server needs none of it."""

from bridge_server.headless.actions import RuleError
from bridge_server.headless.calls import CallState, Failure, HeadlessCall, Result
from bridge_server.headless.rules import Rule, read_rule
from bridge_server.headless.sessions import HeadlessSession, SessionState
from bridge_server.headless.wallet import HeadlessWallet

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
