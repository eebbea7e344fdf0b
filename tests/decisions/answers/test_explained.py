"""The answer of ``explain`` on the example grid: verdict, remedies, sums that add up, the draw, and the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.decisions.answers.decision import task_decision
from broker.decisions.answers.decision_model import ExplainedDecision, TaskDecision
from broker.decisions.answers.reason_codes import reason_code, rules
from broker.decisions.answers.sentences import (
    cure_sentence,
    position_sentence,
    remedy_sentences,
    task_sentence,
    verdict_sentence,
)
from broker.decisions.answers.why_not import why_not
from broker.domain.rejection_counts import Counts
from broker.domain.words import many
from broker.simulation.model.demo.summary import summarise
from broker.store.connection.database import Database
from broker.store.query_context import NothingFound, QueryContext
from tests.brokered_demo import (
    ALL_SCRATCH,
    BROKERED,
    DRAWN,
    LINKS_FULL,
    LOST_INPUT,
    NOON,
    RETIRED_QUEUE,
    THROTTLED,
    TOO_MUCH_MEMORY,
    broker_the_demo,
)

Ask = Callable[..., Any]


def explained(query_demo: Ask, task: int, **keywords: Any) -> ExplainedDecision:
    answer: TaskDecision = query_demo(task_decision, task, **keywords)
    (decision,) = answer.decisions
    return decision


def test_a_pending_verdict_names_the_shortage_and_the_gap_of_the_best_queue(query_demo: Ask) -> None:
    decision = explained(query_demo, TOO_MUCH_MEMORY)
    verdict = decision.verdict
    assert (verdict.code, verdict.reason, verdict.queues, verdict.of_queues) == ("out_of_reach", "lowmemory", 61, 75)
    assert verdict.best is not None and verdict.best.compared is not None
    assert (verdict.best.compared.value, verdict.best.compared.limit) == (288900.0, 48000.0)
    assert verdict.best.gap_percent == pytest.approx(100 * (288900 - 48000) / 48000)
    assert verdict_sentence(decision) == (
        "No queue offers enough memory: lowmemory rejected 61 of 75 queues. The nearest is BNL_VHIMEM/MCORE_VHIMEM: "
        "requires 288,900 MB, limit 48,000 MB (queue.maxrss)."
    )


@pytest.mark.parametrize(
    ("task", "cure"),
    [
        (TOO_MUCH_MEMORY, "Ask for less memory (`ramCount` of the task; `prun --memory`, in MB)"),
        (THROTTLED, "Wait: it goes on as your jobs end."),
        (RETIRED_QUEUE, "Correct the name of the queue in the task"),
        (LOST_INPUT, "Wait until the dataset is complete at some site"),
        (BROKERED, ""),
    ],
)
def test_the_verdict_comes_with_a_cure(query_demo: Ask, task: int, cure: str) -> None:
    sentence = cure_sentence(explained(query_demo, task))
    assert sentence.startswith(cure) and bool(sentence) == bool(cure)


def test_the_task_sentence_names_the_request(query_demo: Ask) -> None:
    answer: TaskDecision = query_demo(task_decision, TOO_MUCH_MEMORY)
    sentence = task_sentence(answer.task)
    for words in ("too_much_memory", "pending", "atlasprd", "MC 20", "priority 500", "8 cores", "40,000 MBPerCore"):
        assert words in sentence
    assert answer.task.waiting_since is not None and answer.task.next_try_at is not None


@pytest.mark.slow
def test_remedies_are_evaluated_and_useless_tuning_is_stated(query_demo: Ask) -> None:
    decision = explained(query_demo, TOO_MUCH_MEMORY)
    by_kind = {remedy.kind: remedy for remedy in reversed(decision.remedies.helpful)}
    assert set(by_kind) == {"task", "queue", "rule"} and decision.remedies.in_the_tuning is False
    task, queue, rule = by_kind["task"], by_kind["queue"], by_kind["rule"]
    # 6,200 MB a core fit: 0.9 * (1000 + 6200 * 8) is below 48,000 MB; 6,600 MB a core do not
    assert (task.name, task.now, task.to, task.such_as) == ("task.ramcount", 40000.0, 6200.0, ("BNL_VHIMEM",))
    assert (queue.name, queue.where, queue.now, queue.to) == (
        "queue.maxrss", "BNL_VHIMEM/MCORE_VHIMEM", 48000.0, 289000.0,
    )  # fmt: skip
    assert (rule.name, rule.candidates) == ("memory_max", Counts(queues=48, pseudo_queues=177))
    assert list(remedy_sentences(decision))[-1] == "Nothing in the tuning would help."


@pytest.mark.slow
def test_a_key_that_would_help_is_named_with_its_value(query_demo: Ask) -> None:
    decision = explained(query_demo, LINKS_FULL)
    key = decision.remedies.helpful[0]
    assert (key.kind, key.name, key.now, key.to) == ("key", "NQUEUED_NUC_CAP_FOR_JOBS", 10000, 11251)
    assert decision.remedies.in_the_tuning and key.candidates.queues == 43
    assert decision.position is not None and decision.position.decides
    assert position_sentence(decision.position) == "Place 3 of 3 that wait in share MC 23 (priority 380)."


def test_without_evaluation_only_stored_facts_are_given(query_demo: Ask) -> None:
    decision = explained(query_demo, ALL_SCRATCH, evaluate=False)
    assert (decision.remedies.evaluated, decision.near_misses, decision.verdict.reason) == (False, (), "disk")
    assert list(remedy_sentences(decision)) == []


@pytest.mark.parametrize("task", [TOO_MUCH_MEMORY, ALL_SCRATCH, LINKS_FULL, LOST_INPUT, THROTTLED, BROKERED, DRAWN])
def test_rejected_and_chosen_queues_add_up_to_the_start(query_demo: Ask, task: int) -> None:
    for decision in query_demo(task_decision, task, evaluate=False).decisions:
        summary = decision.summary
        assert summary.start.queues == summary.chosen.queues + sum(
            rejection.rejected.queues for rejection in summary.rejections
        )
        if summary.start.pseudo_queues is not None:
            rejected = sum(rejection.rejected.pseudo_queues or 0 for rejection in summary.rejections)
            assert summary.start.pseudo_queues == (summary.chosen.pseudo_queues or 0) + rejected


def test_the_demo_summary_agrees_with_explain(query_demo: Ask) -> None:
    decision = explained(query_demo, TOO_MUCH_MEMORY, evaluate=False)
    document = decision.model_dump(mode="json")
    waiting = summarise([document | {"candidates": document["candidates"]}]).waiting[0]
    by_code = {rejection.code: rejection.rejected.queues for rejection in decision.summary.rejections}
    assert dict(waiting.codes).items() <= by_code.items() and waiting.codes[0] == ("lowmemory", 61)


def test_a_throttle_in_words_with_figure_and_cap(query_demo: Ask) -> None:
    decision = explained(query_demo, THROTTLED)
    assert verdict_sentence(decision) == "Throttled: 225 jobs that run, cap 150 (CAP_RUNNING_USER_JOBS)."
    assert decision.throttle is not None and decision.throttle.condition == "running_jobs"
    assert decision.remedies.why_not == "throttled"


def test_a_nucleus_is_a_weighted_draw_with_probabilities(query_demo: Ask) -> None:
    decision = explained(query_demo, DRAWN, brokerage="production_task")
    assert (decision.draw, decision.candidate_kind, decision.summary.start.pseudo_queues) == (
        "weighted",
        "nucleus",
        None,
    )
    assert sum(candidate.probability or 0 for candidate in decision.candidates) == pytest.approx(1)
    first = decision.candidates[0]
    assert first.assigned == 1 and first.probability == pytest.approx(
        first.weight / sum(candidate.weight for candidate in decision.candidates)
    )
    assert "weighted random draw among 11 candidates" in verdict_sentence(decision)


def test_a_placed_task_says_where_its_jobs_went(query_demo: Ask) -> None:
    decision = explained(query_demo, BROKERED)
    jobs = sum(decision.assigned.values())
    assert (decision.verdict.code, decision.verdict.jobs, jobs > 0) == ("placed", jobs, True)
    assert decision.remedies.evaluated is False and decision.position is None


def test_a_queue_that_does_not_exist_is_no_candidate_and_counts_nowhere(query_demo: Ask) -> None:
    decision = explained(query_demo, RETIRED_QUEUE)
    assert decision.summary.start == Counts(queues=0, pseudo_queues=0)
    assert list(decision.summary.not_candidates.values()) == ["unknown_queue"]
    assert verdict_sentence(decision) == (
        "Nothing was a candidate: UKI-NORTHGRID-LIV-HEP_RETIRED (unknown_queue).".replace("_queue)", " queue)")
    )


def test_an_input_without_a_replica(query_demo: Ask) -> None:
    assert verdict_sentence(explained(query_demo, LOST_INPUT)) == "The input has no complete replica that can be read."


def test_an_unknown_task(query_demo: Ask) -> None:
    with pytest.raises(NothingFound, match="there is no task 999") as error:
        query_demo(task_decision, 999)
    assert error.value.exit_status == 4


@pytest.mark.parametrize("name", ["BNL", "bnl", "Bnl"])
def test_why_not_finds_queues_in_any_case(query_demo: Ask, demo: Database, name: str) -> None:
    answer = query_demo(why_not, demo, TOO_MUCH_MEMORY, name)
    assert answer.name == "BNL" and len(answer.answers) == 8
    first = answer.answers[0].candidate
    assert (first.code, first.compared.key) == ("lowmemory", "queue.maxrss")


def test_why_not_suggests_the_nearest_queue_for_an_unknown_name(query_demo: Ask, demo: Database) -> None:
    with pytest.raises(NothingFound, match="did you mean BNL") as error:
        query_demo(why_not, demo, TOO_MUCH_MEMORY, "BNLX")
    assert error.value.nearest[0] == "BNL"


def test_every_rule_gives_its_verdict_in_order(query_demo: Ask, demo: Database) -> None:
    (line,) = query_demo(why_not, demo, TOO_MUCH_MEMORY, "BNL/MCORE", None, True).answers
    verdicts = {answer.rule: answer.verdict for answer in line.every_rule}
    names = [answer.rule for answer in line.every_rule]
    assert (verdicts["status"], verdicts["memory_max"]) == ("pass", "fail")
    later_rules = names[names.index("memory_max") + 1 :]
    assert later_rules and {verdicts[name] for name in later_rules} == {"not_reached"}
    failed = next(answer for answer in line.every_rule if answer.rule == "memory_max")
    assert failed.compared == line.candidate.compared


def test_every_rule_of_a_chosen_queue_passes_or_was_not_asked(query_demo: Ask, demo: Database) -> None:
    queue = explained(query_demo, BROKERED).candidates[0].name
    (line,) = query_demo(why_not, demo, BROKERED, queue, None, True).answers
    assert line.candidate.code == "chosen"
    assert {answer.verdict for answer in line.every_rule} <= {"pass", "not_asked", "unknown"}


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["task_changed", "files_changed"])
def test_a_late_decision_waits_for_nothing_and_has_no_remedies(
    make_database: Callable[..., Database], reason: str
) -> None:
    database = make_database()
    broker_the_demo(database)
    update = (
        f"UPDATE broker.decisions SET outcome = 'skipped', reason = '{reason}' WHERE jeditaskid = {TOO_MUCH_MEMORY}"
    )
    with database.begin() as connection:
        assert connection.execute(sa.text(update)).rowcount == 1
    with database.read_snapshot() as connection:
        query = QueryContext(connection, database.names, NOON)
        answer = task_decision(query, TOO_MUCH_MEMORY, evaluate=True)
        code = reason_code(query, reason)
    (decision,) = answer.decisions
    assert (answer.task.waiting_since, answer.task.next_try_at) == (None, None)
    assert decision.position is None and not decision.near_misses and not list(remedy_sentences(decision))
    sentence = verdict_sentence(decision)
    assert "Nothing was written" in sentence and "while it was brokered" in sentence and "program" not in sentence
    assert "next cycle" in code.given[0].cure and code.who == "wait"


def test_nuclei_are_not_nucleuss() -> None:
    assert (many(1, "nucleus"), many(2, "nucleus"), many(2, "queue")) == ("1 nucleus", "2 nuclei", "2 queues")


def test_rules_count_their_rejections(query_demo: Ask) -> None:
    answer = query_demo(rules, "production_job")
    by_rule = {line.rule: line for line in answer.rules}
    assert by_rule["memory_max"].decides_24h == 1 and by_rule["status"].rejections_24h > 0
    assert [line.position for line in answer.rules] == list(range(1, len(answer.rules) + 1))
