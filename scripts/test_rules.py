"""Finds what makes a test depend on how fast the machine is: sleeps, wall time, hurried timeouts, passing states."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

_TIMES = {"monotonic", "perf_counter", "process_time", "monotonic_ns", "perf_counter_ns"}
_LIMIT = re.compile(r"(^|_)(seconds|timeout|patience|heartbeat|within|delay)$", re.IGNORECASE)
_WAITERS = {"wait_for": 1, "timeout": 0, "settimeout": 0, "call_later": 0, "Stopping": 0}


def number(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    return None


def name(node):
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def low(node):
    value = number(node)
    return value is not None and 0 < value < 1


class V(ast.NodeVisitor):
    def __init__(self, path):
        self.path, self.found, self.stack = path, [], []

    def f(self, rule, node):
        self.found.append((rule, f"{self.path}:{node.lineno}", ".".join(self.stack) or "-", ast.unparse(node)[:110]))

    def visit_FunctionDef(self, node):
        self.stack.append(node.name)
        self.generic_visit(node)
        self.stack.pop()

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Call(self, node):
        n = name(node.func)
        if n == "sleep" and not (node.args and number(node.args[0]) == 0):
            self.f("sleep", node)
        if n in _TIMES:
            self.f("wall", node)
        for k in node.keywords:
            if k.arg and _LIMIT.search(k.arg) and low(k.value):
                self.f("low", node)
        if n in _WAITERS and len(node.args) > _WAITERS[n] and low(node.args[_WAITERS[n]]):
            self.f("low", node)
        if n == "setattr" and len(node.args) >= 2 and low(node.args[-1]):
            self.f("low", node)
        if n == "eventually" and node.args:
            self.ev(node)
        self.generic_visit(node)

    def ev(self, node):
        a = node.args[0]
        body = a
        if isinstance(a, ast.Name):
            body = self.defs.get(a.id)
        if isinstance(a, ast.Lambda) and isinstance(a.body, ast.Call) and name(a.body.func) in self.defs:
            body = self.defs[name(a.body.func)]
        if body is None:
            return self.f("unresolved", node)
        for c in ast.walk(body):
            if isinstance(c, ast.Compare) and any(isinstance(o, ast.Eq) for o in c.ops):
                self.found.append(("eq", f"{self.path}:{node.lineno}", ".".join(self.stack), ast.unparse(c)[:110]))

    def visit_Assign(self, node):
        for t in node.targets:
            if _LIMIT.search(name(t)) and low(node.value):
                self.f("low", node)
        self.generic_visit(node)

    def visit_Dict(self, node):
        for k, v in zip(node.keys, node.values):
            if isinstance(k, ast.Constant) and isinstance(k.value, str) and _LIMIT.search(k.value) and low(v):
                self.f("low", node)
        self.generic_visit(node)

for p in sorted((ROOT/"tests").rglob("*.py")):
    v = V(p.relative_to(ROOT)); t = ast.parse(p.read_text())
    v.defs = {n.name: n for n in ast.walk(t) if isinstance(n, ast.FunctionDef|ast.AsyncFunctionDef)}
    v.visit(t)
    for x in v.found: print(*x, sep=" | ")
