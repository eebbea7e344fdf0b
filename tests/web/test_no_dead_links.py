"""No link of the web pages is dead, nor is the ``type`` of any problem."""

from __future__ import annotations

import ast
import re
from collections import Counter, deque
from html import unescape
from pathlib import Path
from typing import get_args

import httpx
import pytest

import broker
from broker.access.claims import Expected, Fault
from broker.api.problem_codes import PROBLEM_CODES, error_classes
from broker.api.problems import USED, code_of_class, token_fault_details

pytestmark = pytest.mark.slow

MOST_OF_A_PATTERN = 6
"""Addresses requested per pattern; every key, rule and code is requested, as each has its own page."""
EACH = ("/tuning/", "/reasons/", "/rules/")
_MAKES_A_PROBLEM = {"Problem": 1, "_later": 0, "unauthenticated": 0}
_EXPECTED = Expected("https://issuer.example.org", ("broker",))
_LINK = re.compile(r'<a\b[^>]*\bhref="([^"]*)"')


@pytest.mark.slow
def test_every_link_leads_somewhere(stranger: httpx.Client) -> None:
    addresses, dead = _crawl(stranger)
    assert not dead
    assert addresses > 150


def test_every_code_of_a_problem_has_a_page(stranger: httpx.Client) -> None:
    codes = _literal_codes() | {code_of_class(error_class) for error_class in error_classes()}
    assert {
        "nothing_found",
        "unauthenticated",
        "busy_deciding",
        "no_such_route",
        "token_used",
        "version_conflict",
    } <= codes
    answers = {code: stranger.get(f"/reasons/{code}") for code in sorted(codes)}
    assert {code: answer.status_code for code, answer in answers.items() if answer.status_code != 200} == {}
    assert all('<p class="verdict">' in answer.text for answer in answers.values())


def test_the_type_of_a_problem_is_a_page(stranger: httpx.Client) -> None:
    for address in ("/api/v1/queues/NOWHERE", "/api/v1/nothing", "/api/v1/tasks?bogus=1"):
        problem = stranger.get(address, headers={"Accept": "application/json"})
        assert problem.status_code in (404, 422)
        page = stranger.get(problem.json()["type"])
        assert page.status_code == 200 and f"Problem {problem.json()['code']}" in page.text


def _literal_codes() -> set[str]:
    """The codes of problems in the source."""
    codes: set[str] = set(PROBLEM_CODES)
    for file in Path(broker.__file__).parent.rglob("*.py"):
        text = file.read_text()
        if "broker.api.problems" not in text:
            continue  # a ``Problem`` of another package
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKES_A_PROBLEM:
                code_arguments = node.args[_MAKES_A_PROBLEM[node.func.id] :][:1]
                codes |= {
                    argument.value
                    for argument in code_arguments
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                }
    return (
        codes | {code for fault in get_args(Fault) for code in [token_fault_details(fault, _EXPECTED)[0]]} | {USED[0]}
    )


def _crawl(client: httpx.Client) -> tuple[int, dict[str, str]]:
    """The number of known addresses, and the dead ones, each with its status and the page that links to it."""
    waiting, linked_by, dead = deque(["/"]), {"/": ""}, {}
    requests: Counter[str] = Counter()
    while waiting:
        address = waiting.popleft()
        requests[_pattern(address)] += 1
        if requests[_pattern(address)] > MOST_OF_A_PATTERN and not address.startswith(EACH):
            continue
        answer = client.get(address)
        if answer.status_code == 404 or answer.status_code >= 500:
            dead[address] = f"{answer.status_code}, linked by {linked_by[address]}"
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        for link in _LINK.findall(answer.text):
            target = unescape(link).partition("#")[0]
            if target.startswith("/") and not target.startswith("//") and target not in linked_by:
                linked_by[target] = address
                waiting.append(target)
    return len(linked_by), dead


def _pattern(address: str) -> str:
    path, _, query = address.partition("?")
    return "/".join(path.split("/")[:2]) + ("?" if query else "") + str(path.count("/"))
