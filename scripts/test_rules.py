"""Finds what makes a test depend on the speed of the machine or on private names, and says what to do.

Read from the source alone: a sleep (in JavaScript, too), a look at the wall's clock, a limit below a second
(a number, a division, or written in a text), and a condition that waits for an exact number that counts up.
The tables below allow what is there for a reason, by file; a row that is not needed any more is a fault, too.
A file that uses private names of another module, or replaces attributes of the package, says in its docstring
why no public door will do. An argument names a folder of tests.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[1]

_CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"}
_DATES = {"time", "time_ns"}
"""They say what day it is, too: only an assertion that looks at them is about a duration."""

# How long somebody is patient. Pauses may be short: things happen sooner then, and no test is red for that.
_LIMIT = re.compile(r"(^|_)(seconds|timeout|patience|heartbeat)$", re.IGNORECASE)
_LIMIT_MS = re.compile(r"(^|_)(timeout|patience|heartbeat|limit|wait)_ms$", re.IGNORECASE)
_PAUSE = re.compile(
    r"pause|tick|every|interval|look|retry|keep_alive|beat_|sync|report|quiet|poll", re.IGNORECASE
)
_POSITIONS = {
    **dict.fromkeys(("timeout", "timeout_at", "settimeout", "call_later", "Stopping", "ClientTimeout"), 0),
    **dict.fromkeys(("receive", "join", "wait", "result"), 0),
    "wait_for": 1,
    "select": -1,  # of a selector the only one, of the module the fourth
}
_KEYWORDS = {
    "ClientTimeout": {"total", "connect", "sock_connect", "sock_read"},
    "timeout": {"delay"},
    "timeout_at": {"when"},
}
_LOW = r"0?\.\d*[1-9]\d*"
_IN_TEXT = re.compile(rf"([A-Za-z_-]+)[= ]{_LOW}\b(?!\.)")
_RAN_OUT = re.compile(r"Timeout|Unreachable|Cancelled")
_SLEEP_IN_JAVASCRIPT = re.compile(r"\bsleep\(|\bsetTimeout\(resolve\b|\bwaitForTimeout\(")
_COUNTERS = {"requests", "received", "sent", "sends", "attempts", "events", "lines", "logs", "tokens_issued"}

_NO_SIGN = "the wallet is away: clients give no sign that what they have sent has arrived"
SLEEPS = {
    "console/browser/console.spec.js": "a slow network: the script comes after all others",
    "node/v07_clients.js": "the pause between two looks",
    "node/v07_run.js": "the patience of a scenario",
    "node/v1_parties.js": "the pause between two looks; and between calls, whose ids are milliseconds",
    "node/v2_full_topic.js": "the patience of a client that is to join or not",
    "node/v2_restart.js": _NO_SIGN,
    "node/v2_scenes.js": f"{_NO_SIGN}; and an expiry is in whole seconds",
    "support/waiting.py": "the pause between two looks",
    "support/loads.py": "the pace of a load: its answers are checked, not its times",
    "support/postgres_cluster.py": "a watcher that outlives the tests, where the system has no pidfd",
    "pubsub/test_v2_kills.py": "the pace at which a load is looked at until it has done enough",
    "storage/test_data_directory.py": "the moment of a kill: as soon as a file is there",
}
CLOCKS = {
    "storage/test_data_directory.py": "the patience of a loop that looks more often than `until` does",
    "support/waiting.py": "the patience of `until`",
}
LIMITS = {
    "client/fake_relay.py": "what clients leave open at the end is to be given up",
    "client/test_failing_bridges.py": "no attempt is answered: each is to run out",
    "client/test_failing_relays.py": "nothing listens there: the patience is to run out",
    "headless/test_control_api.py": "nothing listens there: the patience is to run out",
    "outbox/running.py": "requests that hang at the end are to be given up",
    "outbox/test_fairness.py": "requests that hang are to be given up; others are made again",
    "plugin/test_runs.py": "no wallet answers: the patience is to run out",
    "pubsub/test_v2_connecting.py": "the file stays locked until the patience has run out",
    "pubsub/test_v1_waiting.py": "the file stays locked until the patience has run out",
    "storage/conftest.py": "the file stays locked until the wait has run out",
    "storage/postgres/test_failing_connections.py": "the database stays away until the wait has run out",
    "storage/postgres/test_processes.py": "a lease that is not in use is to run out",
    "support/proxies.py": "what is under way at the end is to be given up",
    "test_scripts.py": "texts that this lint is to find fault with",
    "wallet/rig.py": "what is under way at the end is to be given up",
    "web/test_bodies.py": "the body never comes: the wait for it is to run out",
    "web/test_connections.py": "connections say nothing: their time is to run out",
    "web/test_leases.py": "a lease that is not in use is to run out",
    "web/test_unread.py": "the client reads nothing: the patience with it is to run out",
}
PASSING: dict[str, str] = {}
_WHITE_BOX = "White-box: "

_TABLES = {
    "sleep": (SLEEPS, "sleeps: wait for a condition (tests.support.waiting), an event, or move the time"),
    "clock": (CLOCKS, "looks at the wall's clock: no test asserts a duration, and `until` has the patience"),
    "limit": (
        LIMITS,
        "sets a limit below a second: move time (`pass_time`), or give it 60 seconds",
    ),
    "passing": (
        PASSING,
        "waits for an exact number that counts up, and may be passed by: wait for `>=`",
    ),
    "private": (
        {},
        f"uses what is private: go through a public door, or say why in the docstring, after {_WHITE_BOX!r}",
    ),
}


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that depends on the machine's speed."""

    rule: str
    file: str
    line: int


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    return None


def _is_low_text(text: str) -> bool:
    """Whether it is below a second, as in an environment, or as settings of PostgreSQL are spelled."""
    return re.fullmatch(rf"{_LOW}|[1-9]\d{{0,2}} ?ms", text) is not None


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return node.id if isinstance(node, ast.Name) else ""


def _is_limit(name: str, pattern: re.Pattern[str] = _LIMIT) -> bool:
    return pattern.search(name) is not None and _PAUSE.search(name) is None


class _Reader(ast.NodeVisitor):
    """Collects the faults of one module."""

    def __init__(self, file: str, module: ast.Module) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self._functions = {node.name: node for node in ast.walk(module) if isinstance(node, _FUNCTIONS)}
        self._numbers: dict[str, float] = {}
        self.visit(module)

    def _add(self, rule: str, node: ast.expr | ast.stmt) -> None:
        self.faults.append(Fault(rule, self.file, node.lineno))

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        """Pass what is expected to run out: a block of `pytest.raises` with an error of that kind."""
        for item in node.items:
            call = item.context_expr
            is_expected = isinstance(call, ast.Call) and _name(call.func) == "raises"
            if is_expected and isinstance(call, ast.Call) and _RAN_OUT.search(ast.unparse(call.args[0])):
                return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """A sleep, a clock, a limit that is an argument, or a condition that is waited for."""
        name, arguments = _name(node.func), node.args
        if name == "sleep" and not (arguments and _number(arguments[0]) == 0):
            self._add("sleep", node)
        if name in _CLOCKS:
            self._add("clock", node)
        named = [(each.arg, each.value) for each in node.keywords if each.arg]
        if name in ("setattr", "setitem", "setenv") and len(arguments) > 1:
            named.append((_name(arguments[-2]), arguments[-1]))
        limits = arguments[_POSITIONS[name] :][:1] if name in _POSITIONS else []
        limits += [value for each, value in named if each in _KEYWORDS.get(name, ())]
        if any(map(self._is_low, limits)) or any(self._is_low_limit(*each) for each in named):
            self._add("sleep" if name == "wait" else "limit", node)
        if name in ("eventually", "soon", "until") and arguments and self._may_pass_by(arguments[0]):
            self._add("passing", node)
        self.generic_visit(node)

    def _value(self, node: ast.expr) -> float | None:
        """A number, the one that a name was last given, or one by another; None if it is not known."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            left, right = self._value(node.left), self._value(node.right)
            return left / right if left is not None and right else None
        return self._numbers.get(node.id) if isinstance(node, ast.Name) else _number(node)

    def _is_low(self, node: ast.expr, least: float = 1) -> bool:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return _is_low_text(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # a moment: now, and so long
            return self._is_low(node.right, least)
        value = self._value(node)
        return value is not None and 0 < value < least

    def _is_low_limit(self, name: str, value: ast.expr) -> bool:
        if _is_limit(name, _LIMIT_MS):
            return self._is_low(value, 1_000)
        return _is_limit(name) and self._is_low(value)

    def _may_pass_by(self, condition: ast.expr) -> bool:
        named = self._functions.get(_name(condition))
        for node in ast.walk(named or condition):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
                counted = node.left
                if isinstance(counted, ast.Call) and _name(counted.func) == "len":
                    counted = counted.args[0]
                if _name(counted) in _COUNTERS and _number(node.comparators[0]) != 0:
                    return True
        return False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A name means what was defined last before it is used: a function, or a number of this one."""
        self._functions[node.name] = node
        outside = dict(self._numbers)
        self.generic_visit(node)
        self._numbers = outside

    def visit_arguments(self, node: ast.arguments) -> None:
        """A limit that is the default of a parameter."""
        named = [*node.posonlyargs, *node.args]
        defaults = zip(reversed(named), reversed(node.defaults), strict=False)
        for parameter, value in (*defaults, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
            if value and self._is_low_limit(parameter.arg, value):
                self._add("limit", value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """A limit that has a name."""
        names = [_name(target) for target in node.targets]
        if any(self._is_low_limit(name, node.value) for name in names):
            self._add("limit", node)
        self._numbers |= dict.fromkeys(names, self._value(node.value) or 0)  # 0 for what is not known
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """A limit that is a field, or has a name and a type."""
        if node.value and self._is_low_limit(_name(node.target), node.value):
            self._add("limit", node)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """A limit among settings."""
        if any(key and self._is_low_limit(_name(key), node.values[at]) for at, key in enumerate(node.keys)):
            self._add("limit", node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A limit that is written in a text: an environment, or an option of a command."""
        found = _IN_TEXT.findall(node.value) if isinstance(node.value, str) else []
        if any(_is_limit(name.replace("-", "_")) for name in found):
            self._add("limit", node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """A look at the clock to hold it against something."""
        calls = [each for each in ast.walk(node.test) if isinstance(each, ast.Call)]
        for each in calls:
            if _name(each.func) in _DATES:
                self._add("clock", each)
        self.generic_visit(node)

    visit_AsyncWith = visit_With  # noqa: N815 - ast's own name
    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's own name


_PRIVATE = re.compile(r"(?:.*\.)?_[A-Za-z]\w*")
_OF_PYTHON = {"os", "threading", "atexit"}
_NAMEDTUPLES = {"_replace", "_asdict", "_fields"}


def _private_names(module: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """The places that read or replace a private name which the module does not define itself, or that replace
    an attribute of the package.
    """
    nodes = list(ast.walk(module))
    own = {node.name for node in nodes if isinstance(node, _FUNCTIONS)}
    package = {"bridge_server"}
    for node in nodes:
        if isinstance(node, ast.Attribute) and _name(node.value) in ("self", "cls", "other"):
            own.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bridge_server"):
            package |= {each.asname or each.name for each in node.names}
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Attribute) and _name(node.value) not in _OF_PYTHON:
            names = [] if node.attr in own | _NAMEDTUPLES else [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [each.name for each in node.names if (node.module or "").startswith("bridge_server")]
        elif isinstance(node, ast.Call) and _name(node.func) in ("setattr", "setitem"):
            names = [_name(each) for each in node.args if isinstance(each, ast.Constant)]
            if ast.unparse(node.args[0]).strip("'").split(".")[0] in package:
                names.append("_replaced")
        if isinstance(node, ast.expr | ast.stmt) and any(map(_PRIVATE.fullmatch, names)):
            yield node


def _faults(tests: Path) -> Iterator[Fault]:
    for file in sorted(tests.rglob("*.py")):
        name, module = file.relative_to(tests).as_posix(), ast.parse(file.read_text("utf-8"))
        yield from _Reader(name, module).faults
        if _WHITE_BOX not in (ast.get_docstring(module) or ""):
            yield from (Fault("private", name, node.lineno) for node in _private_names(module))
    for file in sorted([*tests.glob("*.js"), *tests.glob("*/*.js"), *tests.glob("*/browser/*.js")]):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if _SLEEP_IN_JAVASCRIPT.search(line):
                yield Fault("sleep", file.relative_to(tests).as_posix(), number)


def main(arguments: list[str]) -> int:
    """Print each fault with its place; 1 if there is any."""
    tests = Path(arguments[0]) if arguments else _ROOT / "tests"
    said, needed = [], set()
    for fault in _faults(tests):
        table, advice = _TABLES[fault.rule]
        needed.add((fault.rule, fault.file))
        if fault.file not in table:
            said.append(f"{tests / fault.file}:{fault.line}: {advice}")
    for rule, (table, _) in _TABLES.items():
        unneeded = [file for file in table if (rule, file) not in needed and not arguments]
        said += [f"{__file__}: {file} needs its row in the table of {rule} no more" for file in unneeded]
    print(*said, sep="\n", end="\n" if said else "")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
