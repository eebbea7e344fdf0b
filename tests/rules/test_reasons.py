"""Every code of a decision, chunk or task has a complete reason, defined beside the code that gives it."""

from __future__ import annotations

import ast
import gzip
import importlib
import importlib.metadata
import inspect
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from broker.brokerages.job.assigned import CANDIDATES_FULL
from broker.brokerages.registry import brokerage, offered
from broker.codec.decision_counts import NO_CANDIDATES
from broker.decisions.answers import known_reasons as reasons
from broker.decisions.answers.known_reasons import (
    about_work,
    known_reasons,
    no_queue_that,
    reason_of,
    reasons_of,
    who_can_act,
)
from broker.decisions.answers.reason_codes import given_codes
from broker.domain.arrays import Bools
from broker.domain.decisions import FILES_CHANGED, TASK_CHANGED, Observation, Reason
from broker.engine.analysis import throttle
from broker.engine.analysis.throttle import THROTTLED
from broker.engine.job import veto
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.engine.shared.rank import cut_codes
from broker.engine.task.cycle import PRESET
from broker.engine.task.steps import TaskCause
from broker.flow.model.placement import FLOW_CODES
from broker.rules.contract import Filter, JobPairs, Rule, Weight
from broker.rules.shared.filters.memory_max import MemoryMax
from broker.store.reads import task_states

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "replay" / "cases").glob("*.json.gz"))
RULES = [
    pytest.param(rule, id=f"{name}-{rule.name}")
    for name in offered()
    for rule in (*brokerage(name).chain(), *brokerage(name).optional_rules())
    if rule.rejects
]
GIVEN = [
    pytest.param(entry, id=f"{entry.giver}-{code}") for code, entries in known_reasons().items() for entry in entries
]


def one_line(text: str) -> bool:
    """Whether the text can become part of a sentence."""
    return bool(text) and text == text.strip() and not {"\n", "`"} & {*text} and not text.endswith(".")


@pytest.mark.parametrize("given_reason", GIVEN)
def test_a_reason_is_complete(given_reason: reasons.GivenReason) -> None:
    reason = given_reason.reason
    assert one_line(reason.title) and one_line(reason.wrong)
    assert reason.who in ("you", "wait", "ask")
    assert reason.cure.endswith(".") and reason.cure.count("`") % 2 == 0
    assert not reason.limit or reason.limit.startswith("queue.")


def check(rule: Rule | type[Rule]) -> None:
    """Check that a rule describes the violation and the missing candidate."""
    reason = rule.reason
    assert (rule.code, rule.title) == (reason.code, reason.title)
    assert one_line(reason.violation) and reason.violation != reason.title
    assert one_line(reason.no_candidate) and reason.no_candidate[0].islower()
    assert not reason.no_candidate.startswith("passes ")


@pytest.mark.parametrize("rule", RULES)
def test_the_reason_of_a_rule_is_complete_and_registered(rule: Rule) -> None:
    check(rule)
    assert rule.reason in [given_reason.reason for given_reason in known_reasons()[rule.code]]


@pytest.mark.parametrize(("package", "count"), [("rule-package", 2), ("brokerage-package", 3)])
def test_rules_of_the_example_packages_have_complete_reasons(
    package: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ROOT / "examples" / package / "src"
    monkeypatch.syspath_prepend(str(source))
    modules = [importlib.import_module(f"{path.parent.name}.{path.stem}") for path in sorted(source.glob("*/*.py"))]
    rules = {
        member
        for module in modules
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, Rule)
    }
    package_rules = [
        member for member in rules if member.rejects and member.__module__ in {module.__name__ for module in modules}
    ]
    assert len(package_rules) == count
    for rule in package_rules:
        check(rule)


def codes_of_throttles() -> set[str]:
    """Return the conditions that the throttle stage names, in calls and in its table of caps."""
    names = set()
    for node in ast.walk(ast.parse(inspect.getsource(throttle))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Throttle":
            names |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
        if isinstance(node, ast.Tuple) and len(node.elts) == 5 and isinstance(node.elts[0], ast.Constant):
            names.add(node.elts[0].value)
    return {f"{THROTTLED}{name}" for name in names}


def codes_of_skips() -> set[str]:
    """Return the codes of manually requested tasks that are skipped, two of them with a value of the task."""
    codes = {value for name, value in vars(task_states).items() if name.isupper() and isinstance(value, str)}
    return (codes & {skip_reason.code for skip_reason in task_states.SKIP_REASONS}) | {
        "task_status_running",
        "task_cloud_DE",
    }


def test_codes_that_no_rule_gives_have_reasons() -> None:
    throttles, skips = codes_of_throttles(), codes_of_skips()
    assert len(throttles) == 8 and len(skips) == 6
    codes = {
        *throttles,
        *skips,
        *get_args(veto.Cause),
        *get_args(TaskCause),
        *FLOW_CODES,
        *cut_codes(()),
        *NO_CANDIDATES,
    }
    codes |= {*INPUT_FAULTS, CANDIDATES_FULL, TASK_CHANGED, FILES_CHANGED, PRESET} - {""}
    codes |= {"unknown_queue", "unknown_nucleus", "unknown_pilots", "chosen"}
    assert {code for code in codes if reason_of(code) is None} == set()
    assert {veto_reason.code for veto_reason in veto.VETO_REASONS} == set(get_args(veto.Cause)) == set(veto._CASES)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.split(".")[0])
def test_every_code_of_the_stored_cases_is_known(path: Path) -> None:
    codes = {code for code in codes_in(json.loads(gzip.decompress(path.read_bytes()))) if code}
    assert len(codes) >= 5
    assert {code for code in codes if reason_of(code) is None} == set()


def codes_in(document: Any) -> set[str]:
    """Return the reasons of stored decisions and the rejection codes, at any depth."""
    if isinstance(document, list):
        return set().union(*map(codes_in, document))
    if not isinstance(document, dict):
        return set()
    codes = {document["reason"]} if isinstance(document.get("reason"), str) else set()
    rejected = document.get("rejected")
    return codes.union(rejected or (), *map(codes_in, document.values()))


class OldRule(Filter[JobPairs]):
    """A package rule without a reason."""

    name, code, title = "old_rule", "too_old", "The queue is young"

    def keep(self, pairs: JobPairs) -> Bools:
        return pairs.candidates.cores > 0

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(1, "==", 1, "-", "rule")


class OldMemory(MemoryMax):
    """A package rule derived from a built-in one, with its own title."""

    title = "The memory fits, with 10 % to spare"


class OfPackage(OldRule):
    """A package rule with a reason."""

    name = "of_package"
    reason = Reason(
        code="downtime",
        title="No downtime begins soon",
        violation="a downtime of the queue begins soon",
        no_candidate="is free of downtimes",
        who="wait",
        cure="Wait until the downtime is over.",
    )


class WeightOfPackage(Weight[JobPairs]):
    """A package weight, which rejects nothing."""

    name = code = title = "fast"

    def factor(self, pairs: JobPairs) -> Any:
        return 1.0


def test_a_rule_without_a_reason_gets_one_from_its_code_and_title() -> None:
    reason = OldRule().reason
    assert (reason.code, reason.title, reason.who, reason.no_candidate) == (
        "too_old",
        "The queue is young",
        "ask",
        "passes too_old",
    )
    assert "The queue is young" in reason.wrong and reason.cure.endswith(".")
    derived, inherited = OldMemory().reason, MemoryMax().reason
    assert (derived.title, derived.code, derived.cure) == (OldMemory.title, inherited.code, inherited.cure)
    assert not hasattr(WeightOfPackage, "reason") and (OfPackage.code, OfPackage.title) == (
        "downtime",
        "No downtime begins soon",
    )


def test_rules_of_packages_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = f"{__name__}:"
    points = [("old_rule", f"{prefix}OldRule"), ("of_package", f"{prefix}OfPackage"), ("gone", "no_such_module:Rule")]
    entry_points = {name: importlib.metadata.EntryPoint(name, value, "broker.rules") for name, value in points}
    monkeypatch.setattr(reasons, "outside_rules", lambda: entry_points)
    known_reasons.cache_clear()
    try:
        assert no_queue_that("downtime", "queue") == "No queue is free of downtimes"
        assert about_work("downtime") == "A downtime of the queue begins soon."
        assert (who_can_act("downtime"), who_can_act("too_old")) == ("wait", "ask")
        assert no_queue_that("too_old", "queue") == "No queue passes too_old"
    finally:
        known_reasons.cache_clear()


def test_an_unknown_code_is_shown_as_it_is() -> None:
    assert reason_of("of_another_release") is None and who_can_act("of_another_release") == "ask"
    assert no_queue_that("of_another_release", "queue") == "No queue passes of_another_release"
    assert about_work("of_another_release") == "The work cannot be brokered now: of another release."


def test_the_deciding_brokerage_comes_first() -> None:
    assert no_queue_that("status", "nucleus", "production_task") == "No nucleus is active"
    assert no_queue_that("status", "queue", "production_job") == "No queue is online"
    meanings = given_codes(reasons_of("disk", "production_job"))
    assert [(meaning.brokerages[0], meaning.who) for meaning in meanings][:2] == [
        ("production_job", "you"),
        ("production_job", "ask"),
    ]


def test_the_walltime_reason_tells_the_user_what_to_do() -> None:
    reason = reason_of("shortwalltime")
    assert reason is not None and reason.who == "you" and reason.limit == "queue.maxtime"
    assert [request.name for request in reason.requests] == ["walltime", "cputime"]
    assert all(word in reason.cure for word in ("nEventsPerJob", "nFilesPerJob", "prun", "cpuTime"))
