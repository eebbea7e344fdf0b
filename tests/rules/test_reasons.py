"""Every code that a decision, chunk or task can carry has its reason, complete, beside what gives it."""

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
from broker.engine.job.placement import FLOW_CODES
from broker.engine.shared.rank import cut_codes
from broker.engine.task.cycle import PRESET
from broker.engine.task.steps import TaskCause
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
GIVEN = [pytest.param(one, id=f"{one.giver}-{code}") for code, some in known_reasons().items() for one in some]


def one_line(text: str) -> bool:
    """Whether a text can become a part of a sentence."""
    return bool(text) and text == text.strip() and not {"\n", "`"} & {*text} and not text.endswith(".")


@pytest.mark.parametrize("given", GIVEN)
def test_a_reason_is_complete(given: reasons.GivenReason) -> None:
    reason = given.reason
    assert one_line(reason.title) and one_line(reason.wrong)
    assert reason.who in ("you", "wait", "ask")
    assert reason.cure.endswith(".") and reason.cure.count("`") % 2 == 0
    assert not reason.limit or reason.limit.startswith("queue.")


def check(rule: Rule | type[Rule]) -> None:
    """A rule says what is wrong and what is missing."""
    reason = rule.reason
    assert (rule.code, rule.title) == (reason.code, reason.title)
    assert one_line(reason.violation) and reason.violation != reason.title
    assert one_line(reason.no_candidate) and reason.no_candidate[0].islower()
    assert not reason.no_candidate.startswith("passes ")


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_what_is_wrong_and_what_is_missing(rule: Rule) -> None:
    check(rule)
    assert rule.reason in [one.reason for one in known_reasons()[rule.code]]


@pytest.mark.parametrize(("package", "count"), [("rule-package", 2), ("brokerage-package", 3)])
def test_so_do_the_rules_of_the_example_packages(package: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ROOT / "examples" / package / "src"
    monkeypatch.syspath_prepend(str(source))
    modules = [importlib.import_module(f"{path.parent.name}.{path.stem}") for path in sorted(source.glob("*/*.py"))]
    rules = {
        one for module in modules for one in vars(module).values() if inspect.isclass(one) and issubclass(one, Rule)
    }
    own = [one for one in rules if one.rejects and one.__module__ in {module.__name__ for module in modules}]
    assert len(own) == count
    for rule in own:
        check(rule)


def codes_of_throttles() -> set[str]:
    """The conditions that the throttle stage names, in calls and in its table of caps."""
    names = set()
    for node in ast.walk(ast.parse(inspect.getsource(throttle))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Throttle":
            names |= {one.value for one in node.args[:1] if isinstance(one, ast.Constant)}
        if isinstance(node, ast.Tuple) and len(node.elts) == 5 and isinstance(node.elts[0], ast.Constant):
            names.add(node.elts[0].value)
    return {f"{THROTTLED}{name}" for name in names}


def codes_of_skips() -> set[str]:
    """The codes of tasks that were asked for by hand and not looked at, two of them with what the task says."""
    codes = {value for name, value in vars(task_states).items() if name.isupper() and isinstance(value, str)}
    return (codes & {one.code for one in task_states.SKIP_REASONS}) | {"task_status_running", "task_cloud_DE"}


def test_what_is_no_rule_has_its_reasons() -> None:
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
    assert {one.code for one in veto.VETO_REASONS} == set(get_args(veto.Cause)) == set(veto._CASES)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.split(".")[0])
def test_every_code_of_the_stored_cases_is_known(path: Path) -> None:
    codes = {code for code in codes_in(json.loads(gzip.decompress(path.read_bytes()))) if code}
    assert len(codes) >= 5
    assert {code for code in codes if reason_of(code) is None} == set()


def codes_in(document: Any) -> set[str]:
    """The reasons of stored decisions, and the codes under which candidates were rejected, wherever."""
    if isinstance(document, list):
        return set().union(*map(codes_in, document))
    if not isinstance(document, dict):
        return set()
    found = {document["reason"]} if isinstance(document.get("reason"), str) else set()
    rejected = document.get("rejected")
    return found.union(rejected or (), *map(codes_in, document.values()))


class OldRule(Filter[JobPairs]):
    """A rule of a package that knows no reasons yet."""

    name, code, title = "old_rule", "too_old", "The queue is young"

    def keep(self, pairs: JobPairs) -> Bools:
        return pairs.candidates.cores > 0

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(1, "==", 1, "-", "rule")


class OldMemory(MemoryMax):
    """A rule of a package, derived from one of this tree, with a title of its own."""

    title = "The memory fits, with 10 % to spare"


class OfPackage(OldRule):
    """A rule of a package with its reason."""

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
    """A weight of a package: it rejects nothing."""

    name = code = title = "fast"

    def factor(self, pairs: JobPairs) -> Any:
        return 1.0


def test_a_rule_without_a_reason_gets_one_of_its_code_and_title() -> None:
    made = OldRule().reason
    assert (made.code, made.title, made.who, made.no_candidate) == (
        "too_old",
        "The queue is young",
        "ask",
        "passes too_old",
    )
    assert "The queue is young" in made.wrong and made.cure.endswith(".")
    own, of_base = OldMemory().reason, MemoryMax().reason
    assert (own.title, own.code, own.cure) == (OldMemory.title, of_base.code, of_base.cure)
    assert not hasattr(WeightOfPackage, "reason") and (OfPackage.code, OfPackage.title) == (
        "downtime",
        "No downtime begins soon",
    )


def test_rules_of_packages_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"{__name__}:"
    points = [("old_rule", f"{here}OldRule"), ("of_package", f"{here}OfPackage"), ("gone", "no_such_module:Rule")]
    made = {name: importlib.metadata.EntryPoint(name, value, "broker.rules") for name, value in points}
    monkeypatch.setattr(reasons, "outside_rules", lambda: made)
    known_reasons.cache_clear()
    try:
        assert no_queue_that("downtime", "queue") == "No queue is free of downtimes"
        assert about_work("downtime") == "A downtime of the queue begins soon."
        assert (who_can_act("downtime"), who_can_act("too_old")) == ("wait", "ask")
        assert no_queue_that("too_old", "queue") == "No queue passes too_old"
    finally:
        known_reasons.cache_clear()


def test_a_code_that_nobody_gives_is_said_as_it_is() -> None:
    assert reason_of("of_another_release") is None and who_can_act("of_another_release") == "ask"
    assert no_queue_that("of_another_release", "queue") == "No queue passes of_another_release"
    assert about_work("of_another_release") == "The work cannot be brokered now: of another release."


def test_the_brokerage_that_decided_is_asked_first() -> None:
    assert no_queue_that("status", "nucleus", "production_task") == "No nucleus is active"
    assert no_queue_that("status", "queue", "production_job") == "No queue is online"
    meanings = given_codes(reasons_of("disk", "production_job"))
    assert [(one.brokerages[0], one.who) for one in meanings][:2] == [
        ("production_job", "you"),
        ("production_job", "ask"),
    ]


def test_what_a_user_can_do_about_the_walltime() -> None:
    reason = reason_of("shortwalltime")
    assert reason is not None and reason.who == "you" and reason.limit == "queue.maxtime"
    assert [one.name for one in reason.requests] == ["walltime", "cputime"]
    assert all(word in reason.cure for word in ("nEventsPerJob", "nFilesPerJob", "prun", "cpuTime"))
