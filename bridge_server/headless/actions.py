"""The actions of rules, and their spelling."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import orjson

USER_REJECTED = 4001
REJECTION = "The user rejected the request."

_FAILURE = "The wallet answered with an error."
_SPELLINGS = 'approve, reject, reject:4001:"text", hang, ask, delay:2s, error:-32000:"text" or answer:JSON'
_TIMES = re.compile(r"(.*?)\*([1-9][0-9]{0,5})", re.DOTALL)
_CODE = re.compile(r"-?[0-9]{1,9}")
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m)")
_SECONDS_OF_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0}


class RuleError(ValueError):
    """The text is no rule; the message says what is wrong and how a rule is spelled."""


@dataclass(frozen=True, slots=True)
class Approve:
    """Sign, send, or give what the wallet knows."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Wait until the test program decides."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error; the defaults are a user's no (EIP-1193)."""

    code: int = USER_REJECTED
    message: str = REJECTION


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with this result, whatever was asked. Raises TypeError for a result that JSON cannot say."""

    result: Any = field(default=None)

    def __post_init__(self) -> None:
        orjson.dumps(self.result)


Action: TypeAlias = Approve | Hang | Ask | Refuse | Answer
Policy: TypeAlias = Literal["approve", "reject", "ask", "hang"]

POLICIES: tuple[Policy, ...] = get_args(Policy)
PLAIN_ACTIONS: dict[str, Action] = {"approve": Approve(), "reject": Refuse(), "ask": Ask(), "hang": Hang()}
"""The actions that are one word, which are also the policies."""


@dataclass(frozen=True, slots=True)
class ReadAction:
    """An action as it was spelled. Without an action the rule only waits, and a later rule decides."""

    action: Action | None
    delay_seconds: float = 0.0
    times: int | None = None


def read_action(text: str) -> ReadAction:
    """Read the text behind the `=` of a rule. Raises RuleError."""
    counted = _TIMES.fullmatch(text)
    spelled, times = (counted[1], int(counted[2])) if counted else (text, None)
    verb, colon, rest = spelled.partition(":")
    if verb in PLAIN_ACTIONS and not colon:
        return ReadAction(PLAIN_ACTIONS[verb], times=times)
    match verb if colon else "":
        case "delay":
            return ReadAction(None, read_duration(rest), times)
        case "answer":
            return ReadAction(Answer(_json(rest)), times=times)
        case "reject":
            return ReadAction(_refusal(rest, REJECTION), times=times)
        case "error":
            return ReadAction(_refusal(rest, _FAILURE), times=times)
        case _:
            raise RuleError(f"{text!r} is no action: write {_SPELLINGS}, each perhaps with *3 behind it")


def read_duration(text: str) -> float:
    """Seconds, from a text such as `2s`, `0.5s`, `250ms` or `1m`. Raises RuleError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise RuleError(f"{text!r} is no duration: write 2s, 0.5s, 250ms or 1m")
    return float(found[1]) * _SECONDS_OF_UNIT[found[2]]


def _refusal(text: str, usual_message: str) -> Refuse:
    code, colon, message = text.partition(":")
    if not _CODE.fullmatch(code):
        raise RuleError(f'{code!r} is no error code: write a whole number, as in reject:4001:"text"')
    return Refuse(int(code), _message(message) if colon else usual_message)


def _message(text: str) -> str:
    """A message, which may be spelled as a JSON string."""
    if not text.startswith('"'):
        return text
    value = _json(text)
    return value if isinstance(value, str) else text


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RuleError(
            f'{text!r} is not JSON ({error}): write a string in quotes, as in answer:"0x"'
        ) from error
