"""The answer to explain in words: the verdict, the facts of the task, what would help, and the position."""

from __future__ import annotations

from collections.abc import Iterator

from broker.decisions.answers.decision_model import (
    ExplainedDecision,
    FeasibleQueue,
    PlacedTogether,
    Position,
    RejectedCandidate,
    Remedy,
    TaskFacts,
    Verdict,
)
from broker.decisions.answers.known_reasons import about_work, cure, no_queue_that, reasons_of
from broker.decisions.answers.phrases import comparison, throttle
from broker.domain.words import many, moment, number, several, with_unit
from broker.engine.job.placement import Placement


def verdict_sentence(decision: ExplainedDecision) -> str:
    """The outcome of the work, what is missing, and how far away the best candidate is."""
    verdict, kind = decision.verdict, decision.candidate_kind
    if verdict.code == "placed":
        what = many(verdict.jobs, "job") if decision.assigned_kind == "jobs" else many(verdict.jobs, "task")
        return f"Brokered: {what} at {many(verdict.at_queues, kind)}."
    if verdict.code == "not_placed":
        return f"Brokered, but none of the {several(kind)} took a job."
    if verdict.code == "nucleus_drawn":
        return _drawn(decision)
    if verdict.code == "nucleus_preset":
        return f"The task had its nucleus already: {verdict.chosen}."
    if verdict.code == "throttled":
        return f"Throttled: {throttle(decision.throttle)}." if decision.throttle else f"Throttled: {verdict.reason}."
    if verdict.code == "came_too_late":
        return f"{about_work(verdict.reason, decision.brokerage)} Nothing was written."
    if verdict.code == "input_missing":
        return about_work(verdict.reason, decision.brokerage)
    if verdict.code == "no_candidate_at_all":
        return f"Nothing was a candidate: {_not_candidates(decision)}."
    return _rejected(verdict, kind, decision.brokerage)


def cure_sentence(decision: ExplainedDecision) -> str:
    """What can be done if nothing was placed, with Markdown backticks; empty if nothing has to be done."""
    if decision.outcome == "brokered" or decision.missing:
        return ""
    # for work that never had a candidate, the names it gave say more than their absence
    names = decision.summary.not_candidates if decision.verdict.code == "no_candidate_at_all" else {}
    return cure(next(iter(names.values()), decision.verdict.reason), decision.brokerage)


def missing_sentences(decision: ExplainedDecision) -> Iterator[str]:
    """What the installation lacked if nothing was a candidate, and the remedy; as in `broker doctor --ready`."""
    for check in decision.missing:
        cure_of_it = f" What to do: {check.remedy}." if check.remedy else ""
        yield f"Missing: {check.topic.replace('_', ' ')}: {check.finding}.{cure_of_it}"
    if decision.missing:
        yield "`broker doctor --ready` lists what the first job needs."


def _drawn(decision: ExplainedDecision) -> str:
    chosen = decision.candidates[0]
    chance = "" if chosen.probability is None else f" with probability {100 * chosen.probability:.1f} %"
    return (
        f"{chosen.name} was drawn{chance}: a weighted random draw among {many(len(decision.candidates), 'candidate')},"
        " not always the one of the largest weight."
    )


def _not_candidates(decision: ExplainedDecision) -> str:
    names = decision.summary.not_candidates
    if not names:
        return decision.verdict.reason.replace("_", " ")
    return ", ".join(f"{name} ({code.replace('_', ' ')})" for name, code in sorted(names.items()))


def _rejected(verdict: Verdict, kind: str, brokerage: str) -> str:
    head = no_queue_that(verdict.reason, kind, brokerage)
    share = f"{verdict.reason} rejected {number(verdict.queues)} of {many(verdict.of_queues, kind)}"
    best = verdict.best
    if best is None or best.compared is None:
        return f"{head}: {share}."
    return f"{head}: {share}. The nearest is {best.name}: {comparison(best.compared)}."


def task_sentence(task: TaskFacts) -> str:
    """The task in one line: name, status, user, and requests."""
    cores = None if task.corecount is None else many(max(1, task.corecount), "core")
    memory = None if not task.ramcount else f"{number(task.ramcount)} {task.ramunit or 'MB'}"
    parts = (
        task.taskname,
        task.status,
        task.username,
        task.gshare,
        None if task.currentpriority is None else f"priority {task.currentpriority}",
        cores,
        memory,
        None if task.nucleus is None else f"nucleus {task.nucleus}",
        None if task.site is None else f"site {task.site}",
    )
    return ", ".join(part for part in parts if part)


def remedy_sentences(decision: ExplainedDecision) -> Iterator[str]:
    """What would help, one change per line, and whether anything in the tuning would."""
    remedies = decision.remedies
    # if the grid itself is missing, no change of rules or tasks is worth mentioning
    if not remedies.evaluated or decision.missing:
        return
    kind = decision.candidate_kind
    for remedy in remedies.helpful:
        yield remedy_sentence(remedy, kind)
    if not remedies.helpful:
        yield f"No single change of a rule, a key, the task or a {kind} would give it a {kind}."
    elif not remedies.in_the_tuning:
        yield "Nothing in the tuning would help."


def remedy_sentence(one: Remedy, kind: str) -> str:
    """``ramcount 6,200 MBPerCore instead of 40,000: 1 queue (BNL_VHIMEM)``."""
    examples = f" ({', '.join(one.such_as)}{', ...' if one.candidates.queues > len(one.such_as) else ''})"
    gain = f"{many(one.candidates.queues, kind)}{examples}"
    if one.kind == "rule":
        return f"with the rule {one.name} switched off: {gain}"
    where = "" if one.where is None else f" of {one.where}"
    return f"{one.name}{where} {with_unit(one.to, one.unit)} instead of {with_unit(one.now, one.unit)}: {gain}"


def position_sentence(position: Position) -> str:
    """The position among the waiting work of the share."""
    share = "its share" if position.gshare is None else f"share {position.gshare}"
    return f"Place {position.place} of {position.of} that wait in {share} (priority {number(position.priority)})."


def together_sentence(together: PlacedTogether) -> str:
    """How the cycle placed its jobs: ``All chunks ... together; 27 jobs of this one have no place yet``."""
    how = "All chunks of the cycle were placed together"
    if together.fallback:
        how = (
            "The program over all chunks was not solved in time (FLOW_TIME_LIMIT): they were placed one after the other"
        )
    left = f"; {many(together.left, 'job')} of this one {'has' if together.left == 1 else 'have'} no place yet"
    return f"{how}{left if together.left else ''}."


def feasible_sentence(queue: FeasibleQueue) -> str:
    """The result for one of the queues left by filters and cuts."""
    if queue.planned:
        return many(queue.planned, "job")
    return _binding(queue.code) or queue.code


def _binding(code: str) -> str:
    """What binds at a queue without jobs, where the jobs of a cycle were placed together; empty for another code."""
    given = (one.reason.violation for one in reasons_of(code) if one.giver == Placement.name)
    return next(given, "")


def waiting_sentence(decision: ExplainedDecision) -> str:
    """When it is tried again."""
    if decision.redecide == "each_cycle":
        return "Decided again each cycle."
    if decision.pending_until is None:
        return ""
    return f"Next try {moment(decision.pending_until)}."


def candidate_sentence(candidate: RejectedCandidate) -> str:
    """One candidate with the rule that decided: ``BNL/MCORE: lowmemory, requires ...``."""
    if candidate.compared is None:
        return f"{candidate.name}: {candidate.code}. {candidate.title}."
    if words := _binding(candidate.code):
        dearer = with_unit(candidate.compared.value, candidate.compared.unit)
        key = "" if candidate.compared.key == "rule" else f" ({candidate.compared.key})"
        return (
            f"{candidate.name}: {candidate.code}, {words}{key}; a job more there is {dearer} dearer than its best use"
        )
    return f"{candidate.name}: {candidate.code}, {comparison(candidate.compared)}"
