"""The lines that a person at a terminal reads, one for each event."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from bridge_server.ethereum.address import (
    HexError,
    address_of,
    checksummed,
    data_of,
    hex_of,
    quantity,
    quantity_of,
)
from bridge_server.ethereum.transactions import RawTransactionError, read_raw_transaction
from bridge_server.kit.client.payloads import USER_REJECTED
from bridge_server.kit.headless.keys import (
    AUTHENTICATE,
    MESSAGES,
    QUIET,
    RAW_TRANSACTIONS,
    SIGNING,
    TRANSACTIONS,
    TYPED_DATA,
    signed_subject,
)
from bridge_server.kit.headless.sessions import (
    CallHappening,
    CallState,
    Happening,
    HeadlessCall,
    HeadlessSession,
    PairingFailed,
    ProviderEvent,
    SessionHappening,
    SessionState,
)
from bridge_server.wallet.explaining import WALLET_CHAIN_ID, Line, explain
from bridge_server.wallet.visible_text import ether, read_call, visible

_SELECTOR_BYTES = 4
_SUBJECT_COLUMNS = 52
_LONGEST_TEXT = 40


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
        case SessionHappening("paired", session):
            parts = (session.dapp.name, session.dapp.url, session.generation, session.topic)
            return "paired   " + "  ".join(visible(part) for part in parts if part)
        case SessionHappening("session", session) if session.state is SessionState.APPROVED:
            return f"session  approved  {_accounts(session)}"
        case SessionHappening("session", session):
            is_waiting = session.state is SessionState.PROPOSED
            return f"session  {'waits for a decision' if is_waiting else 'rejected'}"
        case SessionHappening("changed", session):
            return f"session  changed  {_accounts(session)}"
        case SessionHappening(session=session) if session.ended_by == "bridge":
            return f"bridge   ended the session: {visible(session.reason)}"
        case SessionHappening(session=session):
            return f"{session.ended_by:<7}  ended the session"
        case CallHappening("call", call):
            return _call_line(call, "waits" if call.state is CallState.PENDING else "hangs")
        case CallHappening(call=call):
            is_quiet = call.method in QUIET and not call.because
            return None if is_quiet else _call_line(call, _outcome(call))
        case PairingFailed() | ProviderEvent():  # the command writes why a pairing failed
            return None


def _accounts(session: HeadlessSession) -> str:
    return f"{', '.join(map(short_address, session.accounts))}  chain {session.chain_id}"


def _call_line(call: HeadlessCall, outcome: str) -> str:
    subject = f"{visible(call.method)} {_subject(call)}".rstrip()
    spelled = call.because if call.because.startswith("--") else f"--on {call.because}"
    because = f"  ({visible(spelled)})" if call.because else ""
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
        if call.error.code == USER_REJECTED:
            return f"rejected {USER_REJECTED}"
        return f"error {call.error.code} {visible(call.error.message)}"
    result = "answered"
    if isinstance(call.result, str) and call.method in SIGNING:
        verb = "sent" if call.method == "eth_sendTransaction" else "signed"
        result = f"{verb} {visible(short_address(call.result))}"
    return f"{result}   {call.milliseconds} ms"


def short_address(address: str) -> str:
    """`0xf39F…2266`."""
    return f"{address[:6]}…{address[-4:]}"


# A call in a few words: the text of a message, the effect of a transaction.


def text_of(method: str, params: Any) -> str:
    """The call as one line for a person; a call to sign a message as the message. Raises nothing."""
    try:
        return _READERS[method](method, params) if method in _READERS else ""
    except (LookupError, TypeError, ValueError, HexError, RawTransactionError):
        return "(not understood)"


def explanation_of(method: str, params: Any, chain_id: int) -> list[Line]:
    """The labels and lines that an approval shows for the data to sign; none for other methods."""
    if method not in _READERS or method == AUTHENTICATE:
        return []
    try:
        subject = signed_subject(method, params)
        if method in TYPED_DATA and isinstance(subject, dict):
            subject = {**subject, WALLET_CHAIN_ID: quantity(chain_id)}
        return explain(method, orjson.dumps(subject))
    except (LookupError, TypeError, ValueError):
        return [("WARNING", "the parameters are not understood")]


def _message(method: str, params: Any) -> str:
    message = data_of(signed_subject(method, params))
    try:
        return message.decode()
    except UnicodeDecodeError:
        return hex_of(message)


def _typed_data(method: str, params: Any) -> str:
    subject = signed_subject(method, params)
    document = orjson.loads(subject) if isinstance(subject, str) else subject
    name = document.get("domain", {}).get("name")
    return f"{document['primaryType']} for {name}" if name else str(document["primaryType"])


def _authentication(_: str, params: Any) -> str:
    return f"sign in to {params['domain']}: {params['statement']}".removesuffix(": None")


def _transaction(_: str, params: Any) -> str:
    fields = params[0]
    data = fields.get("data") or fields.get("input") or "0x"
    return _effect(fields.get("to"), quantity_of(fields.get("value", "0x0")), data_of(data))


def _raw_transaction(_: str, params: Any) -> str:
    raw = read_raw_transaction(data_of(params[0]))
    return _effect(raw.to, raw.value, raw.data)


def _effect(to: str | None, wei: int, data: bytes) -> str:
    amount = ether(wei).partition(" (")[0]
    if to is None:
        return f"create a contract with {amount}" if wei else "create a contract"
    recipient = short_address(checksummed(address_of(to)))
    if not data:
        return f"{amount} → {recipient}"
    known = read_call(data)
    function = known.signature if known is not None else hex_of(data[:_SELECTOR_BYTES])
    return f"{function} with {amount} → {recipient}" if wei else f"{function} → {recipient}"


_READERS: dict[str, Callable[[str, Any], str]] = {
    **dict.fromkeys(MESSAGES, _message),
    **dict.fromkeys(TYPED_DATA, _typed_data),
    **dict.fromkeys(TRANSACTIONS, _transaction),
    **dict.fromkeys(RAW_TRANSACTIONS, _raw_transaction),
    AUTHENTICATE: _authentication,
}
