"""Rules for the answers to calls, by method and dapp. The first rule that matches decides."""

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import orjson

from bridge_server.kit.client.payloads import REJECTION
from bridge_server.kit.headless.sessions import (
    PLAIN_ACTIONS,
    POLICIES,
    Action,
    Answer,
    Approve,
    Ask,
    Hang,
    HeadlessCall,
    Policy,
    Refuse,
)

EVERY_METHOD = "*"

_RULE = re.compile(r"([A-Za-z0-9_]{1,100}|\*)(?:@([^=]{1,500}))?=(.+)", re.DOTALL)
_SPELLINGS = 'approve, reject, reject:4001:"text", hang, ask, delay:2s, error:-32000:"text" or answer:JSON'
_USUAL_MESSAGES = {"reject": REJECTION, "error": "The wallet answered with an error."}
_TIMES = re.compile(r"(.*?)\*([1-9][0-9]{0,5})", re.DOTALL)
_CODE = re.compile(r"-?[0-9]{1,9}")
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m)")
_SECONDS_OF_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0}
_MEMBERS = ("on", "policy", "session")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Without an action it only delays, and a later rule or the policy decides."""

    method: str
    origin: str | None = None
    action: Action | None = None
    delay_seconds: float = 0.0
    times: int | None = None
    """The number of calls that it decides; None: any number."""
    when: Callable[[HeadlessCall], bool] | None = None
    text: str = ""
    """The spelling of `--on`; empty for a rule that was made in Python."""

    def matches(self, call: HeadlessCall) -> bool:
        """Whether the rule is for this call."""
        return (
            self.method in (EVERY_METHOD, call.method)
            and (self.origin is None or is_origin(self.origin, call.origin))
            and (self.when is None or self.when(call))
        )


class RuleError(ValueError):
    """The text is no rule; the message says what is wrong and how a rule is spelled."""


def read_rule(text: str) -> Rule:
    """Read `METHOD[@ORIGIN]=ACTION`. Raises RuleError."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise RuleError(f"{text!r} is no rule: write METHOD[@ORIGIN]=ACTION, as in personal_sign=reject")
    method, origin, spelled = found.groups()
    counted = _TIMES.fullmatch(spelled)
    one, times = (counted[1], int(counted[2])) if counted else (spelled, None)
    verb, colon, rest = one.partition(":")
    action, delay_seconds = None, 0.0
    try:
        match verb if colon else "":
            case "" if one in PLAIN_ACTIONS:
                action = PLAIN_ACTIONS[one]
            case "delay":
                delay_seconds = _seconds(rest)
            case "answer":
                action = Answer(_json(rest))
            case "reject" | "error":
                action = _refusal(rest, _USUAL_MESSAGES[verb])
            case _:
                hint = f"write {_SPELLINGS}, each perhaps with *3 behind it"
                raise RuleError(f"{spelled!r} is no action: {hint}")
    except RuleError as error:
        raise RuleError(f"{text!r} cannot be used: {error}") from error
    return Rule(method, origin, action, delay_seconds, times, text=text.strip())


def _seconds(text: str) -> float:
    """Seconds, from a text such as `2s`, `0.5s`, `250ms` or `1m`. Raises RuleError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise RuleError(f"{text!r} is no duration: write 2s, 0.5s, 250ms or 1m")
    return float(found[1]) * _SECONDS_OF_UNIT[found[2]]


def _refusal(text: str, usual_message: str) -> Refuse:
    code, colon, message = text.partition(":")
    if not _CODE.fullmatch(code):
        raise RuleError(f'{code!r} is no error code: write a whole number, as in reject:4001:"text"')
    if message.startswith('"'):  # a JSON string
        value = _json(message)
        message = value if isinstance(value, str) else message
    return Refuse(int(code), message if colon else usual_message)


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        hint = 'write a string in quotes, as in answer:"0x"'
        raise RuleError(f"{text!r} is not JSON ({error}): {hint}") from error


def is_origin(wanted: str, origin: str) -> bool:
    """Whether a rule's origin is a dapp's: its page's origin or host, or its name if it has no page."""
    wanted = wanted.rstrip("/")
    return wanted == origin or ("://" in origin and wanted == origin.partition("://")[2])


@dataclass(slots=True)
class _Turn:
    """A rule, and how many calls it may still decide."""

    rule: Rule
    left: int | None

    def takes(self, call: HeadlessCall) -> bool:
        if self.left == 0 or not self.rule.matches(call):
            return False
        if self.left is not None:
            self.left -= 1
        return True


class RuleList:
    """The rules in their order, and the rules of the start, to which `reset` returns."""

    def __init__(self, first: Iterable[Rule] = ()) -> None:
        self._first = tuple(first)
        self._turns: list[_Turn] = []
        self.reset()

    def __iter__(self) -> Any:
        return iter([turn.rule for turn in self._turns])

    def reset(self) -> None:
        """Return to the rules of the start, with their full counts."""
        self.replace(self._first)

    def replace(self, rules: Sequence[Rule]) -> None:
        """Replace all rules by these."""
        self._turns = [_Turn(rule, rule.times) for rule in rules]

    def put(self, rule: Rule, former: Rule | None = None) -> None:
        """Add a rule at the end, or put it in the place of a former one."""
        for turn in self._turns:
            if former is not None and turn.rule is former:
                turn.rule, turn.left = rule, rule.times
                return
        self._turns.append(_Turn(rule, rule.times))

    def decide(self, call: HeadlessCall) -> tuple[Action | None, float, Rule | None]:
        """The action of the first rule that decides the call, the seconds to wait before it, and the rule.

        Rules that only delay add up until then. Without an action the policy decides.
        """
        delay_seconds, deciding = 0.0, None
        for turn in self._turns:
            if turn.takes(call):
                delay_seconds += turn.rule.delay_seconds
                deciding = turn.rule
                if deciding.action is not None:
                    return deciding.action, delay_seconds, deciding
        return None, delay_seconds, deciding


class RuleInMaking:
    """A rule made in Python: `wallet.on("eth_sendTransaction").delay(0.5).reject().times(2)`.

    It is in force from the first action or delay on; each further method changes it.
    """

    def __init__(self, rules: RuleList, method: str, origin: str | None) -> None:
        self._rules = rules
        self._rule = Rule(method, origin)
        self._is_in_force = False

    def when(self, matches: Callable[[HeadlessCall], bool]) -> Self:
        """Decide only calls for which the function returns True."""
        return self._with(replace(self._rule, when=matches), begins=False)

    def times(self, count: int) -> Self:
        """Decide so many calls; later ones are for the next rule."""
        return self._with(replace(self._rule, times=count), begins=False)

    def delay(self, seconds: float) -> Self:
        """Wait so long before the rule's action; without one, a later rule or the policy decides."""
        return self._with(replace(self._rule, delay_seconds=seconds))

    def approve(self) -> Self:
        """Sign, send, or give what the wallet knows."""
        return self._with(replace(self._rule, action=Approve()))

    def reject(self, code: int = Refuse().code, message: str = Refuse().message) -> Self:
        """Answer with an error, by default the user's rejection."""
        return self._with(replace(self._rule, action=Refuse(code, message)))

    def error(self, code: int, message: str) -> Self:
        """Answer with an error."""
        return self._with(replace(self._rule, action=Refuse(code, message)))

    def answer(self, result: Any) -> Self:
        """Answer with this result, whatever was asked."""
        return self._with(replace(self._rule, action=Answer(result)))

    def hang(self) -> Self:
        """Never answer."""
        return self._with(replace(self._rule, action=Hang()))

    def ask(self) -> Self:
        """Leave it to `next_call` and the call's own `approve`, `reject` and `answer`."""
        return self._with(replace(self._rule, action=Ask()))

    def _with(self, rule: Rule, *, begins: bool = True) -> Self:
        if begins or self._is_in_force:
            self._rules.put(rule, self._rule if self._is_in_force else None)
            self._is_in_force = True
        self._rule = rule
        return self


# A file of rules in TOML: the same words as on the command line.
#
# session = "approve"
# policy = "reject"
#
# [on]
# personal_sign = ["approve*3", "reject"]
# "eth_sendTransaction@https://dapp.example" = "hang"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of a file in their order, and its policies if it has them."""

    rules: tuple[Rule, ...]
    session: Policy | None
    policy: Policy | None


def read_rule_file(content: bytes) -> RuleFile:
    """Read the file. Raises RuleError."""
    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"it is not TOML: {error}") from error
    unknown = sorted(document.keys() - set(_MEMBERS))
    if unknown:
        raise RuleError(f"it has {', '.join(unknown)}, which is not known: write {', '.join(_MEMBERS)}")
    rules = tuple(map(read_rule, _texts(document.get("on", []))))
    return RuleFile(rules, _policy(document, "session"), _policy(document, "policy"))


def _texts(on: Any) -> list[str]:
    """The texts of rules: a list of them, or a table of methods with one action or several."""
    if isinstance(on, dict):
        actions = {method: each if isinstance(each, list) else [each] for method, each in on.items()}
        return [f"{method}={action}" for method, each in actions.items() for action in each]
    if isinstance(on, list):
        return [str(text) for text in on]
    raise RuleError('on must be a table such as personal_sign = "reject", or a list of rules')


def _policy(document: dict[str, Any], name: str) -> Policy | None:
    wanted = document.get(name)
    if wanted is None:
        return None
    for policy in POLICIES:
        if policy == wanted:
            return policy
    raise RuleError(f"{name} is {wanted!r}: write {', '.join(POLICIES)}")
