"""Why a queue gets what it gets, in words."""

from __future__ import annotations

from collections.abc import Iterator

from broker.decisions.answers.phrases import comparison, day_and_moment, many, with_unit
from broker.grid.answers.models import BrokerageAtQueue, NearMiss, NotACandidate, QueueAnswer


def queue_sentences(answer: QueueAnswer) -> Iterator[str]:
    """The verdict: what it got of each brokerage, or why it is no candidate at all."""
    for one in answer.not_a_candidate:
        yield not_a_candidate_sentence(one)
    closed = {one.brokerage for one in answer.not_a_candidate}
    for line in answer.brokerages:
        if line.brokerage not in closed:
            yield brokerage_sentence(line)
    if answer.failing:
        total = answer.failed_jobs + answer.finished_jobs
        yield f"Jobs of many tasks fail here: {answer.failed_jobs:,} of {total:,} that ended lately."


def not_a_candidate_sentence(one: NotACandidate) -> str:
    """``Not a candidate of production_job: queue.status is paused, must be online, since ...``."""
    why = one.code.replace("_", " ") if one.compared is None else comparison(one.compared)
    since = "" if one.since is None else f", since {day_and_moment(one.since)}"
    return f"Not a candidate of {one.brokerage}: {why}{since}."


def brokerage_sentence(line: BrokerageAtQueue) -> str:
    """What the queue got in a day, and in how many decisions it was considered."""
    rejected = line.considered - line.chosen
    head = f"{line.brokerage}: got {many(line.jobs_placed, 'job')} in 24 h"
    if not line.considered:
        return f"{head}; it was considered in none of {many(line.decisions, 'decision')}."
    return (
        f"{head}; considered in {line.considered:,} of {many(line.decisions, 'decision')}, chosen in {line.chosen:,},"
        f" rejected in {rejected:,}."
    )


def near_miss_sentence(miss: NearMiss) -> str:
    """``9 chunks with 3,400 jobs would come if maxrss of BNL/MCORE were 32,000 MB instead of 24,000 MB``."""
    field = miss.field.removeprefix("queue.")
    return (
        f"{many(miss.chunks, 'chunk')} with {many(miss.jobs, 'job')} would come if {field} of {miss.pseudo_queue}"
        f" were {with_unit(miss.to, miss.unit)} instead of {with_unit(miss.now, miss.unit)}."
    )
