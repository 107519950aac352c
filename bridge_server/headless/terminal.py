"""The lines that a person at a terminal reads, one for each event."""

from collections.abc import Callable
from datetime import datetime

from bridge_server.headless.calls import CallState, HeadlessCall
from bridge_server.headless.feed import (
    CallCame,
    CallSettled,
    Happening,
    Paired,
    PairingFailed,
    ProviderEvent,
    SessionChanged,
    SessionDecided,
    SessionEnded,
)
from bridge_server.headless.methods import MESSAGES, QUIET, SIGNING
from bridge_server.headless.sessions import HeadlessSession, SessionState
from bridge_server.headless.texts import short_address
from bridge_server.wallet.explaining.visible_text import visible

_SUBJECT_COLUMNS = 52
_LONGEST_TEXT = 40
_REJECTED = 4001


class TerminalLines:
    """Writes a line for each event that a person wants to see."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], datetime] = datetime.now) -> None:
        self._write = write
        self._now = now

    def watch(self, happening: Happening) -> None:
        """Write the line of an event; calls that need nobody's consent have none, unless a rule decided."""
        line = line_of(happening)
        if line is not None:
            self._write(f"{self._now():%H:%M:%S}  {line}")


def line_of(happening: Happening) -> str | None:
    """The line without its time."""
    match happening:
        case Paired(session):
            parts = (session.dapp.name, session.dapp.url, session.generation, session.topic)
            return "paired   " + "  ".join(visible(part) for part in parts if part)
        case SessionDecided(session):
            return f"session  {_decision(session)}"
        case SessionChanged(session):
            return f"session  changed  {_accounts(session)}  chain {session.chain_id}"
        case SessionEnded(session):
            return _end(session)
        case CallCame(call):
            return _call_line(call, "waits" if call.state is CallState.PENDING else "hangs")
        case CallSettled(call):
            is_quiet = call.method in QUIET and not call.because
            return None if is_quiet else _call_line(call, _outcome(call))
        case PairingFailed() | ProviderEvent():  # the command writes why a pairing failed
            return None


def _decision(session: HeadlessSession) -> str:
    match session.state:
        case SessionState.APPROVED:
            return f"approved  {_accounts(session)}  chain {session.chain_id}"
        case SessionState.PROPOSED:
            return "waits for a decision"
        case _:
            return "rejected"


def _accounts(session: HeadlessSession) -> str:
    return ", ".join(map(short_address, session.accounts))


def _end(session: HeadlessSession) -> str:
    if session.ended_by == "bridge":
        return f"bridge   ended the session: {visible(session.reason)}"
    return f"{session.ended_by:<7}  ended the session"


def _call_line(call: HeadlessCall, outcome: str) -> str:
    subject = f"{visible(call.method)} {_subject(call)}".rstrip()
    because = f"  ({_spelled(call.because)})" if call.because else ""
    return f"call     {subject:<{_SUBJECT_COLUMNS}}{outcome}{because}"


def _subject(call: HeadlessCall) -> str:
    text = visible(call.text)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[: _LONGEST_TEXT - 1]}…"
    return f'"{text}"' if call.method in MESSAGES else text


def _outcome(call: HeadlessCall) -> str:
    if call.state is CallState.LOST:
        return "was not answered: the session is over"
    if call.error is not None:
        if call.error.code == _REJECTED:
            return f"rejected {_REJECTED}"
        return f"error {call.error.code} {visible(call.error.message)}"
    return f"{_result(call)}   {call.milliseconds} ms"


def _result(call: HeadlessCall) -> str:
    if not isinstance(call.result, str) or call.method not in SIGNING:
        return "answered"
    verb = "sent" if call.method == "eth_sendTransaction" else "signed"
    return f"{verb} {visible(short_address(call.result))}"


def _spelled(because: str) -> str:
    return visible(because if because.startswith("--") else f"--on {because}")
