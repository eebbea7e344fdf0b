from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.retries.model.retry_effects import Effect, FailedJob, TaskFacts, effect_of
from broker.retries.model.retry_rules import (
    ErrorRule,
    JobError,
    JobScope,
    RetryRule,
    by_error,
    classify,
    errors_of,
    judge,
    read_parameters,
    rules_version,
)


def rule(number: int = 1, action: Any = "no_retry", active: bool = True, **columns: Any) -> RetryRule:
    scope = JobScope(**{name: columns.pop(name) for name in tuple(columns) if name in vars(JobScope())})
    plain = {"source": "pilotErrorCode", "code": 1305, "origin": "panda"} | columns
    return RetryRule(rule_id=number, action=action, active=active, scope=scope, **plain)


def limit(number: int, most: str, **columns: Any) -> RetryRule:
    return rule(number, "limit_retry", parameters={"maxAttempt": most}, **columns)


ERROR = JobError("pilotErrorCode", 1305, "out of memory\nat line 3")
JOB = JobScope("Athena-1", "x86_64", 7)


def rules_applied(*rules: RetryRule, errors: tuple[JobError, ...] = (ERROR,), job: JobScope = JOB) -> list[str]:
    return [f"{judgement.rule.rule_id} {judgement.rule.action}" for judgement in judge(by_error(rules), errors, job)]


NO, LIMIT = "no_retry", "limit_retry"
NARROW = {"release": "Athena-1"}
OTHER = JobError("transExitCode", 137)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([limit(1, "10"), limit(2, "5")], ["2 limit_retry"]),  # compared as numbers: as text, 10 would be smaller
        ([limit(1, "5"), limit(2, "7", **NARROW)], ["2 limit_retry"]),
        ([limit(1, "5"), limit(2, "7", release="other")], ["1 limit_retry"]),
        ([rule(1), limit(2, "1")], ["1 no_retry"]),
        ([limit(1, "1"), rule(2)], ["2 no_retry"]),
        ([limit(1, "1", **NARROW), rule(2)], ["1 limit_retry"]),
        (
            [limit(1, "3"), rule(2, "increase_memory"), rule(3, "increase_memory")],
            ["2 increase_memory", "1 limit_retry"],
        ),
        ([rule(1, diag="memory")], []),
        ([rule(1, diag=".*memory")], ["1 no_retry"]),
        ([rule(1, diag=".*line 3")], ["1 no_retry"]),  # across lines
        ([rule(1, diag="out")], ["1 no_retry"]),  # not anchored at the end
        ([rule(1, diag="(")], []),
        ([rule(1, architecture="x86_64")], ["1 no_retry"]),
        ([rule(1, architecture="aarch64")], []),
        ([rule(1, workqueue_id=7)], ["1 no_retry"]),
        ([rule(1, workqueue_id=8)], []),
        ([limit(1, "five")], []),
        ([rule(1, code=1306)], []),
        ([rule(1), rule(2, origin="broker")], ["1 no_retry"]),
    ],
)
def test_which_rules_apply(rules: list[RetryRule], expected: list[str]) -> None:
    assert rules_applied(*rules) == expected


def test_a_passive_rule_does_not_keep_the_next_error_from_its_rules_but_an_active_one_does() -> None:
    memory = rule(2, "increase_memory", source="transExitCode", code=137)
    assert rules_applied(rule(1, active=False), memory, errors=(ERROR, OTHER)) == ["1 no_retry", "2 increase_memory"]
    assert rules_applied(rule(1), memory, errors=(ERROR, OTHER)) == ["1 no_retry"]


def test_errors_come_in_the_order_of_panda_and_zero_is_no_error() -> None:
    row = {"transexitcode": "137", "piloterrorcode": 1305, "piloterrordiag": "x", "exeerrorcode": 0,
           "ddmerrorcode": None, "taskbuffererrorcode": "NULL", "superrorcode": 9}  # fmt: skip
    errors = errors_of(row)
    assert errors == (
        JobError("pilotErrorCode", 1305, "x"),
        JobError("transExitCode", 137),
        JobError("supErrorCode", 9),
    )


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, None),
        ({"source": "pilot"}, "source"),
        ({"diag": "("}, "regular expression"),
        ({"source": "transExitCode", "diag": "x"}, "no message"),
        ({"source": "transExitCode", "diag": ".*"}, None),
        ({"action": "limit_retry"}, "maxAttempt"),
        ({"action": "limit_retry", "parameters": {"maxAttempt": "3"}}, None),
    ],
)
def test_a_rule_that_cannot_act_says_why(columns: dict[str, Any], fault: str | None) -> None:
    reason = rule(**columns).fault
    assert (reason is None) if fault is None else (reason is not None and fault in reason)


@pytest.mark.parametrize(
    ("text", "expected"), [(None, {}), ("a=1", {"a": "1"}), ("a=1&b", {}), ("a=1&b=", {"a": "1", "b": ""})]
)
def test_parameters(text: str | None, expected: dict[str, str]) -> None:
    assert read_parameters(text) == expected


def test_the_first_error_that_has_a_class_gives_the_class() -> None:
    late, early = (
        ErrorRule(9, "pilotErrorCode", 1305, "out", "user", True),
        ErrorRule(3, "supErrorCode", 9, ".*", "system", True),
    )
    errors = (ERROR, JobError("supErrorCode", 9, "x"))
    assert classify([early, late], errors) == late
    assert classify([early], errors) == early
    assert classify([replace(late, diag="memory")], errors) is None


def test_the_version_of_rules_depends_on_their_content_only() -> None:
    first, second = rule(1), limit(2, "3")
    assert rules_version([first, second]) == rules_version([second, first]) != rules_version([first])


def memory(unit: str = "MBPerCore", **task: Any) -> TaskFacts:
    plain = {"ramcount_mb": 2000, "ramunit": unit, "files": 100, "largest_ramcount_mb": 3000}
    return TaskFacts(**plain | task)


def failed_job(minramcount_mb: int | None, cores: int = 8, **job: Any) -> FailedJob:
    return FailedJob(1, 1, 1, cores=cores, minramcount_mb=minramcount_mb, minramunit="MB", **job)


def target_and_value(effect: Effect) -> tuple[str, Any]:
    return effect.target, next(iter(effect.after.values()), None)


@pytest.mark.parametrize(
    ("job", "task", "expected"),
    [
        (failed_job(14_400), memory(files_above=10), ("files", 3000)),
        (failed_job(14_400), memory(files_above=30), ("files", 3000)),
        (failed_job(14_400), memory(files_above=40), ("task", 3000)),
        (failed_job(14_400), memory("MBPerCoreFixed", files_above=40), ("files", 3000)),
        (failed_job(13_410), memory(ramcount_mb=1800, baseramcount_mb=500), ("files", 2000)),
        (failed_job(3150, 4), memory("MB", ramcount_mb=3500, files_above=0), ("files", 4000)),
        (failed_job(1800, 1), memory(ramcount_mb=4000), ("none", None)),
        (failed_job(7200, 1), memory(ramcount_mb=8000), ("none", None)),
        (failed_job(1800, 1), memory(ramcount_mb=None), ("none", None)),
        (failed_job(1800, 1), memory(files=0), ("files", 3000)),
        (failed_job(None, 1), memory(ramcount_mb=1000), ("files", 1000)),
    ],
)  # worked cases of panda-server's own functions
def test_more_memory(job: FailedJob, task: TaskFacts, expected: tuple[str, Any]) -> None:
    assert target_and_value(effect_of(rule(action="increase_memory"), job, task)) == expected


def test_memory_is_raised_by_the_measurement_at_most_twice() -> None:
    own_rule = rule(action="increase_memory", parameters={"margin": "1.1", "times": "2"})
    assert target_and_value(effect_of(own_rule, failed_job(1800, 1, measured_mb=5000.0), memory())) == ("files", 5500)
    assert target_and_value(effect_of(own_rule, failed_job(1800, 1, measured_mb=500.0), memory())) == ("files", 3000)
    assert target_and_value(effect_of(own_rule, failed_job(14_400, 8, measured_mb=40_000.0), memory())) == (
        "files",
        5500,
    )
    assert target_and_value(effect_of(own_rule, failed_job(1800, 1, raised_before=1), memory())) == ("files", 3000)
    last_effect = effect_of(own_rule, failed_job(1800, 1, raised_before=2), memory())
    assert (last_effect.target, dict(last_effect.after)) == ("files", {"maxattempt": None})


@pytest.mark.parametrize(
    ("splitrule", "above", "expected"),
    [(None, 0, ("none", None)), ("RY=4000", 0, ("files", 4000)), ("RY=4000,RZ=3000", 0, ("files", 3000)),
     ("RY=4000", 40, ("task", 6000))],
)  # fmt: skip
def test_memory_by_the_split_rule(splitrule: str | None, above: int, expected: tuple[str, Any]) -> None:
    task = memory(splitrule=splitrule, files_above=above)
    assert target_and_value(effect_of(rule(action="increase_memory_xtimes"), failed_job(1800, 1), task)) == expected


CPU = {"cpuefficiency_percent": 100, "basewalltime_s": 600, "cputime": 10, "cputimeunit": "HS06sPerEvent"}
RAN = {"walltime_s": 10_600.0, "events": 1000, "corepower": 10.0, "maxtime_s": 86_400, "queue_cores": 1}


@pytest.mark.parametrize(
    ("job", "task", "expected"),
    [
        ({}, {}, {"cputime": 165, "cputimeunit": "HS06sPerEvent"}),  # 10,000 s x 10 x 1.1 / 1000 x 1.5
        ({"events": 100_000}, {"cputime": 1}, {"cputime": 1650, "cputimeunit": "mHS06sPerEvent"}),
        ({}, {"cputime": 166}, {"walltimeunit": None}),
        ({}, {"cputime": 166, "cputimeunit": "mHS06sPerEvent"}, {"cputime": 165, "cputimeunit": "HS06sPerEvent"}),
        ({}, {"finished_jobs": True}, {"walltimeunit": None}),
        ({"events": None}, {}, {"walltimeunit": None}),
        ({"corepower": None}, {}, {"walltimeunit": None}),
        ({"walltime_s": None}, {}, {"walltimeunit": None}),
        ({}, {"basewalltime_s": None}, {"walltimeunit": None}),
    ],
)
def test_more_cpu_time(job: dict[str, Any], task: dict[str, Any], expected: dict[str, Any]) -> None:
    effect = effect_of(rule(action="increase_cputime"), FailedJob(1, 1, 1, **RAN | job), memory(**CPU | task))
    assert (effect.target, dict(effect.after)) == ("task", expected)


@pytest.mark.parametrize(
    ("attempt", "splitrule", "expected"),
    [
        (1, None, None),
        (2, None, "RM=NG:5|MF:10,NG=2,MF=5"),
        (3, "NG=8,TW=1", "TW=1,RM=NG:8|MF:10,NG=4,MF=5"),
        (4, "RM=NG:8|MF:10,NG=4,MF=5", "RM=NG:8|MF:10,NG=2,MF=2"),
        (7, "RM=NG:8|MF:10,NG=4,MF=5", "RM=NG:8|MF:10,NG=1,MF=1"),
        (3, "RM=NG:8|MF:10,NG=4,MF=5", None),
        (3, "NF=2", None),
        (3, "NE=2", None),
    ],
)
def test_less_input(attempt: int, splitrule: str | None, expected: str | None) -> None:
    job = FailedJob(1, 1, attempt, fsize_sum=5 * 1024**3 - 1, primary_files=10)
    effect = effect_of(rule(action="reduce_input_per_job"), job, memory(splitrule=splitrule))
    assert effect.after.get("splitrule") == expected, effect


def test_less_input_by_parameters_of_the_rule() -> None:
    own_rule = rule(
        action="reduce_input_per_job", parameters={"steps": "1,2,3", "excluded_rules": "nEventsPerJob", "jobs": "3"}
    )
    job = FailedJob(1, 1, 1, fsize_sum=8 * 1024**3, primary_files=4)
    assert effect_of(own_rule, replace(job, hits_of_task=2), memory()).target == "none"
    effect = effect_of(own_rule, replace(job, hits_of_task=3), memory(splitrule="NF=2"))
    assert effect.after["splitrule"] == "NF=2,RM=NG:8|MF:4,NG=4,MF=2"
