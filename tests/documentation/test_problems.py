"""Each problem has a page that is true: status, title, and the settings, methods and commands in it."""

import re
from collections.abc import Iterator
from http import HTTPStatus

import click

from bridge_server.assembly.application import every_route
from bridge_server.cli.commands import commands
from bridge_server.description.site import Problem, every_problem
from bridge_server.settings.settings import Settings
from bridge_server.wallet.rpc.openrpc import METHODS
from bridge_server.web.problems import BUG, ORDERED_FAULT, REFUSALS, status_of_kind
from tests.support.asking import ask
from tests.support.failures import every_failure
from tests.support.server import RunningServer

_PROBLEMS = every_problem()
_OF_HTTP = {"method-not-allowed": 405}
_OF_REFUSALS = {code: status for status, (code, _) in REFUSALS.items()}


def texts() -> Iterator[tuple[Problem, str]]:
    for problem in _PROBLEMS.values():
        yield from ((problem, text) for text in (problem.meaning, problem.cause, problem.cure))


def test_every_problem_has_a_page_with_its_status_and_title() -> None:
    failures = every_failure()
    statuses = {failure.code: status_of_kind(failure) for failure in failures}
    titles = {failure.code: failure.title for failure in failures} | {BUG[0]: BUG[1]}

    assert {code: problem.status for code, problem in _PROBLEMS.items()} == {
        **statuses, **_OF_HTTP, **_OF_REFUSALS, BUG[0]: 500, ORDERED_FAULT: 503,
    }  # fmt: skip
    assert {code: _PROBLEMS[code].title for code in titles} == titles
    assert {_PROBLEMS[code].title for code in _OF_HTTP} == {HTTPStatus(405).phrase.capitalize()}


def test_the_texts_are_sentences() -> None:
    assert [text for _, text in texts() if not re.fullmatch(r"[A-Z/a-z].*\.", text)] == []


def test_the_texts_name_settings_methods_and_commands_that_exist() -> None:
    known = {*Settings.model_fields, *(method.name for method in METHODS)}
    names = {name for _, text in texts() for name in re.findall(r"\b[a-z]+(?:_[A-Za-z]+)+\b", text)}
    named = {name for _, text in texts() for name in re.findall(r"bridge-server ([a-z]+)", text)}

    assert names <= known
    assert named <= set(commands.list_commands(click.Context(commands)))


def test_the_texts_name_routes_that_exist() -> None:
    rows = {(row.method, re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "*", row.path)) for row in every_route()}
    missing = [
        (problem.code, method, path)
        for problem, text in texts()
        if "control API" not in text
        for method, path in re.findall(r"(GET|POST|PUT|DELETE) (/[\w/-]+)", text)
        if (method, re.sub(r"/(ID|PROJECT)\b", "/*", path)) not in rows
    ]

    assert missing == []


async def test_the_link_of_a_problem_leads_to_its_page(server: RunningServer) -> None:
    for path, code in (("/nope", "not-found"), ("/session/a", "session-not-found")):
        answer = await ask(server, "GET", path)
        answer.problem(404)
        link = re.fullmatch(r'<([^>]*)>; rel="help"', answer.headers["Link"])
        assert link is not None

        page = await ask(server, "GET", link[1])

        assert link[1] == f"/docs/errors/{code}"
        assert (page.status, f"<h1>{_PROBLEMS[code].title}</h1>" in page.body.decode()) == (200, True)
